"""Short-term memories: what a session keeps for itself, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ..language.tokenizer import identity
from ..records import Memory
from ..retrieval.views import MAX_SHORT_TERM
from .planner import Plan

MIN_PROMOTED_IMPORTANCE = 0.7  # long-term at once
CROWDED = "the session has newer short-term memories"


def tiered(
    new: Sequence[Memory], held: Sequence[Memory], *, hours: float, now: datetime
) -> Sequence[Memory]:
    """Return facts as short-term memories of their sessions.

    Long-term at once is what is important, pinned, of no session, a summary of its session, or
    what another session's short-term memory says in the same words.

    Args:
        new: the rows that the facts would become.
        held: the short-term memories of the scope.
        hours: how long they live; 0: all is long-term at once.
        now: when they are added.
    """
    own = {fact.session_id for fact in new}
    elsewhere = {_words(memory) for memory in held if memory.session_id not in own}

    def is_long_term(fact: Memory) -> bool:
        stays = fact.pinned or fact.is_summary or fact.session_id is None
        is_important = fact.importance >= MIN_PROMOTED_IMPORTANCE
        return stays or is_important or _words(fact) in elsewhere

    return [
        fact
        if not hours or fact.state != "active" or is_long_term(fact)
        else replace(fact, state="short_term", expires_at=now + timedelta(hours=hours))
        for fact in new
    ]


def expire_crowd(plan: Plan, held: Sequence[Memory], *, sums_up: bool) -> dict[str, int]:
    """Let short-term memories beyond the newest 50 of their session expire at once; return how many
    of each session with others stay when a model sums those up.

    Args:
        plan: of new facts.
        held: the short-term memories of the scope, as they are.
        sums_up: there is a model, and only turns as they were said expire.
    """
    sessions: dict[str | None, list[Memory]] = defaultdict(list)
    rows = {**{memory.id: memory for memory in held}, **plan.rows}.values()
    for memory in sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True):
        if memory.state == "short_term":
            sessions[memory.session_id].append(memory)
    crowd = [memory for memories in sessions.values() for memory in memories[MAX_SHORT_TERM:]]
    for memory in crowd:
        if memory.verbatim or not sums_up:
            plan.put("update", replace(memory, expires_at=plan.now), memory, why=CROWDED)
    crowded = (str(memory.session_id) for memory in crowd if not memory.verbatim)
    return dict.fromkeys(crowded, MAX_SHORT_TERM // 2)


def _words(memory: Memory) -> bytes:
    """Return what memories share that say the same words, whatever turn they come from."""
    return identity(memory.content, verbatim=False)
