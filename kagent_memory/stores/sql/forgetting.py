"""Erasing memories with all that belongs to them, so that nothing of them is left and nothing brings them back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ...records import Memory, Scope
from .. import codec
from ..codec import known
from . import receipts
from .decoding import to_memory, to_revision
from .queue import clear, delete_jobs, touch
from .session import Session


async def forget(
    session: Session,
    scope: Scope,
    *,
    ids: Sequence[str],
    session_id: str | None,
    everything: bool,
    event_ids: Sequence[str],
    dry_run: bool,
    who: str | None,
    now: datetime,
) -> tuple[str, ...]:
    """See `Store.forget`."""
    if not dry_run:
        await touch(session, scope, 1)
    chosen = await _chosen(session, scope, known(ids), session_id, everything)
    erased = await _with_lineage(session, scope, chosen)
    if dry_run:
        return tuple(memory.id for memory in erased)
    withdrawn = await delete_jobs(session, scope, session_id, everything)
    tombstones = await _tombstones(session, scope, erased)
    tombstones |= {("event", event) for event in (*withdrawn, *event_ids)}
    if tombstones:
        kinds, keys = zip(*sorted(tombstones), strict=True)
        values = {"scope_id": scope.id, "kinds": list(kinds), "keys": list(keys), "at": now}
        await session.run_many("insert_tombstones", [values])
    await clear(session, scope, frozenset(key for kind, key in tombstones if kind == "event"))
    gone = tuple(memory.id for memory in erased)
    await erase(session, scope.id, gone)
    if who is not None and (gone or withdrawn):
        await receipts.add(session, scope, "forget", gone, who=who, now=now)
    return gone


async def evict(session: Session, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime) -> tuple[str, ...]:
    """See `MemoryStore.evict`."""
    await touch(session, scope, 1)
    counts = await session.rows("scope_counts", {"scope_id": scope.id, "now": now, "popular_after": 0})
    too_many = max(sum(row["visible"] for row in counts) - keep, 0)
    values = {"scope_id": scope.id, "ids": known(ids), "now": now, "superseded": False}
    loose = {row["id"] for row in await session.rows("visible_memories", values) if not row["pinned"]}
    gone = [id for id in known(ids) if id in loose][:too_many]
    await erase(session, scope.id, gone)
    return tuple(gone)


async def erase(session: Session, scope_id: str | bytes, ids: Sequence[str]) -> None:
    """Deletes these memories of a scope and all that belongs to them; the scope's lock is held."""
    if not ids:
        return
    values = {"scope_id": scope_id, "ids": list(ids)}
    for row in await session.rows("embedding_spaces", {}):
        await session.run_many("erase_vectors", [values], space_number=row["number"])
    # The memories before their counters: who counts meanwhile is waited for, and what they counted goes too.
    for statement in ("erase_memories", "erase_stats", "end_decisions", "erase_revisions"):
        await session.run_many(statement, [values])
    await session.run_many("erase_scope_index", [{"scope_id": scope_id}])
    await session.run_many("mark_erased", [{"scope_id": scope_id}])


async def tenant_scopes(session: Session, *, tenant: str, limit: int) -> Sequence[Scope]:
    """Some scopes of a tenant of which anything is left."""
    found = await session.rows("tenant_scopes", {"tenant": tenant, "limit": limit})
    return [Scope(tenant, row["user_id"], row["app"]) for row in found]


async def erase_some(session: Session, scope: Scope, *, limit: int, who: str | None, now: datetime) -> tuple[int, bool]:
    """Erases so many memories of a scope; when none is left, all else of it, so that nothing tells that it was there.

    Gives how many memories it erased, and whether the scope is gone.
    """
    await touch(session, scope, 1)
    gone = [row["id"] for row in await session.rows("some_memories", {"scope_id": scope.id, "limit": limit})]
    await erase(session, scope.id, gone)
    ended = len(gone) < limit
    if ended:
        whose = {"scope_id": scope.id}
        for row in await session.rows("embedding_spaces", {}):
            await session.run_many("erase_scope_vectors", [whose], space_number=row["number"])
        for part in ("stats", "revisions", "jobs", "events", "tombstones", "index"):
            await session.run_many(f"erase_scope_{part}", [whose])
        await session.run_many("erase_scope", [whose])
    if who is not None and gone:
        await receipts.add(session, scope, "forget_tenant", gone, who=who, now=now)
    return len(gone), ended


async def drop_tokens(session: Session, *, tenant: str) -> int:
    """Revokes the tenant's tokens; gives how many."""
    return await session.run("drop_tokens", {"tenant": tenant})


async def erase_widths(session: Session, *, tenant: str) -> None:
    """Forgets which widths of vectors the tenant's callers kept."""
    await session.run("erase_widths", {"tenant": tenant})


async def _chosen(
    session: Session, scope: Scope, ids: list[str], session_id: str | None, everything: bool
) -> list[str]:
    if everything:
        return [row["id"] for row in await session.rows("scope_memories", {"scope_id": scope.id})]
    if session_id is None:
        return ids
    found = await session.rows("session_memories", {"scope_id": scope.id, "session_id": session_id})
    return list(dict.fromkeys((*ids, *(row["id"] for row in found))))


async def _with_lineage(session: Session, scope: Scope, ids: list[str]) -> list[Memory]:
    chosen, fresh = dict.fromkeys(ids), ids
    while fresh:
        found = await session.rows("kin", {"scope_id": scope.id, "ids": fresh})
        fresh = [row["id"] for row in found if row["id"] not in chosen]
        chosen.update(dict.fromkeys(fresh))
    if not chosen:
        return []
    stored = {
        row["id"]: to_memory(row)
        for row in await session.rows("stored_memories", {"scope_id": scope.id, "ids": list(chosen)})
    }
    return [stored[id] for id in chosen if id in stored]


async def _tombstones(session: Session, scope: Scope, erased: Sequence[Memory]) -> set[tuple[str, str]]:
    # The events and the texts of every state these memories ever had.
    if not erased:
        return set()
    salt = (await session.rows("scope_row", {"scope_id": scope.id}))[0]["key"]
    values = {"scope_id": scope.id, "ids": [memory.id for memory in erased]}
    revisions = [to_revision(row) for row in await session.rows("revisions_of_all", values)]
    states = [*erased, *(revision.before for revision in revisions if revision.before)]
    events: Iterable[str] = (event for source in (*states, *revisions) for event in source.event_ids)
    texts = (codec.forgotten_key(salt, state.session_id, state.content) for state in states)
    return {("event", event) for event in events} | {("text", key) for key in texts}
