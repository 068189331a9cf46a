"""Keep what a plan adds short-term in its session, and promote what is met again or important."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from ...language.tokenizer import identity
from ...records import Change, Memory
from ...retention.lifecycle import promoted
from ...retrieval.past import MAX_SHORT_TERM
from .planner import Plan

REPEATED = "promoted: it was met again in another session"
IMPORTANT = "promoted: it proved important"
CROWDED = "the session has newer short-term memories"
MIN_PROMOTED_IMPORTANCE = 0.7  # long-term at once


def _words(memory: Memory) -> bytes:
    """Return what memories share that say the same words, whatever turn they come from."""
    return identity(memory.content, verbatim=False, event_ids=())


def keep_short_term(
    plan: Plan, new: Sequence[Memory], held: Mapping[str, Memory], *, hours: float
) -> None:
    """Keep what a plan adds as short-term memories of their sessions.

    Long-term at once is what is important, pinned, in quarantine, of no session, or a summary of
    its session; and what changes, replaces or repeats a memory that is long-term or another
    session's. What the plan met of another session's short-term memories is promoted; of the same
    session's it stays short-term.

    Args:
        plan: of `settled`, where short-term memories stood as active ones.
        new: the facts.
        held: the short-term memories of the scope, by their ids, as they are.
        hours: how long a short-term memory lives.
    """
    own, sessions = {fact.id for fact in new}, {fact.session_id for fact in new}
    until = plan.now + timedelta(hours=hours)
    foreign = {id for id, memory in held.items() if memory.session_id not in sessions}
    elsewhere = {_words(held[id]) for id in foreign}
    # the decisions that concern a long-term memory, or another session's
    lasting = {
        change.group
        for change in plan.changes
        if change.memory.id in foreign or change.memory.id not in own | held.keys()
    } - {None}

    def is_long_term(change: Change, memory: Memory) -> bool:
        """Return True for what the plan brings into being that is long-term at once."""
        return (
            memory.id not in own
            or (change.kind != "add" and memory.state != "superseded")
            or memory.session_id is None
            or memory.state == "quarantined"
            or memory.pinned
            or memory.is_summary
            or memory.importance >= MIN_PROMOTED_IMPORTANCE
            or change.group in lasting
            or _words(memory) in elsewhere
        )

    def tiered(change: Change) -> Change:
        memory = change.memory
        before = held.get(memory.id)
        if before is None and is_long_term(change, memory):
            return change
        if before is not None and memory.state != "active":
            return replace(change, memory=replace(memory, expires_at=before.expires_at))
        if before is not None and (
            memory.id in foreign or memory.importance >= MIN_PROMOTED_IMPORTANCE
        ):
            why = f"{change.why} {REPEATED if memory.id in foreign else IMPORTANT}".strip()
            return replace(change, memory=promoted(memory, plan.now), why=why)
        state = "short_term" if memory.state == "active" else memory.state
        return replace(change, memory=replace(memory, state=state, expires_at=until))

    plan.changes = [tiered(change) for change in plan.changes]
    plan.rows = {change.memory.id: change.memory for change in plan.changes}
    unchanged = foreign - plan.rows.keys()
    for id in filter(unchanged.__contains__, plan.reinforced):
        plan.put("promote", promoted(held[id], plan.now), why=REPEATED)
    plan.reinforced = {id: None for id in plan.reinforced if id not in held}


def drop_crowded(plan: Plan, held: Mapping[str, Memory], *, sums_up: bool) -> list[str]:
    """Let short-term memories beyond the newest 50 of their session expire at once; return the
    sessions with others, which a model is to sum up.

    Args:
        plan: of `settled`.
        held: the short-term memories of the scope, by their ids, as they are.
        sums_up: there is a model, and only turns as they were said expire.
    """
    sessions: dict[str | None, list[Memory]] = {}
    rows = {**held, **plan.rows}.values()
    for memory in sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True):
        if memory.state == "short_term":
            sessions.setdefault(memory.session_id, []).append(memory)
    crowd = [memory for some in sessions.values() for memory in some[MAX_SHORT_TERM:]]
    for memory in crowd:
        if memory.verbatim or not sums_up:
            plan.put("update", replace(memory, expires_at=plan.now), why=CROWDED)
    return list(dict.fromkeys(str(memory.session_id) for memory in crowd if not memory.verbatim))
