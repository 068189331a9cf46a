"""How likely a memory answers the query, on one scale for both modes."""

from __future__ import annotations

import math
import re

import numpy as np

from ...stores.columns import Mask
from ..query.query_words import FIRST_PERSON, FIRST_PERSON_UNSPACED
from .candidates import Candidates, Numbers, Rows, wordiness

# Logistic regression of questions about what is stored against general requests
# (bench/relevance.py).
_BIAS = -3.85
_SHARE = 1.65
_WORDS = 2.2
_EXACT = 1.6
_NAMES_SPEAKER = 1.9
_FIRST_PERSON = 0.9
_NEARNESS = 1.6
_LONG_TEXTS = 0.5  # hold a query's words by chance; vectors tell where that is so
# In a scope of a few memories every word is in a large share of them, so that rarity tells little.
_SMALL_SCOPE = 1.8
_SMALL, _LARGE = 10, 100
# A memory that is near enough answers a query with which it shares no word.
_NEAR = 0.45
_STEEPNESS = 14.0
_IN_FULL = 1.0  # of what a look-up or a date asks for
_LOOK_UP_WORDS = 2
_WORD = re.compile(r"[\w']+")


def relevance(
    query: str, candidates: Candidates, rows: Rows, *, names_speaker: bool, of_the_date: Mask
) -> Numbers:
    """Return the relevance of each row in 0..1.

    It grows with the share of the query's words that a memory holds, by their rarity; with their
    number; with the nearness of its vector; and where the memory holds a rare name of the query, or
    the query names somebody who speaks in the scope or is about the speaker's own things. In a
    small scope one shared word counts more. What holds both words of a look-up, or is of the date
    that is all a query asks for, is relevant.

    Args:
        query: as asked.
        candidates: of both searches.
        rows: those to judge.
        names_speaker: the query names who said one of the memories.
        of_the_date: whether the query asks for nothing but a date, and the memory is of that date.
    """
    held = candidates.counts[rows] > 0
    asked = float(candidates.idf.sum()) + candidates.missing or 1.0
    share = (held @ candidates.idf) / asked
    in_full = of_the_date | ((share > 0.99) & (len(query.split()) <= _LOOK_UP_WORDS))
    cosines = np.nan_to_num(candidates.cosines[rows])
    above = np.maximum(0.0, cosines - candidates.usual_cosine) / (1 - candidates.usual_cosine)
    nearness = candidates.trust * above
    words = held @ candidates.telling
    by_words = (
        _BIAS
        + _SHARE * share
        + _WORDS * np.log1p(words)
        + _SMALL_SCOPE * _smallness(candidates.documents) * (words > 0)
        + _EXACT * candidates.exact[rows]
        + _NEARNESS * nearness
        + _NAMES_SPEAKER * names_speaker
        + _FIRST_PERSON * is_about_oneself(query)
    )
    by_vector = _STEEPNESS * (nearness - _NEAR)
    chance = _LONG_TEXTS * wordiness(candidates.average_length)
    best = np.maximum(by_words, by_vector) if candidates.has_vectors else by_words - chance
    best = np.where(in_full, np.maximum(best, _IN_FULL), best)
    return 1 / (1 + np.exp(-best))


def _smallness(documents: int) -> float:
    """Return 1 for a scope of at most 10 memories, falling with their logarithm to 0 at 100."""
    closeness = math.log(_LARGE / max(1, documents)) / math.log(_LARGE / _SMALL)
    return min(1.0, max(0.0, closeness))


def is_about_oneself(text: str) -> bool:
    """Return True if a text holds a word such as "my", "we" or "mein"."""
    words = _WORD.findall(text.casefold().replace("’", "'"))
    return not FIRST_PERSON.isdisjoint(words) or any(word in text for word in FIRST_PERSON_UNSPACED)
