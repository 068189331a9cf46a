"""What goes with an answer: the turns its facts came from, and the passages of long memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from ..language.tokenizer import estimated_tokens
from ..records import Memory
from .passages import passage
from .ranking import Ranked
from .ranking.selection import PASSAGE_TOKENS
from .scopes import ManyViews

MIN_PASSAGE_TOKENS = 24
"""What is left of a budget below this is not worth a passage."""


async def with_sources(
    view: ManyViews,
    kept: Sequence[Ranked],
    memories: Mapping[str, Memory],
    *,
    now: datetime,
    limit: int,
) -> tuple[Sequence[Ranked], Mapping[str, Memory]]:
    """Return the answer with the successor of each superseded or corrected fact right before the
    turn that it came from, unless it stands before it already; and the memories by key, with the
    sources of the answer.
    """
    of_facts = [view.key_of(row.id, id) for row in kept for id in memories[row.id].source_ids]
    turns = [row.id for row in kept if memories[row.id].state == "source"]
    facts = {turn: [view.key_of(turn, id) for id in memories[turn].links] for turn in turns}
    missing = [
        key for key in dict.fromkeys(chain(of_facts, *facts.values())) if key not in memories
    ]
    if not missing:
        return kept, memories
    known = {**memories, **await view.memories(missing)}
    successors: dict[str, str] = {}
    fresh = [key for key in chain(*facts.values()) if key not in known]
    while fresh:
        found = await view.former(fresh, now)
        known |= {key: fact for key, fact in found.items() if fact.state == "active"}
        later = {
            key: view.key_of(key, fact.superseded_by)
            for key, fact in found.items()
            if fact.state == "superseded" and fact.superseded_by
        }
        successors |= later
        fresh = [key for key in later.values() if key not in known and key not in successors]
    rows = {row.id: row for row in kept}
    ordered: dict[str, Ranked] = {}
    for row in kept:
        for fact in facts.get(row.id, ()):
            last = _last(fact, successors)
            if last in known and (last != fact or known[last].revision > 1):
                before = rows.get(last, Ranked(last, row.score, None, row.relevance))
                ordered.setdefault(last, before._replace(score=max(before.score, row.score)))
        ordered.setdefault(row.id, row)
    return list(ordered.values())[:limit], known


def _last(key: str, successors: Mapping[str, str]) -> str:
    for _ in successors:  # at most so many steps, should they go in a circle
        key = successors.get(key, key)
    return key


def excerpts_of(
    kept: Sequence[Ranked], memories: Mapping[str, Memory], question: str
) -> Mapping[str, str]:
    """Return the passages of long memories that fit the question, by key."""
    texts = {row.id: memories[row.id].content for row in kept}
    passages = {
        key: passage(text, question, max_tokens=PASSAGE_TOKENS) for key, text in texts.items()
    }
    return {key: text for key, text in passages.items() if text != texts[key]}


def sources_of(
    kept: Sequence[Ranked],
    memories: Mapping[str, Memory],
    key_of: Callable[[str, str], str],
    *,
    question: str,
    max_tokens: int | None,
) -> dict[str, tuple[Memory, ...]]:
    """Return the turns that kept facts came from, each once, by the fact.

    Args:
        kept: the answer.
        memories: by key, with the turns that are kept.
        key_of: returns the key of what a memory names by its id.
        question: chooses the passages of turns that the budget does not allow whole.
        max_tokens: of the whole answer: what its memories leave of it.
    """
    sizes = (
        min(estimated_tokens(memories[row.id].content), PASSAGE_TOKENS)
        for row in kept
        if max_tokens
    )
    spent = sum(sizes)
    found: dict[str, tuple[Memory, ...]] = {}
    taken: set[str] = set()
    for row in kept:
        for id in memories[row.id].source_ids:
            turn = memories.get(key := key_of(row.id, id))
            if turn is None or turn.state != "source" or key in taken:
                continue
            taken.add(key)
            if max_tokens is not None:
                if max_tokens - spent < MIN_PASSAGE_TOKENS:
                    return found
                most = min(max_tokens - spent, PASSAGE_TOKENS)
                turn = replace(turn, content=passage(turn.content, question, max_tokens=most))
                spent += estimated_tokens(turn.content)
            found[row.id] = (*found.get(row.id, ()), turn)
    return found
