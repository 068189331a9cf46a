"""Companions of an answer: the turns its facts came from, and the passages of long memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from ..language.tokenizer import estimated_tokens
from ..records import Filter, Memory
from .passages import passage
from .ranking.rank import Ranked
from .ranking.selection import PASSAGE_TOKENS
from .search import Search

ANY_STATE = Filter(superseded=True)
MIN_PASSAGE_TOKENS = 24
"""What is left of a budget below this is not worth a passage."""


async def with_sources(
    search: Search, kept: Sequence[Ranked], memories: Mapping[str, Memory]
) -> tuple[Sequence[Ranked], Mapping[str, Memory]]:
    """Return the answer with the successor of each superseded or corrected fact right before the
    turn that it came from, unless it stands before it already; and the memories by key, with the
    sources of the answer.
    """
    view = search.view
    facts = {
        row.id: [view.key_of(row.id, id) for id in memories[row.id].links]
        for row in kept
        if memories[row.id].state == "source"
    }
    sources = (view.key_of(row.id, id) for row in kept for id in memories[row.id].source_ids)
    missing = {key: None for key in chain(sources, *facts.values()) if key not in memories}
    if not missing:
        return kept, memories
    known = {**memories, **await view.memories([*missing])}
    successors: dict[str, str] = {}
    fresh = [key for key in chain(*facts.values()) if key not in known]
    while fresh:
        found = await view.under(ANY_STATE, search.now).memories(fresh)
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
    return [*ordered.values()][: search.limit], known


def _last(key: str, successors: Mapping[str, str]) -> str:
    for _ in successors:  # at most so many steps, should they go in a circle
        key = successors.get(key, key)
    return key


def passages_and_sources(
    search: Search, kept: Sequence[Ranked], memories: Mapping[str, Memory]
) -> Mapping[str, tuple[str, tuple[Memory, ...]]]:
    """Return for each memory of an answer, by key, the passage that fits the question, if it is too
    long for the budget, and the turns that it came from, each once and as far as the budget goes.
    """
    question, budget = search.question.text, search.budget_tokens
    left = budget or 0
    for row in kept:
        left -= min(estimated_tokens(memories[row.id].content), PASSAGE_TOKENS)
    found: dict[str, tuple[str, tuple[Memory, ...]]] = {}
    taken: set[str] = set()
    for row in kept:
        content, turns = memories[row.id].content, list[Memory]()
        excerpt = passage(content, question, max_tokens=PASSAGE_TOKENS) if budget else content
        for id in memories[row.id].source_ids:
            turn = memories.get(key := search.view.key_of(row.id, id))
            if turn is None or turn.state != "source" or key in taken:
                continue
            taken.add(key)
            if budget is not None:
                if left < MIN_PASSAGE_TOKENS:
                    continue
                text = passage(turn.content, question, max_tokens=min(left, PASSAGE_TOKENS))
                turn = replace(turn, content=text)
                left -= estimated_tokens(text)
            turns.append(turn)
        found[row.id] = "" if excerpt == content else excerpt, tuple(turns)
    return found
