"""What of a ranking is handed over: standing mixed in, duplicates left out, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from typing import TypeAlias

from ...language.tokenizer import estimated_tokens
from ...records import LeftOut, Memory
from .rank import Ranked
from .rank_settings import RankSettings

_TIE = 0.1  # of a score, within which the words alone do not tell two linked memories apart
_COMPARED_CHARS = 500
PASSAGE_TOKENS = 400
"""The most that one memory takes of a budget: of longer ones a passage is handed over."""

KeyOf: TypeAlias = Callable[[str, str], str]
"""Returns the key of a memory by its id, in the scope of another memory's key."""


@dataclass(frozen=True)
class Selection:
    """Memories to hand over, best first, and those left out with the reason.

    Attributes:
        standing: by id, what standing added to a score; empty when it does not count.
        share: how much of its score each had before standing was mixed in.
    """

    kept: list[Ranked]
    left_out: tuple[LeftOut, ...]
    standing: Mapping[str, float]
    share: float = 1.0


def select(
    ranked: Sequence[Ranked],
    memories: Mapping[str, Memory],
    *,
    limit: int,
    query: str = "",
    max_tokens: int | None = None,
    settings: RankSettings = RankSettings(),
    standing: Callable[[Memory], float] = lambda _: 0.0,
    key_of: KeyOf = lambda _, id: id,
) -> Selection:
    """The best of the ranking that are handed over.

    Args:
        ranked: the first of a ranking; `limit` and a few more, so that duplicates can be made up
            for.
        memories: their contents and usage. One that is not there has expired or was forgotten
            meanwhile.
        limit: how many at most.
        query: what was searched for; tells apart linked memories of the same words in another
            order.
        max_tokens: how much text at most (see `text.estimated_tokens`); the first always stays.
        settings: the weight of standing.
        standing: the importance formula of a memory, in 0..1.
        key_of: returns the key of what a turn links by its id.
    """
    left_out = [
        LeftOut(memory_id=hit.id, reason="expired") for hit in ranked if hit.id not in memories
    ]
    here = _folded([hit for hit in ranked if hit.id in memories], memories, key_of, left_out)
    share = 1 / (1 + settings.standing)
    added: dict[str, float] = {}
    if settings.standing:
        weight = settings.standing * share
        added = {hit.id: weight * standing(memories[hit.id]) for hit in here}
        here = sorted(
            (hit._replace(score=min(1.0, hit.score * share + added[hit.id])) for hit in here),
            key=lambda hit: -hit.score,
        )
    here = _distinct(here, memories, left_out, limit, partial(_likeness, query))
    left_out += [LeftOut(memory_id=hit.id, reason="limit") for hit in here[limit:]]
    return Selection(
        _affordable(here[:limit], memories, max_tokens, left_out), tuple(left_out), added, share
    )


def _folded(
    ranked: Sequence[Ranked], memories: Mapping[str, Memory], key_of: KeyOf, left_out: list[LeftOut]
) -> list[Ranked]:
    """Let a fact stand for the turns that it came from.

    Of the facts of a turn that were found with it, the best takes the turn's place, if that is the
    better one. A turn none of whose facts was found stands for itself.
    """
    places = {hit.id: place for place, hit in enumerate(ranked)}
    folded: dict[str, Ranked] = {}
    for hit in ranked:
        memory = memories[hit.id]
        keys = (key_of(hit.id, id) for id in memory.links) if memory.state == "source" else ()
        facts = [key for key in keys if key in places]
        if not facts:
            folded.setdefault(hit.id, hit)
            continue
        left_out.append(LeftOut(memory_id=hit.id, reason="same"))
        if folded.keys().isdisjoint(facts):
            best = ranked[min(places[key] for key in facts)]
            folded[best.id] = best._replace(
                score=hit.score, relevance=max(best.relevance, hit.relevance)
            )
    return list(folded.values())


def _distinct(
    ranked: Sequence[Ranked],
    memories: Mapping[str, Memory],
    left_out: list[LeftOut],
    limit: int,
    fits: Callable[[Memory], float],
) -> list[Ranked]:
    """Leave out what an author says again word for word, and the lower of two linked memories.

    Of two linked ones that score about the same, the one whose text is more like the query stays.
    Where the newer of both contradicts what was saved explicitly, both stay, the newer first.
    """
    kept: list[Ranked] = []
    by_id: dict[str, Ranked] = {}
    seen: set[tuple[str | None, str]] = set()
    for place, hit in enumerate(ranked):
        if len(kept) > limit:  # the rest is over the limit, whatever it says
            return [*kept, *ranked[place:]]
        memory = memories[hit.id]
        said = memory.author, _words(memory.content)
        linked = sorted((by_id[id] for id in memory.links if id in by_id), key=kept.index)
        if said in seen:
            left_out.append(LeftOut(memory_id=hit.id, reason="duplicate"))
        elif same := [other for other in linked if not _contradict(memory, memories[other.id])]:
            other = same[0]
            if (
                fits(memory) > fits(memories[other.id])
                and other.score - hit.score < _TIE * other.score
            ):
                by_id[hit.id] = hit
                kept[kept.index(by_id.pop(other.id))], hit = hit, other
            left_out.append(LeftOut(memory_id=hit.id, reason="same"))
        else:
            seen.add(said)
            by_id[hit.id] = hit
            older = [
                kept.index(other) for other in linked if _said(memories[other.id]) < _said(memory)
            ]
            at = min(older, default=len(kept))
            kept.insert(at, hit)
    return kept


def _words(text: str) -> str:
    """Return a text without what the same words said again may differ in."""
    return " ".join(text.casefold().split()).rstrip(".!… ")


def _likeness(query: str, memory: Memory) -> float:
    return SequenceMatcher(
        None, query[:_COMPARED_CHARS], memory.content[:_COMPARED_CHARS], autojunk=False
    ).ratio()


def _contradict(one: Memory, other: Memory) -> bool:
    """Return True if the newer of two linked memories was to replace the other, which was saved
    explicitly.
    """
    older, newer = sorted((one, other), key=_said)
    return (older.explicit or older.pinned) and newer.valid_from is not None


def _said(memory: Memory) -> datetime:
    return memory.said_at or memory.created_at


def _affordable(
    ranked: list[Ranked],
    memories: Mapping[str, Memory],
    max_tokens: int | None,
    left_out: list[LeftOut],
) -> list[Ranked]:
    if max_tokens is None:
        return ranked
    kept: list[Ranked] = []
    spent = 0
    for hit in ranked:
        cost = min(estimated_tokens(memories[hit.id].content), PASSAGE_TOKENS)
        if kept and spent + cost > max_tokens:  # a shorter one further down may fit
            left_out.append(LeftOut(memory_id=hit.id, reason="budget"))
        else:
            spent += cost
            kept.append(hit)
    return kept
