"""Invariant 7: what expired is erased, or lives on because it was delivered often enough."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from ...records import Scope
from ..values import Gone, Pruned
from .forgetting import erase
from .row_codec import to_scope
from .scripts import run
from .session import Database, Transaction
from .spaces import release_widths

SCOPES_AT_ONCE = 100


async def prune(database: Database, *, now: datetime, popular_after: int, dry_run: bool) -> Pruned:
    """Prune all scopes, some of them in one transaction: see `MemoryStore.prune`."""
    after: Scope | None = None
    total = Pruned()
    while some := await run(database, partial(_expired_scopes, after=after, now=now), write=False):
        script = partial(
            _prune_some,
            scopes=some,
            now=now,
            popular_after=popular_after,
            dry_run=dry_run,
        )
        total += await run(database, script, write=not dry_run)
        after = some[-1]
    if not dry_run:
        await run(database, release_widths, write=True)
    return total


async def _expired_scopes(
    session: Transaction, *, after: Scope | None, now: datetime
) -> Sequence[Scope]:
    """Return the next scopes that hold something to prune."""
    rows = await session.rows(
        "expired_scopes", scope_id=after and after.id, now=now, limit=SCOPES_AT_ONCE
    )
    return [to_scope(row) for row in rows]


async def _prune_some(
    session: Transaction,
    *,
    scopes: Sequence[Scope],
    now: datetime,
    popular_after: int,
    dry_run: bool,
) -> Pruned:
    """Invariant 7 over some scopes, in one transaction that holds their locks: taken in the order
    of the scopes' ids, in which every writer takes them.
    """
    if not dry_run:
        steps = [{"scope_id": scope.id, "step": 1} for scope in scopes]
        await session.run_many("advance_version", steps)
    expired = await session.several(
        ("expired_memories", {"scope_id": scope.id, "now": now, "popular_after": popular_after})
        for scope in scopes
    )
    pruned = Pruned()
    for scope, rows in zip(scopes, expired, strict=True):
        own = session.of(scope)
        doomed, popular = ([row["id"] for row in rows if row["lives"] == fate] for fate in (0, 1))
        gone = tuple(Gone(scope, id, "expired") for id in doomed)
        pruned += Pruned(deleted=len(doomed), extended=len(popular), gone=gone)
        if not dry_run:
            # first: the counters are locked after the memories
            await erase(own, doomed)
            for statement in ("extend_memories", "reset_delivered") if popular else ():
                await own.send(statement, ids=popular, now=now)
    return pruned
