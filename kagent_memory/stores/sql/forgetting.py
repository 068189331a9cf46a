"""Erasing memories with all that belongs to them, so that nothing of them is left and nothing
brings them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from ...records import Memory, Revision
from ..codec import known
from ..decisions import tombstones_of
from ..values import Whole, with_after
from .queue import withdraw
from .receipts import add_receipt
from .session import Transaction
from .spaces import erase_vectors
from .write_queries import event_pairs

ERASED_AT_ONCE = 500


async def forget(
    session: Transaction,
    *,
    ids: Sequence[str] = (),
    session_id: str | None = None,
    everything: bool = False,
    event_ids: Sequence[str] = (),
    dry_run: bool,
    who: str | None,
    now: datetime,
) -> tuple[str, ...]:
    """See `Store.forget`."""
    if not dry_run:
        await session.touch(1)
    which = {"ids": known(ids), "session_id": session_id, "everything": everything}
    erased, reworded = await _lineage(session, await session.ids("chosen_memories", **which))
    facts = {id: whole for id, whole in erased.items() if whole.memory.state != "source"}
    said = {
        (whole.memory.session_id, key)
        for whole in facts.values()
        for _, key in tombstones_of(whole)
    }
    if facts:
        turns = await session.ids("sources_of", ids=[*facts], **event_pairs(said))
        erased |= await session.wholes(turns)
    gone = tuple(erased)
    if dry_run:
        return gone
    tombstones = await _tombstones(session, erased) | {("event", event) for event in event_ids}
    events = {key for kind, key in tombstones if kind == "event"}
    withdrawn = await withdraw(session, session_id, everything, events)
    tombstones |= {("event", event) for event in withdrawn}
    if tombstones:
        kinds, keys = zip(*sorted(tombstones), strict=True)
        await session.send("insert_tombstones", kinds=list(kinds), keys=list(keys), at=now)
    await session.run_many("replace_revision", map(session.codec.revision_values, reworded))
    await erase(session, gone)
    if who is not None and (gone or withdrawn):
        await add_receipt(session, "forget", gone, who=who, now=now)
    return gone


async def evict(
    session: Transaction, ids: Sequence[str], *, keep: int, now: datetime, dry_run: bool
) -> tuple[str, ...]:
    """See `MemoryStore.evict`."""
    if not dry_run:
        await session.touch(1)
    gone = await session.ids("evictable", ids=known(ids), keep=keep, now=now)
    if not dry_run:
        await erase(session, gone)
    return tuple(gone)


async def erase(session: Transaction, ids: Sequence[str]) -> None:
    """Delete these memories of a scope and all that belongs to them; the scope's lock is held."""
    ids = sorted(ids)
    for start in range(0, len(ids), ERASED_AT_ONCE):
        batch = ids[start : start + ERASED_AT_ONCE]
        await erase_vectors(session, ids=batch)
        # The memories before their counters: who counts meanwhile is waited for, and what they
        # counted goes too.
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


async def erase_some(
    session: Transaction, *, limit: int, who: str | None, now: datetime
) -> tuple[int, bool]:
    """Erase so many memories of a scope; when none is left, all else of it, so that nothing tells
    that it was there.

    Gives how many memories it erased, and whether the scope is gone.
    """
    await session.touch(1)
    gone = await session.ids("some_memories", limit=limit)
    await erase(session, gone)
    ended = len(gone) < limit
    if ended:
        await erase_vectors(session, "erase_scope_vectors")
        for part in ("stats", "revisions", "jobs", "events", "tombstones", "index"):
            await session.send(f"erase_scope_{part}")
        await session.send("erase_scope")
    if who is not None and gone:
        await add_receipt(session, "forget_tenant", gone, who=who, now=now)
    return len(gone), ended


async def _lineage(
    session: Transaction, ids: Sequence[str]
) -> tuple[dict[str, Whole], Iterable[Revision]]:
    """Return what goes when these memories are forgotten, by id: they, and whatever was made of
    them, however it was made; and revisions of memories that stay, without the words that a
    decision had brought into them and that was undone.
    """
    erased: dict[str, Whole] = {}
    parts: dict[tuple[str, int], Sequence[Revision]] = {}
    seen, near = set[str](), {*ids}
    pending: list[tuple[Whole, Sequence[Revision]]] = []
    while near or pending:
        fresh = await session.wholes(near)
        erased |= fresh
        seen |= near
        pending += [(whole, whole.revisions) for whole in fresh.values()]
        decisions = [pair for whole, part in pending for pair in _decisions(whole, part)]
        holders = await session.wholes({id for id, _ in decisions} - seen)
        near = {*await session.ids("kin", ids=[*near])} - seen
        pending = []
        for id, decision in decisions:
            part = _brought(holders[id], decision) if id in holders else ()
            if part is None:
                near.add(id)
            elif part and (id, part[0].revision) not in parts:
                parts[id, part[0].revision] = part
                pending.append((holders[id], part))
    clean: dict[tuple[str, int], Revision] = {}
    for (id, _), part in sorted(parts.items(), reverse=True):  # of nested ones the outer is last
        if id not in erased and (former := part[0].before):
            for revision in part:
                before = replace(former, revision=revision.revision)
                clean[id, revision.revision] = replace(revision, before=before, event_ids=())
    return erased, clean.values()


def _decisions(one: Whole, part: Sequence[Revision]) -> Iterator[tuple[str, Revision]]:
    """Return the decisions that retired a memory in a part of its history, each with the id of what
    then stood for it.
    """
    numbers = {revision.revision for revision in part}
    for revision, memory in with_after(one.memory, one.revisions):
        if (
            revision.kind in ("merge", "supersede")
            and revision.revision in numbers
            and memory
            and memory.superseded_by
        ):
            yield memory.superseded_by, revision


def _brought(holder: Whole, decision: Revision) -> Sequence[Revision] | None:
    """Return the part of a memory's history in which it held the words of one that a decision
    retired; None: it holds them still, or was made by that decision.
    """
    merges = decision.kind == "merge"
    groups = [revision.group for revision in holder.revisions]
    place = groups.index(decision.group) if decision.group in groups else None
    if place is None or holder.revisions[place].before is None:
        return None if merges or _is_withdrawn(holder.memory) else ()
    return (_until_undone(holder.revisions[place:]) or None) if merges else ()


def _until_undone(revisions: Sequence[Revision]) -> Sequence[Revision]:
    """Return the revisions from a change to its undo; none where it is not undone."""
    depth = 0
    for count, revision in enumerate(revisions, 1):
        depth += -1 if revision.kind == "undo" else 1
        if not depth:
            return revisions[:count]
    return ()


def _is_withdrawn(memory: Memory) -> bool:
    """Return True if a memory was made by a decision that was undone."""
    return (memory.state, memory.superseded_by) == ("superseded", None)


async def _tombstones(session: Transaction, erased: Mapping[str, Whole]) -> set[tuple[str, str]]:
    """Return the events and the texts of every state that the memories ever had.

    What an undone decision made has events from the memories that it was made of: those of the ones
    that stay stay too.
    """
    salt = await session.read_salt()
    withdrawn = {id for id, whole in erased.items() if _is_withdrawn(whole.memory)}
    partners = await session.ids("decided_together", ids=[*withdrawn])
    staying = await session.wholes({*partners} - erased.keys())
    spared = set[tuple[str, str]]().union(*map(tombstones_of, staying.values()))
    tombstones = set[tuple[str, str]]()
    for id, whole in erased.items():
        tombstones |= tombstones_of(whole, salt) - (spared if id in withdrawn else set())
    return tombstones
