"""What keeps a whole store: embedding spaces, leases, the prune. These scripts cross scopes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np

from ...errors import Conflict
from ...records import Scope, Vector
from .. import codec
from ..base import EmbeddingSpace, Pruned, external_name
from ..codec import bounded
from ..values import Gone, SpaceState
from .decoding import named, to_scope
from .forgetting import erase, with_sources
from .session import Session

SCOPES_AT_ONCE = 100
_LOWEST = "\x01"
"""The lowest character that a name may have: no name lies between another one and that one with it at its end."""
SCOPES_OF: Mapping[tuple[str, ...], str] = {
    (): "scopes",
    ("tenant",): "scopes_of_tenant",
    ("app",): "scopes_of_app",
    ("user",): "scopes_of_user",
    ("tenant", "app"): "scopes_of_tenant_and_app",
    ("tenant", "user"): "scopes_of_tenant_and_user",
    ("app", "user"): "scopes_of_app_and_user",
    ("tenant", "app", "user"): "scope_of_all",
}
"""The statement that lists scopes of which these parts are given."""


async def embedding_spaces(session: Session) -> Sequence[EmbeddingSpace]:
    """See `MemoryStore.embedding_spaces`."""
    return [
        EmbeddingSpace(
            number=row["number"],
            name=row["name"],
            dimensions=row["dimensions"],
            probe=None if row["probe"] is None else np.frombuffer(row["probe"], "<f4"),
            state=row["state"],
        )
        for row in await session.rows("embedding_spaces", {})
    ]


async def insert_embedding_space(
    session: Session, name: str, dimensions: int, probe: Vector | None, state: SpaceState = "current"
) -> EmbeddingSpace | None:
    """The new embedding space, still without its table; None when somebody else added one at the same time."""
    packed = None if probe is None else np.asarray(probe, "<f4").tobytes()
    values = {"name": name, "dimensions": dimensions, "probe": packed, "state": state}
    if not await session.run("insert_embedding_space", values):
        return None
    return found(await embedding_spaces(session), name, dimensions)


def found(known: Sequence[EmbeddingSpace], name: str, dimensions: int) -> EmbeddingSpace | None:
    """The embedding space of this name and width among the known ones."""
    return next((one for one in known if (one.name, one.dimensions) == (name, dimensions)), None)


async def finish_replacing(session: Session, number: int) -> None:
    """See `MemoryStore.finish_replacing`."""
    if not await session.run("finish_embedding_space", {"number": number}):
        raise Conflict("Another embedder was chosen meanwhile to replace the current one; nothing was changed.")
    await session.run("retire_embedding_spaces", {"number": number})


async def note_width(session: Session, *, tenant: str, dimensions: int, most: int) -> None:
    """Takes a slot for the width, if one is free."""
    await session.run("note_width", {"tenant": tenant, "dimensions": dimensions, "most": most})


async def widths(session: Session, *, tenant: str) -> Sequence[int]:
    """The widths noted of a tenant."""
    return [row["dimensions"] for row in await session.rows("widths", {"tenant": tenant})]


async def keeps_short_term(session: Session) -> bool:
    """See `MemoryStore.keeps_short_term`."""
    return bool((await session.rows("any_short_term", {}))[0]["kept"])


async def release_widths(session: Session) -> None:
    """Forgets the widths of which a tenant keeps no vectors."""
    for one in await embedding_spaces(session):
        if one.name == external_name(one.dimensions):
            width = {"dimensions": one.dimensions}
            kept = await session.rows("tenants_of_width", width, space_number=one.number)
            await session.run("release_widths", {**width, "tenants": [row["tenant"] for row in kept]})


async def lease(session: Session, name: str, owner: str, *, seconds: float) -> bool:
    """See `MemoryStore.lease`."""
    return bool(await session.run("take_lease", {"name": name, "owner": owner, "seconds": seconds}))


async def about(session: Session) -> Mapping[str, str]:
    """See `MemoryStore.about`."""
    return {row["part"]: row["text"] for row in await session.rows("about", {}) if row["text"]}


async def scopes(
    session: Session, *, tenant: str | None, user: str | None, app: str | None, after: Scope | None, limit: int
) -> Sequence[Scope]:
    """See `MemoryStore.scopes`."""
    parts = named(tenant=tenant, app=app, user=user)
    given = {name: value for name, value in parts.items() if value is not None}
    start = _first_names(given, after)
    if start is None:
        return []
    indexed = {**given, **{f"from_{name}": value for name, value in start.items()}, "limit": bounded(limit)}
    others = {f"after_{name}": after and getattr(after, name) for name in parts}
    short, long = await session.several(
        [(SCOPES_OF[tuple(given)], indexed), ("long_scopes", {**parts, **others, "limit": bounded(limit)})]
    )
    scopes = sorted(map(to_scope, (*short, *long)), key=lambda scope: (scope.tenant, scope.app, scope.user))
    return scopes[: bounded(limit)]


def _first_names(given: Mapping[str, str], after: Scope | None) -> Mapping[str, str] | None:
    """Return the names that the first scope after another one may have, in the parts that are not given.

    Args:
        given: the parts that all scopes have in common, in the order of the scopes.
        after: the last scope of the page before; None: there is none.

    Returns:
        The lowest names, by part; None where no scope can follow.
    """
    free = [name for name in ("tenant", "app", "user") if name not in given]
    first = dict.fromkeys(free, "")
    if after is None:
        return first
    last: str | None = None
    for name in ("tenant", "app", "user"):
        value = getattr(after, name)
        if name not in given:
            first[name], last = value, name
        elif given[name] > value:
            return first
        elif given[name] < value:
            break
    if last is None:
        return None
    first[last] += _LOWEST
    return first


async def lacking_vectors(
    session: Session, scopes: Sequence[Scope], space_number: int, *, now: datetime
) -> Sequence[Scope]:
    """See `MemoryStore.lacking_vectors`."""
    values = {"scope_ids": [scope.id for scope in scopes], "now": now}
    found = await session.rows("lacking_vectors", values, space_number=space_number)
    return [to_scope(row) for row in found]


async def crowded(session: Session, *, above: int, now: datetime) -> Sequence[tuple[Scope, int]]:
    """See `MemoryStore.crowded`."""
    found = await session.rows("crowded_scopes", {"above": bounded(above), "now": now})
    return [(to_scope(row), row["visible"]) for row in found]


async def expired_scopes(
    session: Session, *, after: str | bytes | None, now: datetime
) -> Sequence[tuple[str | bytes, Scope]]:
    """The next scopes that hold something to prune, each after its id as the database has it."""
    found = await session.rows("expired_scopes", {"after": after, "now": now, "limit": SCOPES_AT_ONCE})
    return [(row["scope_id"], to_scope(row)) for row in found]


async def prune(
    session: Session,
    expired_in: Sequence[tuple[str | bytes, Scope]],
    *,
    now: datetime,
    popular_after: int,
    dry_run: bool,
) -> Pruned:
    """Invariant 7 over some scopes, in one transaction that holds their locks: taken in the order of the scopes' ids,
    in which every writer takes them.
    """
    scopes = [{"scope_id": scope_id} for scope_id, _ in expired_in]
    if not dry_run:
        await session.run_many("advance_version", [{**whose, "step": 1} for whose in scopes])
    expired = await session.several([("expired_memories", {**whose, "now": now}) for whose in scopes])
    pruned = Pruned()
    for (_, scope), whose, rows in zip(expired_in, scopes, expired, strict=True):
        unused = [row["id"] for row in rows if row["delivered"] < popular_after]
        doomed = await with_sources(session, whose["scope_id"], unused)
        going = frozenset(doomed)
        popular = [row for row in rows if row["id"] not in going]
        gone = tuple(Gone(scope, id, "expired") for id in doomed)
        pruned += Pruned(deleted=len(doomed), extended=len(popular), gone=gone)
        if dry_run:
            continue
        await erase(session, whose["scope_id"], doomed)  # first: the counters are locked after the memories
        by_ttl: dict[int | None, list[str]] = defaultdict(list)
        for row in popular:
            by_ttl[row["ttl_days"]].append(row["id"])
        for ttl_days, ids in by_ttl.items():
            kept = {**whose, "ids": ids}
            await session.run_many("extend_memories", [{**kept, "expires_at": codec.expiry(ttl_days, now)}])
            await session.run_many("reset_delivered", [kept])
    return pruned
