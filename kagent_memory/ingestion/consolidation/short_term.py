"""Keep what a plan adds short-term in its session, and promote what is met again or important."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ...language.tokenizer import identity
from ...records import Change, Memory
from ...retention.lifecycle import promoted, revised
from ...retrieval.past import MAX_SHORT_TERM
from .planner import Plan
from .similarity import WHO, slot_of

REPEATED = "promoted: it was met again in another session"
IMPORTANT = "promoted: it proved important"
CROWDED = "the session has newer short-term memories"
MIN_PROMOTED_IMPORTANCE = 0.7  # long-term at once

Near = Mapping[int, Sequence[tuple[Memory, float]]]


def said_identity(memory: Memory) -> bytes:
    """Return what memories share that say the same words, whatever turn they come from."""
    return identity(memory.content, verbatim=False, event_ids=())


def with_short_term(
    new: Sequence[Memory], near: Near, alike: Near, held: Mapping[str, Memory]
) -> Near:
    """Return what is near the new memories, with short-term ones as active ones.

    Those are what was found `alike` before, as it is now, and what has the same words or slot.
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


def tiered(
    plan: Plan, new: Sequence[Memory], held: Mapping[str, Memory], *, hours: float, now: datetime
) -> Plan:
    """Return the plan with what it adds as short-term memories of their sessions.

    Long-term at once is what is important, pinned, in quarantine, of no session, or a summary of
    its session; and what changes, replaces or repeats a memory that is long-term or another
    session's. What the plan met of another session's short-term memories is promoted; of the same
    session's it stays short-term.

    Args:
        plan: of `settled`, where short-term memories stood as active ones.
        new: the facts.
        held: the short-term memories of the scope, by their ids, as they are.
        hours: how long a short-term memory lives.
        now: when the plan is made.
    """
    own, sessions = {fact.id for fact in new}, {fact.session_id for fact in new}
    known = own | held.keys()
    until = now + timedelta(hours=hours)
    foreign = {id for id, memory in held.items() if memory.session_id not in sessions}
    elsewhere = {said_identity(held[id]) for id in foreign}
    # the decisions that concern a long-term memory, or another session's
    lasting = {
        change.group
        for change in plan.changes
        if change.memory.id in foreign or change.memory.id not in known
    } - {None}

    def of_held(change: Change, memory: Memory) -> Change:
        """Return a change to a short-term memory: what stands may be promoted, what retires ends as
        it would.
        """
        if memory.state != "active":
            return replace(change, memory=replace(memory, expires_at=held[memory.id].expires_at))
        if memory.id in foreign or memory.importance >= MIN_PROMOTED_IMPORTANCE:
            why = REPEATED if memory.id in foreign else IMPORTANT
            return replace(change, memory=promoted(memory, now), why=f"{change.why} {why}".strip())
        return replace(change, memory=replace(memory, state="short_term", expires_at=until))

    def of_new(change: Change, memory: Memory) -> Change:
        """Return any other change: what it brings into being is short-term, unless it is long-term
        at once.
        """
        is_long_term = (
            memory.id not in own
            or (change.kind != "add" and memory.state != "superseded")
            or memory.session_id is None
            or memory.state == "quarantined"
            or memory.pinned
            or memory.is_summary
            or memory.importance >= MIN_PROMOTED_IMPORTANCE
            or change.group in lasting
            or said_identity(memory) in elsewhere
        )
        if is_long_term:
            return change
        state = "short_term" if memory.state == "active" else memory.state
        return replace(change, memory=replace(memory, state=state, expires_at=until))

    changes = [
        (of_held if change.memory.id in held else of_new)(change, change.memory)
        for change in plan.changes
    ]
    changed = {change.memory.id for change in changes}
    for id in plan.reinforced:
        if id in foreign and id not in changed:
            memory = revised(promoted(held[id], now), now=now)
            changes.append(Change(kind="promote", memory=memory, who=WHO, why=REPEATED))
    reinforced = tuple(id for id in plan.reinforced if id not in held)
    return replace(plan, changes=tuple(changes), reinforced=reinforced)


def crowded(plan: Plan, held: Mapping[str, Memory]) -> list[Memory]:
    """Return the short-term memories that a plan leaves in a session beyond its newest 50."""
    standing = {**held, **{change.memory.id: change.memory for change in plan.changes}}
    sessions: dict[str | None, list[Memory]] = {}
    for memory in sorted(standing.values(), key=lambda one: (one.created_at, one.id), reverse=True):
        if memory.state == "short_term":
            sessions.setdefault(memory.session_id, []).append(memory)
    return [memory for some in sessions.values() for memory in some[MAX_SHORT_TERM:]]


def without_crowd(plan: Plan, crowd: Sequence[Memory], *, now: datetime) -> Plan:
    """Return the plan that lets these memories expire at once."""
    changes = list(plan.changes)
    place = {change.memory.id: number for number, change in enumerate(changes)}
    for memory in crowd:
        ended = replace(memory, expires_at=now)
        if (number := place.get(memory.id)) is not None:
            changes[number] = replace(changes[number], memory=ended)
        else:
            ended = revised(ended, now=now)
            changes.append(Change(kind="update", memory=ended, who=WHO, why=CROWDED))
    return replace(plan, changes=tuple(changes))
