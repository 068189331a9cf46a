"""Select the hits from a ranking: without duplicates, within a budget, with the turns that facts
came from and the passages of long memories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain

from ...language.passages import passage
from ...language.tokenizer import estimated_tokens, normalised
from ...records import Exclusion, Hit, Memory
from ...stores.decisions import matches_filter
from ...stores.planning import said, was_to_replace
from ..search import Search
from .rank import Ranked

_TIE = 0.1  # share of a score; two linked memories that differ by less count as equal
_COMPARED_CHARS = 500
UNLIMITED = 2**62  # tokens
PASSAGE_TOKENS = 400
"""The most tokens that one memory takes of a budget; a longer one is cut to a passage."""
MIN_PASSAGE_TOKENS = 24
"""With fewer tokens left in the budget, no passage is added."""


def select(
    search: Search, ranked: Sequence[Ranked], memories: Mapping[int, Memory]
) -> tuple[Sequence[Ranked], Mapping[int, Exclusion]]:
    """Return the best of the ranking as hits, and the others with the reason.

    Args:
        search: the search, which gives the limit and the budget; the first hit always stays.
        ranked: the start of a ranking: the limit and a few more, to make up for duplicates.
        memories: the memories by row. A missing one has expired or was forgotten meanwhile.
    """
    left_out: dict[int, Exclusion] = {
        hit.row: "expired" for hit in ranked if hit.row not in memories
    }
    candidates = [hit for hit in ranked if hit.row in memories]
    links = {hit.row: search.view.rows_of(hit.row, memories[hit.row].links) for hit in candidates}
    candidates = _distinct(
        search, _folded(candidates, memories, links, left_out), memories, links, left_out
    )
    left_out |= {hit.row: "limit" for hit in candidates[search.limit :]}
    budget = search.budget_tokens
    if budget is None:
        return candidates[: search.limit], left_out
    hits: list[Ranked] = []
    spent = 0
    for hit in candidates[: search.limit]:
        cost = _cost(memories[hit.row])
        if hits and spent + cost > budget:
            left_out[hit.row] = "budget"  # a shorter one may fit
        else:
            spent += cost
            hits.append(hit)
    return hits, left_out


def _folded(
    ranked: Sequence[Ranked],
    memories: Mapping[int, Memory],
    links: Mapping[int, Sequence[int]],
    left_out: dict[int, Exclusion],
) -> list[Ranked]:
    """Let a fact represent the turn that it came from.

    The best of the found facts of a turn takes the turn's place, if that is the better one. A turn
    without found facts stays.
    """
    places = {hit.row: place for place, hit in enumerate(ranked)}
    folded: dict[int, Ranked] = {}
    for hit in ranked:
        is_turn = memories[hit.row].state == "source"
        facts = [row for row in links[hit.row] if row in places] if is_turn else ()
        if not facts:
            folded.setdefault(hit.row, hit)
            continue
        left_out[hit.row] = "same"
        if folded.keys().isdisjoint(facts):
            best = ranked[min(places[row] for row in facts)]
            folded[best.row] = best._replace(
                score=hit.score, relevance=max(best.relevance, hit.relevance)
            )
    return list(folded.values())


def _distinct(
    search: Search,
    ranked: Sequence[Ranked],
    memories: Mapping[int, Memory],
    links: Mapping[int, Sequence[int]],
    left_out: dict[int, Exclusion],
) -> list[Ranked]:
    """Leave out what an author said again word for word, and the lower of two linked memories.

    Of two linked memories with about the same score, the one whose text is more like the query
    stays. If the newer one contradicts an explicit save, both stay, the newer first.
    """
    hits: list[Ranked] = []
    statements: set[tuple[str | None, str]] = set()
    for hit in ranked:
        memory = memories[hit.row]
        statement = memory.author, normalised(memory.content)
        linked = [other for other in hits if other.row in links[hit.row]]
        if statement in statements:
            left_out[hit.row] = "duplicate"
        elif same := [other for other in linked if not contradict(memory, memories[other.row])]:
            other = same[0]
            is_nearer = _likeness(search, memory) > _likeness(search, memories[other.row])
            if is_nearer and other.score - hit.score < _TIE * other.score:
                hits[hits.index(other)], hit = hit, other
            left_out[hit.row] = "same"
        else:
            statements.add(statement)
            older = [other for other in linked if said(memories[other.row]) < said(memory)]
            hits.insert(hits.index(older[0]) if older else len(hits), hit)
    return hits


def _likeness(search: Search, memory: Memory) -> float:
    query, text = search.text[:_COMPARED_CHARS], memory.content[:_COMPARED_CHARS]
    return SequenceMatcher(None, query, text, autojunk=False).ratio()


def contradict(one: Memory, other: Memory) -> bool:
    """Return True if the newer of two linked memories was to replace the other."""
    return was_to_replace(*sorted((one, other), key=said))


async def with_sources(
    search: Search, selection: Sequence[Ranked], memories: Mapping[int, Memory]
) -> tuple[Sequence[Ranked], Mapping[int, Memory]]:
    """Return the ranking with the successor of each superseded or corrected fact right before the
    turn that it came from, unless it comes earlier; and the memories by row, with the sources of
    the answer.
    """
    view = search.view
    facts = {
        hit.row: view.rows_of(hit.row, memories[hit.row].links)
        for hit in selection
        if memories[hit.row].state == "source"
    }
    sources = (view.rows_of(hit.row, memories[hit.row].source_ids) for hit in selection)
    memories_by_row = {**memories}
    successors: dict[int, int] = {}
    unread = {*chain(*sources, *facts.values())} - memories_by_row.keys()
    while unread:
        read_memories = await view.memories(sorted(unread), hidden=True)
        newer = {
            row: successor
            for row, memory in read_memories.items()
            if memory.state == "superseded"
            for successor in view.rows_of(row, [memory.superseded_by or ""])
        }
        memories_by_row |= {
            row: memory
            for row, memory in read_memories.items()
            if memory.state != "superseded" and view.current[row]
        }
        successors |= newer
        unread = {*newer.values()} - memories_by_row.keys() - successors.keys()
    hits = {hit.row: hit for hit in selection}
    ordered: dict[int, Ranked] = {}
    for hit in selection:
        for fact in facts.get(hit.row, ()):
            last = fact
            for _ in successors:  # at most so many steps, in case they form a circle
                last = successors.get(last, last)
            is_newer = last in memories_by_row and (
                last != fact or memories_by_row[last].revision > 1
            )
            if is_newer and matches_filter(search.filter, memories_by_row[last]):
                before = hits.get(last, hit._replace(row=last, cosine=None))
                ordered.setdefault(last, before._replace(score=max(before.score, hit.score)))
        ordered.setdefault(hit.row, hit)
    return [*ordered.values()][: search.limit], memories_by_row


def to_hits(
    search: Search, selection: Sequence[Ranked], memories: Mapping[int, Memory]
) -> list[Hit]:
    """Return the hits, each with the passage that fits the question if it is too long for the
    budget, and with the turns that it came from or that repeated it, each once and within the
    budget.
    """
    view = search.view
    question = search.question.text
    budget = search.budget_tokens
    most = remaining = UNLIMITED
    if budget is not None:
        most = PASSAGE_TOKENS
        remaining = budget - sum(_cost(memories[hit.row]) for hit in selection)
    hits: list[Hit] = []
    handed_over = {hit.row for hit in selection}
    repeated_in = defaultdict[int, list[int]](list)
    for row, memory in memories.items():
        if memory.state == "source":
            for fact in view.rows_of(row, memory.links):
                repeated_in[fact].append(row)
    for hit in selection:
        memory = memories[hit.row]
        turns: list[Memory] = []
        excerpt = passage(memory.content, question, max_tokens=most)
        for row in (*view.rows_of(hit.row, memory.source_ids), *repeated_in[hit.row]):
            turn = None if row in handed_over else memories.get(row)
            if turn and turn.state == "source" and remaining >= MIN_PASSAGE_TOKENS:
                handed_over.add(row)
                text = passage(turn.content, question, max_tokens=min(remaining, most))
                remaining -= estimated_tokens(text)
                turns.append(replace(turn, content=text))
        hits.append(
            Hit(
                memory=memory,
                scope=view.scope_of(hit.row),
                score=hit.score,
                cosine=hit.cosine,
                relevance=hit.relevance,
                why={**hit.why},
                excerpt="" if excerpt == memory.content else excerpt,
                sources=tuple(turns),
            )
        )
    return hits


def _cost(memory: Memory) -> int:
    """Return the most that a memory takes of a budget."""
    return min(estimated_tokens(memory.content), PASSAGE_TOKENS)
