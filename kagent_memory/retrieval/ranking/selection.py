"""What of the ranking is handed over: usage mixed in, duplicates left out, cut, limit, token budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise

from ...language.tokenizer import estimated_tokens, spelling
from ...records import LeftOut, Memory
from .rank import Ranked
from .rank_settings import RankSettings

_TIE = 0.1  # of a score, within which the words alone do not tell two linked memories apart
_COMPARED_CHARS = 500


@dataclass(frozen=True)
class Selection:
    """What is handed over, best first, and what was left out why.

    Attributes:
        usage: by id, what deliveries, feedback and standing added to a score; empty when none of them counts.
        share: how much of its score each had before usage was mixed in.
    """

    kept: list[Ranked]
    left_out: tuple[LeftOut, ...]
    usage: Mapping[str, Mapping[str, float]]
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
) -> Selection:
    """The best of the ranking that are handed over.

    Args:
        ranked: the first of a ranking; `limit` and a few more, so that duplicates can be made up for.
        memories: their contents and usage. One that is not there has expired or was forgotten meanwhile.
        limit: how many at most.
        query: what was searched for; tells apart linked memories of the same words in another order.
        max_tokens: how much text at most (see `text.estimated_tokens`); the first always stays.
        settings: weights of usage and standing, and the gap.
        standing: the importance formula of a memory, in 0..1.
    """
    left_out = [LeftOut(memory_id=hit.id, reason="expired") for hit in ranked if hit.id not in memories]
    here = [hit for hit in ranked if hit.id in memories]
    share = 1 / (1 + settings.deliveries + settings.feedback + settings.standing)
    usage: dict[str, Mapping[str, float]] = {}
    if share < 1:
        usage = {hit.id: _usage_signs(memories[hit.id], settings, standing, share) for hit in here}
        here = _by_usage(here, usage, share)
    here = _distinct(here, memories, left_out, limit, partial(_likeness, query))
    here = _upper(here, settings.gap, left_out)
    left_out += [LeftOut(memory_id=hit.id, reason="limit") for hit in here[limit:]]
    return Selection(_affordable(here[:limit], memories, max_tokens, left_out), tuple(left_out), usage, share)


def _usage_signs(
    memory: Memory, settings: RankSettings, standing: Callable[[Memory], float], share: float
) -> Mapping[str, float]:
    """What each sign of usage adds to a score."""
    usage = memory.usage
    delivered = min(1.0, math.log1p(usage.delivered_total) / math.log1p(100))
    judged = (usage.successes - usage.failures) / (usage.successes + usage.failures + 2)
    signs = {
        "deliveries": settings.deliveries * delivered,
        "feedback": settings.feedback * judged,
        "standing": settings.standing and settings.standing * standing(memory),
    }
    return {name: value * share for name, value in signs.items()}


def _by_usage(ranked: Sequence[Ranked], usage: Mapping[str, Mapping[str, float]], share: float) -> list[Ranked]:
    def lifted(hit: Ranked) -> Ranked:
        return hit._replace(score=min(1.0, max(0.0, hit.score * share + sum(usage[hit.id].values()))))

    return sorted(map(lifted, ranked), key=lambda hit: -hit.score)


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
    seen: set[tuple[str | None, str]] = set()
    for place, hit in enumerate(ranked):
        if len(kept) > limit:  # the rest is over the limit, whatever it says
            return [*kept, *ranked[place:]]
        memory = memories[hit.id]
        said = memory.author, spelling(memory.content)
        linked = [other for other in kept if other.id in memory.links]
        if said in seen:
            left_out.append(LeftOut(memory_id=hit.id, reason="duplicate"))
        elif same := [other for other in linked if not _contradict(memory, memories[other.id])]:
            other = same[0]
            if fits(memory) > fits(memories[other.id]) and other.score - hit.score < _TIE * other.score:
                kept[kept.index(other)], hit = hit, other
            left_out.append(LeftOut(memory_id=hit.id, reason="same"))
        else:
            seen.add(said)
            older = [kept.index(other) for other in linked if _said(memories[other.id]) < _said(memory)]
            at = min(older, default=len(kept))
            kept.insert(at, hit)
    return kept


def _likeness(query: str, memory: Memory) -> float:
    return SequenceMatcher(None, query[:_COMPARED_CHARS], memory.content[:_COMPARED_CHARS], autojunk=False).ratio()


def _contradict(one: Memory, other: Memory) -> bool:
    """Return True if the newer of two linked memories was to replace the other, which was saved explicitly."""
    older, newer = sorted((one, other), key=_said)
    return (older.explicit or older.pinned) and newer.valid_from is not None


def _said(memory: Memory) -> datetime:
    return memory.said_at or memory.created_at


def _upper(ranked: list[Ranked], gap: float, left_out: list[LeftOut]) -> list[Ranked]:
    if not gap or len(ranked) < 2:
        return ranked
    falls = [above.score - below.score for above, below in pairwise(ranked)]
    deepest = max(range(len(falls)), key=lambda number: falls[number])
    if falls[deepest] < gap:
        return ranked
    left_out += [LeftOut(memory_id=hit.id, reason="gap") for hit in ranked[deepest + 1 :]]
    return ranked[: deepest + 1]


def _affordable(
    ranked: list[Ranked], memories: Mapping[str, Memory], max_tokens: int | None, left_out: list[LeftOut]
) -> list[Ranked]:
    if max_tokens is None:
        return ranked
    spent = 0
    for number, hit in enumerate(ranked):
        spent += estimated_tokens(memories[hit.id].content)
        if spent > max_tokens and number:
            left_out += [LeftOut(memory_id=late.id, reason="budget") for late in ranked[number:]]
            return ranked[:number]
    return ranked
