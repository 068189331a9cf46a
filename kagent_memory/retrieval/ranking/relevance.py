"""Likelihood that a memory answers the query, on one scale for both modes."""

from __future__ import annotations

import math
import re

import numpy as np

from ..query import FIRST_PERSON, FIRST_PERSON_UNSPACED
from ..search import Search
from .table import Numbers, Table

# Logistic regression of questions about what is stored against general requests
# (bench/relevance.py).
_BIAS = -4.3
_SHARE = 1.5
_WORDS = 2.35
_EXACT = 1.1
_KNOWN_NAME = 2.8
_FIRST_PERSON = 1.6
_NEARNESS = 1.9
_LONG_TEXTS = 0.7  # hold a query's words by chance; vectors tell where that is so
# In a scope of a few memories every word is in a large share of them, so that rarity tells little.
_SMALL_SCOPE = 2.4
_SMALL, _LARGE = 10, 100
# A memory that is near enough answers a query with which it shares no word.
_NEAR = 0.45
_STEEPNESS = 14.0
_IN_FULL = 1.0  # of what a look-up or a date asks for
_LOOK_UP_WORDS = 2
_LIST = 20  # cosines, of which the median is not what answers
_WORD = re.compile(r"[\w']+")


def relevance(search: Search, table: Table, *, named: bool) -> Numbers:
    """Return the relevance of each memory in 0..1.

    It grows with the share of the query's words that a memory holds, by their rarity; with their
    number; with the nearness of its vector; and where the memory holds a rare name of the query, or
    the query names somebody who speaks in the scope or is often named there, or is about the
    speaker's own things. In a small scope one shared word counts more. What holds both words of a
    look-up, or is of the date that is all a query asks for, is relevant.

    Args:
        search: what is searched for.
        table: the memories.
        named: the query names who said one of the memories.
    """
    query = search.question.text
    holds = table.counts > 0
    share = (holds @ table.idf) / (float(table.idf.sum()) + table.missing or 1.0)
    is_look_up = len(query.split()) <= _LOOK_UP_WORDS
    in_full = table.dated & search.date_only | (share > 0.99) & is_look_up
    seen = table.near.full.cosines
    usual = min(0.99, float(np.median(seen))) if len(seen) >= _LIST else 0.0
    usual = max(0.0, usual)  # the cosine with what is no answer
    above = np.maximum(0.0, np.nan_to_num(table.cosines) - usual) / (1 - usual)
    nearness = search.trust * above
    telling = [len(term) > 2 or not term.isdecimal() for term in table.text.matches.terms]
    words = holds[:, telling].sum(axis=1)
    by_words = (
        _BIAS
        + _SHARE * share
        + _WORDS * np.log1p(words)
        + _SMALL_SCOPE * _smallness(table.text.documents) * (words > 0)
        + _EXACT * table.exact
        + _NEARNESS * nearness
        + _KNOWN_NAME * (named or table.names_known)
        + _FIRST_PERSON * is_about_oneself(query)
    )
    if table.has_vectors:
        best = np.maximum(by_words, _STEEPNESS * (nearness - _NEAR))
    else:
        best = by_words - _LONG_TEXTS * table.long
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
