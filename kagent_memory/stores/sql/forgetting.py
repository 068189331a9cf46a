"""Erasing memories with all that belongs to them, so that nothing of them is left and nothing
brings them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from ...records import Memory, Revision
from ..codec import known
from ..decisions import tombstones_of
from ..values import Whole, every_state, with_after
from .filters import read_salt
from .queue import clear, delete_jobs, touch
from .receipts import add_receipt
from .session import Transaction
from .spaces import erase_vectors
from .transfer import replace_revisions, wholes


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
        await touch(session, 1)
    chosen = known(ids)
    if everything:
        chosen = await session.ids("scope_memories")
    elif session_id is not None:
        said = await session.ids("session_memories", session_id=session_id)
        chosen = list(dict.fromkeys((*chosen, *said)))
    chosen = [*chosen, *await _facts_of_turns(session, chosen)]
    lineage = await _Lineage.of(session, chosen)
    turns = await _turns_of_facts(session, lineage.erased.values())
    lineage.erased |= await wholes(session, turns)
    if dry_run:
        return tuple(lineage.erased)
    withdrawn = await delete_jobs(session, session_id, everything)
    tombstones = await lineage.tombstones(session)
    tombstones |= {("event", event) for event in (*withdrawn, *event_ids)}
    if tombstones:
        kinds, keys = zip(*sorted(tombstones), strict=True)
        await session.send("insert_tombstones", kinds=list(kinds), keys=list(keys), at=now)
    await clear(session, frozenset(key for kind, key in tombstones if kind == "event"))
    gone = tuple(lineage.erased)
    await replace_revisions(session, lineage.reworded)
    await erase(session, gone)
    if who is not None and (gone or withdrawn):
        await add_receipt(session, "forget", gone, who=who, now=now)
    return gone


async def evict(
    session: Transaction, ids: Sequence[str], *, keep: int, now: datetime
) -> tuple[str, ...]:
    """See `MemoryStore.evict`."""
    await touch(session, 1)
    counts = await session.rows("scope_counts", now=now, popular_after=0)
    too_many = max(sum(row["visible"] for row in counts) - keep, 0)
    ids = known(ids)
    visible = await session.rows("visible_memories", ids=ids, now=now, superseded=False)
    loose = {row["id"] for row in visible if not row["pinned"]}
    gone = await with_sources(session, [id for id in ids if id in loose][:too_many])
    await erase(session, gone)
    return tuple(gone)


async def with_sources(session: Transaction, ids: Sequence[str]) -> Sequence[str]:
    """Return these memories of a scope, and then those that were merged into them: what they stand
    for goes with them.
    """
    found = fresh = dict.fromkeys(ids)
    while fresh:
        merged = await session.ids("merged_into", ids=list(fresh))
        fresh = dict.fromkeys(id for id in merged if id not in found)
        found = found | fresh
    return list(found)


async def erase(session: Transaction, ids: Sequence[str]) -> None:
    """Delete these memories of a scope and all that belongs to them; the scope's lock is held."""
    if not ids:
        return
    ids = list(ids)
    await erase_vectors(session, ids=ids)
    # The memories before their counters: who counts meanwhile is waited for, and what they counted
    # goes too.
    for statement in (
        "unlink_memories",
        "erase_memories",
        "erase_stats",
        "end_decisions",
        "erase_revisions",
        "erase_scope_index",
        "mark_erased",
    ):
        await session.send(statement, ids=ids)


async def erase_some(
    session: Transaction, *, limit: int, who: str | None, now: datetime
) -> tuple[int, bool]:
    """Erase so many memories of a scope; when none is left, all else of it, so that nothing tells
    that it was there.

    Gives how many memories it erased, and whether the scope is gone.
    """
    await touch(session, 1)
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


async def _facts_of_turns(session: Transaction, ids: Sequence[str]) -> list[str]:
    """Return the ids of the facts that came from the kept turns among these memories alone."""
    events: dict[str | None, set[str]] = {}
    for turn in await _stored(session, ids):
        if turn.state == "source":
            events.setdefault(turn.session_id, set()).update(turn.event_ids)
    found: list[str] = []
    for session_id, said in events.items():
        own = await session.ids("session_memories", session_id=session_id)
        facts = await _stored(session, own)
        found += (one.id for one in facts if one.event_ids and said.issuperset(one.event_ids))
    return [id for id in found if id not in ids]


async def _stored(session: Transaction, ids: Sequence[str]) -> Sequence[Memory]:
    """Return these memories of a scope, whatever their state."""
    return await session.memories("stored_memories", ids=list(ids)) if ids else ()


async def _turns_of_facts(session: Transaction, facts: Iterable[Whole]) -> list[str]:
    """Return the ids of the kept turns that facts came from, or that said the same."""
    ids: set[str] = set()
    said: set[tuple[str | None, str]] = set()
    for one in facts:
        if one.memory.state != "source":
            ids.add(one.memory.id)
            said |= {(one.memory.session_id, event) for event in _events_of(one)}
    if not ids:
        return []
    event_ids = sorted({event for _, event in said})
    return [
        row["id"]
        for row in await session.rows("sources_of", ids=sorted(ids), event_ids=event_ids)
        if not ids.isdisjoint(row["links"])
        or any((row["session_id"], event) in said for event in row["event_ids"])
    ]


@dataclass(slots=True)
class _Lineage:
    """Memories and keys that go when some memories are forgotten.

    Attributes:
        erased: by their ids, in the order in which they were found.
        made: the ids of those among them that hold the others' words because of a decision that was
            undone.
        reworded: revisions of memories that stay, without the words that such a decision had
            brought into them.
    """

    erased: dict[str, Whole] = field(default_factory=dict[str, Whole])
    made: set[str] = field(default_factory=set[str])
    reworded: list[Revision] = field(default_factory=list[Revision])

    @classmethod
    async def of(cls, session: Transaction, ids: Sequence[str]) -> Self:
        """Return the lineage of these memories: what was made of them goes too, however it was
        made.
        """
        lineage, seen, fresh = cls(), {*ids}, ids
        stretches: dict[tuple[str, int], Sequence[Revision]] = {}
        while fresh:
            found = await wholes(session, fresh)
            lineage.erased |= {id: found[id] for id in fresh if id in found}
            near = await session.ids("kin", ids=fresh)
            made = await _undone(
                session, [(one, one.revisions) for one in found.values()], stretches
            )
            lineage.made |= made - seen.union(near)
            fresh = [id for id in dict.fromkeys((*near, *sorted(made))) if id not in seen]
            seen.update(fresh)
        clean: dict[tuple[str, int], Revision] = {}
        # of nested ones the outer is last
        for (id, _), (first, *others) in sorted(stretches.items(), reverse=True):
            if id not in lineage.erased and first.before is not None:
                for one in (first, *others):
                    before = replace(first.before, revision=one.revision)
                    clean[id, one.revision] = replace(one, before=before, event_ids=())
        lineage.reworded += clean.values()
        return lineage

    async def tombstones(self, session: Transaction) -> set[tuple[str, str]]:
        """Return the events and the texts of every state that the memories ever had.

        What an undone decision made has events from the memories that it was made of: those of the
        ones that stay stay too.
        """
        if not self.erased:
            return set()
        salt = await read_salt(session)
        found: set[tuple[str, str]] = set()
        for id, one in self.erased.items():
            stones = tombstones_of(one, salt)
            found |= {stone for stone in stones if stone[0] == "text"}
            if id in self.made:
                continue
            events = _events_of(one)
            # what it was made of may stay
            if (one.memory.state, one.memory.superseded_by) == ("superseded", None):
                groups = sorted({revision.group for revision in one.revisions if revision.group})
                members = [
                    row["memory_id"]
                    for group in groups
                    for row in await session.rows("revisions_in", group=group)
                ]
                stays = sorted(set(members) - self.erased.keys())
                others = await wholes(session, stays)
                events = events.difference(*map(_events_of, others.values()))
            found |= {("event", event) for event in events}
        return found


async def _undone(
    session: Transaction,
    sources: Sequence[tuple[Whole, Sequence[Revision]]],
    stretches: dict[tuple[str, int], Sequence[Revision]],
) -> set[str]:
    """Return the memories that decisions made of these, or put in their place, and that were undone
    since.

    Where such a decision changed a memory that was there already, the stretch of its history from
    the change to its undo is added to the others, by its id and the revision that begins it.

    Args:
        session: of the transaction.
        sources: memories, each with the part of its history in which it said what is to be
            forgotten.
        stretches: those that are known.
    """
    made: set[str] = set()
    while sources:
        decisions = [decision for one, part in sources for decision in _decisions(one, part)]
        found = await wholes(session, sorted({holder for holder, _ in decisions}))
        sources = []
        for id, decision in decisions:
            if (holder := found.get(id)) is None:
                continue
            place = next(
                (n for n, one in enumerate(holder.revisions) if one.group == decision.group), None
            )
            withdrawn = (holder.memory.state, holder.memory.superseded_by) == ("superseded", None)
            if place is None or holder.revisions[place].before is None:
                if withdrawn or decision.kind == "merge":
                    made.add(id)
            elif (
                decision.kind == "merge" and (id, holder.revisions[place].revision) not in stretches
            ):
                part = _stretch(holder.revisions[place:])
                if not part:  # it stands
                    made.add(id)
                    continue
                stretches[id, part[0].revision] = part
                sources.append((holder, part))
    return made


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


def _stretch(revisions: Sequence[Revision]) -> Sequence[Revision]:
    """Return the revisions from a change to its undo; none where it is not undone."""
    depth = 0
    for count, revision in enumerate(revisions, 1):
        depth += -1 if revision.kind == "undo" else 1
        if not depth:
            return revisions[:count]
    return ()


def _events_of(one: Whole) -> set[str]:
    """Return the events that any state of a memory came of."""
    sources = (*every_state(one.memory, one.revisions), *one.revisions)
    return {event for source in sources for event in source.event_ids}
