"""What of a plan begins as the short-term memory of its session, and which of those that are there become long-term:
pure decisions after those of the consolidation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ..language.tokenizer import identity
from ..records import Change, Memory
from ..retention.lifecycle import promoted
from ..retrieval.past import MAX_SHORT_TERM
from .consolidation import Plan, slot_of

REPEATED = "promoted: it was met again in another session"
IMPORTANT = "promoted: it proved important"
CROWDED = "the session has newer short-term memories"
MIN_PROMOTED_IMPORTANCE = 0.7  # long-term at once

Near = Mapping[int, Sequence[tuple[Memory, float]]]


def said_identity(memory: Memory) -> bytes:
    """What memories share that say the same in the same words, whatever turn they come from."""
    return identity(memory.content, verbatim=False, event_ids=())


def with_short_term(new: Sequence[Memory], near: Near, alike: Near, held: Mapping[str, Memory]) -> Near:
    """What is near the new memories, and the short-term ones that are: those found `alike` before as they are now, and
    those of the same words or slot. They stand there as active ones.
    """
    active = {id: replace(memory, state="active") for id, memory in held.items()}
    same: dict[bytes | str, list[Memory]] = {}
    for memory in active.values():
        for key in () if memory.verbatim else (said_identity(memory), slot_of(memory)):
            same.setdefault(key or b"", []).append(memory)
    close = {place: list(some) for place, some in near.items()}
    for place, fact in enumerate(new):
        if fact.verbatim or fact.state != "active":
            continue
        values = {memory.id: value for memory, value in alike.get(place, ()) if memory.id in active}
        for key in filter(None, (said_identity(fact), slot_of(fact))):
            values |= {memory.id: 1.0 for memory in same.get(key, ())}
        if values:
            there = close.setdefault(place, [])
            there += [(active[id], value) for id, value in values.items()]
    return close


def tiered(plan: Plan, new: Sequence[Memory], held: Mapping[str, Memory], *, hours: float, now: datetime) -> Plan:
    """The plan with what it adds as short-term memories of their sessions, but for what is long-term at once.

    That is what is important, pinned, in quarantine, of no session, or a summary of its session; and what changes,
    replaces or repeats a memory that is long-term or another session's. What the plan met of another session's
    short-term memories is promoted; of the same session's it stays short-term. Of a session with too many the oldest
    expire at once.

    Args:
        plan: of `settled`, where short-term memories stood as active ones.
        new: the facts.
        held: the short-term memories of the scope, by their ids, as they are.
        hours: how long a short-term memory lives.
        now: when the plan is made.
    """
    return _Tiers(plan, held, {fact.id: fact for fact in new}, hours, now).sorted_plan()


@dataclass(slots=True)
class _Tiers:
    """One plan on its way.

    Attributes:
        changes: the plan's so far.
        until: when what begins now ends.
        lasting: the decisions that concern a long-term memory, or another session's.
    """

    plan: Plan
    held: Mapping[str, Memory]
    new: Mapping[str, Memory]
    hours: float
    now: datetime
    changes: list[Change] = field(default_factory=list[Change])
    until: datetime = field(init=False)
    lasting: frozenset[str] = field(init=False)
    sessions: frozenset[str | None] = field(init=False)
    elsewhere: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.until = self.now + timedelta(hours=self.hours)
        self.sessions = frozenset(fact.session_id for fact in self.new.values())
        named = (change for change in self.plan.changes if change.group is not None)
        self.lasting = frozenset(change.group or "" for change in named if self._is_elsewhere(change.memory.id))
        self.elsewhere = frozenset(said_identity(one) for one in self.held.values() if self._is_elsewhere(one.id))

    def sorted_plan(self) -> Plan:
        for change in self.plan.changes:
            id = change.memory.id
            self.changes.append(self._of_held(change) if id in self.held else self._of_new(change))
        changed = {change.memory.id for change in self.changes}
        again = [self.held[id] for id in self.plan.reinforced if id in self.held and id not in changed]
        for memory in again:
            if self._is_elsewhere(memory.id):
                lasting = replace(promoted(memory, self.now), updated_at=self.now, revision=memory.revision + 1)
                self.changes.append(Change(kind="promote", memory=lasting, who="consolidation", why=REPEATED))
        self._expire_oldest()
        reinforced = tuple(id for id in self.plan.reinforced if id not in self.held)
        return replace(self.plan, changes=tuple(self.changes), reinforced=reinforced)

    def _is_elsewhere(self, id: str) -> bool:
        """Whether a memory is neither new nor a short-term one of the session that the new ones come from."""
        return id not in self.new and (id not in self.held or self.held[id].session_id not in self.sessions)

    def _of_held(self, change: Change) -> Change:
        """A change to a short-term memory that is there: what stands may be promoted, what retires ends as it would."""
        memory = change.memory
        if memory.state != "active":
            return replace(change, memory=replace(memory, expires_at=self.held[memory.id].expires_at))
        if self._is_elsewhere(memory.id):
            return replace(change, memory=promoted(memory, self.now), why=f"{change.why} {REPEATED}".strip())
        if memory.importance >= MIN_PROMOTED_IMPORTANCE:
            return replace(change, memory=promoted(memory, self.now), why=f"{change.why} {IMPORTANT}".strip())
        return replace(change, memory=replace(memory, state="short_term", expires_at=self.until))

    def _of_new(self, change: Change) -> Change:
        """A change to any other memory: what it brings into being is short-term, unless it is long-term at once."""
        memory = change.memory
        begins = change.kind == "add" or memory.state == "superseded"
        if memory.id not in self.new or not begins:
            return change
        is_long_term = (
            memory.session_id is None
            or memory.state == "quarantined"
            or memory.pinned
            or memory.is_summary
            or memory.importance >= MIN_PROMOTED_IMPORTANCE
            or (change.group is not None and change.group in self.lasting)
            or said_identity(memory) in self.elsewhere
        )
        if is_long_term:
            return change
        state = "short_term" if memory.state == "active" else memory.state
        return replace(change, memory=replace(memory, state=state, expires_at=self.until))

    def _expire_oldest(self) -> None:
        """Of each session that more came to, what is too much ends now: the oldest first."""
        standing = {**self.held, **{change.memory.id: change.memory for change in self.changes}}
        crowded: dict[str | None, list[Memory]] = {}
        for memory in standing.values():
            if memory.state == "short_term" and memory.session_id in self.sessions:
                crowded.setdefault(memory.session_id, []).append(memory)
        place = {change.memory.id: number for number, change in enumerate(self.changes)}
        for some in crowded.values():
            some.sort(key=lambda one: (one.created_at, one.id), reverse=True)
            for memory in some[MAX_SHORT_TERM:]:
                ended = replace(memory, expires_at=self.now)
                if memory.id in place:
                    change = self.changes[place[memory.id]]
                    self.changes[place[memory.id]] = replace(change, memory=ended)
                else:
                    ended = replace(ended, updated_at=self.now, revision=memory.revision + 1)
                    self.changes.append(Change(kind="update", memory=ended, who="consolidation", why=CROWDED))
