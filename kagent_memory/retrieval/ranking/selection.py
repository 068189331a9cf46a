"""What of the ranking is handed over: usage mixed in, near-duplicates in one place, cut, limit, token budget."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ...language.tokenizer import STOP_WORDS, estimated_tokens, tokens
from ...records import LeftOut, Memory
from ...stores.columns import Outline
from .rank import Ranked
from .rank_settings import RankSettings

NEAR = 0.9
LONG_CHARS = 16_384  # a longer text is only the same as an equal one; to read it takes too long
_NEGATIONS = frozenset(
    ("no", "not", "never", "nothing", "none", "neither", "nor", "without", "cannot", "t", "kein", "nicht")
)
_NAME = re.compile(r"(?<![\w'’])[^\W\d_a-z][\w]*")


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
    max_tokens: int | None = None,
    settings: RankSettings = RankSettings(),
    standing: Callable[[Memory], float] = lambda _: 0.0,
    outline: Callable[[str], Outline] = lambda _: Outline(),
) -> Selection:
    """The best of the ranking that are handed over.

    Args:
        ranked: the first of a ranking; `limit` and a few more, so that duplicates can be made up for.
        memories: their contents and usage. One that is not there has expired or was forgotten meanwhile.
        limit: how many at most.
        max_tokens: how much text at most (see `text.estimated_tokens`); the first always stays.
        settings: weights of usage and standing, and the gap.
        standing: the importance formula of a memory, in 0..1.
        outline: of a memory's text, with its author's name; empty where it is not known.
    """
    left_out = [LeftOut(memory_id=hit.id, reason="expired") for hit in ranked if hit.id not in memories]
    here = [hit for hit in ranked if hit.id in memories]
    share = 1 / (1 + settings.deliveries + settings.feedback + settings.standing)
    usage: dict[str, Mapping[str, float]] = {}
    if share < 1:
        usage = {hit.id: _usage_signs(memories[hit.id], settings, standing, share) for hit in here}
        here = _by_usage(here, usage, share)
    here = _distinct(here, memories, left_out, limit, outline)
    here = _upper(here, settings.gap, left_out)
    left_out += [LeftOut(memory_id=hit.id, reason="limit") for hit in here[limit:]]
    return Selection(_affordable(here[:limit], memories, max_tokens, left_out), tuple(left_out), usage, share)


def same_in_substance(one: str, other: str) -> bool:
    """Whether two texts say the same in nearly the same words: nine of ten telling words shared, and no difference in
    numbers, identifiers, negations or names.
    """
    return _Substance(one).equals(_Substance(other))


def surely_apart(one: Outline, other: Outline) -> bool:
    """Whether two texts of one author share less than nine of ten telling words, as far as their outlines tell: each
    bit that only one of them has stands for a word at least that the other lacks.
    """
    apart = (one.bits ^ other.bits).bit_count()
    return apart > (1 - NEAR) * (apart + min(one.terms, other.terms))


class _Substance:
    def __init__(self, text: str, outline: Outline = Outline()) -> None:
        self._text, self._outline = text, outline
        self._is_long = len(text) > LONG_CHARS

    @cached_property
    def _terms(self) -> Sequence[str]:
        return tokens(self._text)

    @cached_property
    def telling(self) -> frozenset[str]:
        terms = frozenset(self._terms)
        return terms - STOP_WORDS or terms

    @cached_property
    def negations(self) -> int:
        return sum(map(_NEGATIONS.__contains__, self._terms)) % 2

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(term for name in _NAME.findall(self._text) for term in tokens(name)) - STOP_WORDS

    def equals(self, other: _Substance) -> bool:
        if self._is_long or other._is_long:
            return self._text == other._text
        if surely_apart(self._outline, other._outline):
            return False
        if self.telling == other.telling:
            return self.negations == other.negations
        both = len(self.telling & other.telling)
        either = len(self.telling) + len(other.telling) - both
        if either - both > (1 - NEAR) * either or self.negations != other.negations:
            return False
        apart = self.telling ^ other.telling
        return not any(not term.isalpha() for term in apart) and apart.isdisjoint(self.names | other.names)


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
    outline: Callable[[str], Outline],
) -> list[Ranked]:
    kept: list[Ranked] = []
    seen: list[tuple[str | None, _Substance]] = []
    for place, hit in enumerate(ranked):
        if len(kept) > limit:  # the rest is over the limit, whatever it says
            return [*kept, *ranked[place:]]
        memory = memories[hit.id]
        substance = _Substance(memory.content, outline(hit.id))
        if any(author == memory.author and substance.equals(other) for author, other in seen):
            left_out.append(LeftOut(memory_id=hit.id, reason="duplicate"))
            continue
        kept.append(hit)
        seen.append((memory.author, substance))
    return kept


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
