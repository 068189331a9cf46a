"""Delete memories with everything derived from them, so that no trace stays and nothing restores
them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict
from datetime import datetime

from ...concurrency import batched
from ..codec import known
from ..decisions import tombstones_of
from ..receipts import add_receipt
from ..values import Erasure, ForgottenTenant, Whole, with_after
from .queue import withdraw
from .session import Transaction
from .spaces import erase_vectors
from .write_queries import parallel_lists

ERASED_AT_ONCE = 500


async def forget(session: Transaction, which: Erasure) -> tuple[str, ...]:
    """See `Store.forget`."""
    if not which.dry_run:
        await session.touch(1)
    chosen = await session.ids("chosen_memories", **{**asdict(which), "ids": known(which.ids)})
    erased, without_history = await _lineage(session, {*chosen})
    facts = {id: whole for id, whole in erased.items() if whole.memory.state != "source"}
    sources = {
        (whole.memory.session_id, key)
        for whole in facts.values()
        for _, key in tombstones_of(whole)
    }
    if facts:
        turns = await session.ids(
            "sources_of", ids=[*facts], **parallel_lists(sources, "session_ids", "event_ids")
        )
        erased |= await session.wholes(turns)
    erased_ids = tuple(erased)
    if which.dry_run:
        return erased_ids
    salt = await session.read_salt()
    tombstones = {("event", event) for event in which.event_ids}
    tombstones |= {stone for whole in erased.values() for stone in tombstones_of(whole, salt)}
    events = {key for kind, key in tombstones if kind == "event"}
    withdrawn = await withdraw(session, which.session_id, which.everything, events)
    tombstones |= {("event", event) for event in withdrawn}
    if tombstones:
        await session.send(
            "insert_tombstones",
            **parallel_lists(sorted(tombstones), "kinds", "keys"),
            at=which.now,
        )
    for statement in ("end_decisions", "erase_revisions") if without_history else ():
        await session.send(statement, ids=sorted(without_history))
    await erase(session, erased_ids)
    if which.who is not None and (erased_ids or withdrawn):
        await add_receipt(session, "forget", erased_ids, who=which.who, now=which.now)
    return erased_ids


async def evict(
    session: Transaction, ids: Sequence[str], *, keep: int, now: datetime, dry_run: bool
) -> tuple[str, ...]:
    """See `MemoryStore.evict`."""
    if not dry_run:
        await session.touch(1)
    evicted_ids = await session.ids("evictable", ids=known(ids), keep=keep, now=now)
    if not dry_run:
        await erase(session, evicted_ids)
    return tuple(evicted_ids)


async def erase(session: Transaction, ids: Sequence[str]) -> None:
    """Delete memories of a scope and all rows that depend on them. The caller holds the scope's
    lock.
    """
    for batch in batched(sorted(ids), ERASED_AT_ONCE):
        await erase_vectors(session, ids=batch)
        # Memories before their counters: this waits for a concurrent count, and deletes its
        # counters too.
        for statement in (
            "unlink_memories",
            "erase_memories",
            "erase_stats",
            "end_decisions",
            "erase_revisions",
            "erase_scope_index",
            "mark_erased",
        ):
            await session.send(statement, ids=batch)
    await session.send("mark_empty")


async def erase_some(
    session: Transaction, *, limit: int, who: str | None, now: datetime
) -> ForgottenTenant:
    """Delete up to `limit` memories of a scope, and everything else of it once none is left."""
    await session.touch(1)
    erased_ids = await session.ids("some_memories", limit=limit)
    await erase(session, erased_ids)
    is_empty = len(erased_ids) < limit
    if is_empty:
        await erase_vectors(session, "erase_scope_vectors")
        for part in ("_stats", "_revisions", "_jobs", "_events", "_tombstones", "_index", ""):
            await session.send(f"erase_scope{part}")
    if who is not None and erased_ids:
        await add_receipt(session, "forget_tenant", erased_ids, who=who, now=now)
    return ForgottenTenant(scopes=int(is_empty), memories=len(erased_ids), done=False)


async def _lineage(session: Transaction, ids: Set[str]) -> tuple[dict[str, Whole], Set[str]]:
    """Return the memories to forget along with these, and those whose history must go.

    Returns:
        id → memory of these and of everything made from them, by any decision; and the ids of
        memories that stay without their history, because an undone merge brought others' words
        into it.
    """
    memories: dict[str, Whole] = {}
    lineage, expanded, frontier, visited = {*ids}, set[str](), {*ids}, set[str]()
    while frontier or lineage - expanded:
        batch = await session.wholes(frontier)
        memories |= batch
        visited |= frontier
        merged = {id for whole in batch.values() for id in _holders(whole, "merge")}
        replaced = {id for whole in batch.values() for id in _holders(whole, "supersede")}
        replacements = {batch[id].memory.superseded_by for id in batch.keys() & lineage}
        kin = await session.ids("kin", ids=[*lineage - expanded], holders=[*merged | replaced])
        expanded |= lineage
        lineage |= {*kin, *merged & replacements}
        frontier = {*kin, *merged} - visited
    erased = {id: memories[id] for id in memories if id in lineage}
    return erased, memories.keys() - erased.keys()


def _holders(whole: Whole, kind: str) -> Set[str]:
    """Return the ids of the memories that ever replaced this one by a decision of this kind."""
    return {
        memory.superseded_by
        for revision, memory in with_after(whole.memory, whole.revisions)
        if revision.kind == kind and memory and memory.superseded_by
    }
