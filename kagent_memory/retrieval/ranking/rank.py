"""Rank candidates by their match, their neighbours, their time and their speaker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...language.dates import asks_when, closeness
from ...language.preferences import USER, is_about_oneself
from ...language.tokenizer import tokens
from ...records import Exclusion
from ...settings.ranking import RankSettings
from ...stores.columns import NO_ROWS, Mask, time_of
from ...stores.values import TextMatches
from ..search import Search
from .table import Near, Numbers, Table, share_of_best

_LONG = np.log1p(300.0)
_NEAR_DAY = 1.5  # the worth of a near day, where the month is worth 1
_ASKS = 0.3  # deducted from a turn that asks, where a long turn is worth 1
_PREFERENCE = 0.3  # added to a stated preference, likewise
_FIRST_HITS = 5
# In keyword mode, the neighbours of matching turns are answers too when the query has this many
# terms that the scope knows: a question may be answered by the next turn, a look-up of a word may
# not.
_CONTEXT_TERMS = 3

# Logistic regression of questions about what is stored against general requests
# (bench/relevance.py).
_BIAS = -4.3
_SHARE = 1.5
_WORDS = 2.35
_EXACT = 1.1
_KNOWN_NAME = 2.8
_FIRST_PERSON = 1.6
_NEARNESS = 1.9
_LONG_TEXTS = 0.7  # deducted without vectors: long texts hold a query's words by chance
# In a scope of a few memories every word is in a large share of them, so that rarity tells little.
_SMALL_SCOPE = 2.4
_SMALL, _LARGE = 10, 100
# A memory that is near enough answers a query with which it shares no word.
_NEAR = 0.45
_STEEPNESS = 14.0
_IN_FULL = 1.0  # evidence of a memory that holds all that a look-up or a date asks for
_LOOK_UP_WORDS = 2
_LIST = 20  # in a list of so many cosines, the median belongs to no answer


class Ranked(NamedTuple):
    """One ranked candidate.

    Attributes:
        row: the row of the memory in its index.
        score: 0..1, comparable within one ranking.
        cosine: the cosine to the full query, if the vector leg saw the memory.
        relevance: 0..1, comparable between queries.
        why: what found it, and what each sign added to its score, if asked to explain.
    """

    row: int
    score: float
    cosine: float | None
    relevance: float = 0.0
    why: Mapping[str, Any] = MappingProxyType({})


def rank(
    search: Search,
    text: TextMatches,
    near: Near,
    settings: RankSettings,
) -> tuple[list[Ranked], dict[int, Exclusion]]:
    """Return the candidates of both searches and neighbours of the best ones, ranked, and the rows
    below the floors.

    If none of the first five reaches the relevance `search.floor`, nothing is answered.

    Args:
        search: the search.
        text: the result of the text search.
        near: the result of the vector search.
        settings: the weights.
    """
    table = Table(search, text, near, settings)
    signs = _signs(search, table, settings)
    highest = highest_score(settings)
    sums = sum(signs.values(), np.zeros(len(table.rows))) / highest
    scores = sums.clip(0.0, 1.0)
    if (exact := table.exact).any():  # above all that other signs can reach
        signs["exact"] = np.where(exact, highest, 0.0)
        highest *= 2
        scores = (scores + exact) / 2
        sums += 2.0 * exact
    relevances = relevance(search, table, named="author" in signs)
    # neighbours of matching turns are not filtered: they lend their words, but are not answers
    visible = search.view.visible[table.rows]
    answers = _answers(search, table)
    order = (-sums).argsort(kind="stable")  # not clipped: scores below 0 are ordered, too
    answering = order[(answers & visible)[order]]
    left_out: dict[int, Exclusion] = {}
    if table.has_vectors:
        below: list[int] = table.rows[visible & ~answers].tolist()
        left_out = dict.fromkeys(below, "below_min_score")
    if answering.size and relevances[answering[:_FIRST_HITS]].max() < search.floor:
        irrelevant: list[int] = table.rows[answering].tolist()
        left_out |= dict.fromkeys(irrelevant, "irrelevant")
        answering = NO_ROWS
    columns = (table.rows, scores, table.cosines, relevances)
    ranked = [
        Ranked(row, score, None if math.isnan(cosine) else cosine, relevance)
        for row, score, cosine, relevance in zip(
            *(column[answering].tolist() for column in columns), strict=True
        )
    ]
    if search.explain:
        ranked = [
            hit._replace(why=_why(search, table, signs, highest, place))
            for hit, place in zip(ranked, answering.tolist(), strict=True)
        ]
    return ranked, left_out


def _why(
    search: Search, table: Table, signs: Mapping[str, Numbers], highest: float, place: int
) -> dict[str, Any]:
    """Return what found a memory, and what each sign added to its score."""
    found_by = {
        "text": table.counts[place].any(),
        "vector": not math.isnan(table.cosines[place]),
        "date": table.dated[place],
    }
    added = {name: round(float(values[place]) / highest, 4) for name, values in signs.items()}
    return {
        "legs": [name for name, has_found in found_by.items() if has_found],
        "scores": {name: value for name, value in added.items() if value},
        **({"respelt": search.respelt} if search.respelt else {}),
    }


def _answers(search: Search, table: Table) -> Mask:
    """Return the mask of candidates that may be answers: not those found only by vectors, below
    `min_score`; nor, in keyword mode, the neighbours of the hits of a look-up.
    """
    matched = table.counts.any(axis=1) | table.dated
    if table.has_vectors:
        return matched | (table.cosines >= search.min_score) if search.min_score else matched | True
    return matched | (len(table.idf) >= _CONTEXT_TERMS)


def highest_score(settings: RankSettings) -> float:
    """Return the highest score that a memory could reach with these weights."""
    matches = settings.match + settings.window + settings.session + settings.answer
    others = settings.author + settings.substance
    return matches + (2 + _NEAR_DAY) * settings.time + others or 1.0


def _signs(search: Search, table: Table, settings: RankSettings) -> dict[str, Numbers]:
    """Return what each sign adds to the scores, by name.

    A long text stands on its own, so the weight of its surroundings goes to its own match.
    """
    long = table.long

    def match(words: Numbers, dense: Numbers) -> Numbers:
        both = table.fused(words, share_of_best(dense))
        return np.maximum(both, table.dated) if search.date_only else both

    counts, dense = table.of_windows()
    words_around = table.bm25(counts, table.lengths)
    # a session's length is unknown: only its matching turns and their neighbours are candidates
    in_session, nearest = table.of_sessions()
    by_session = table.bm25(in_session, np.full(len(nearest), table.average_length))
    own_match = match(table.bm25(table.counts, table.lengths), table.dense)
    session = match(by_session[table.sessions], nearest[table.sessions])
    asks = np.concatenate([words_around * table.asks, [0.0]])  # the last one is for no turn
    signs: dict[str, Numbers] = {
        "match": (settings.match + long * (settings.window + settings.session)) * own_match,
        "window": (1 - long) * settings.window * match(words_around, dense),
        "session": (1 - long) * settings.session * session,
        "answer": (1 - long) * settings.answer * asks[table.turns[0]],
        "substance": settings.substance * _substance(table, long),
    }
    if search.question.spans or asks_when(search.question.text):
        signs["time"] = settings.time * _time(search, table)
    words = {*tokens(search.question.text)}
    named_authors = {
        author for author in {*table.authors} - {USER} if not words.isdisjoint(tokens(author or ""))
    }
    if named_authors:
        signs["author"] = settings.author * np.array(
            [author in named_authors for author in table.authors]
        )
    return signs


def _substance(table: Table, long: float) -> Numbers:
    """Return how much each turn says by itself: in chat, short turns and questions say little;
    among long texts, an answer to the user says less than the user, whom it repeats. A preference
    matters for more than its own words.
    """
    chars = np.minimum(1.0, np.log1p(table.columns["chars"]) / _LONG)
    users = {None, "", USER} if USER in table.authors else {*table.authors}
    answers = np.array([author not in users for author in table.authors])
    alone = (1 - long) * (chars - _ASKS * table.asks) - long * answers
    return alone + _PREFERENCE * table.columns["prefers"]


def _time(search: Search, table: Table) -> Numbers:
    """Return how well each memory's time, or a time that it names, fits the query."""
    question = search.question
    times = table.columns["names_a_time"] * float(asks_when(question.text))
    if question.spans:
        happened = map(time_of, table.columns["happened"].tolist())
        near = np.array([closeness(question.spans, at) for at in happened])
        times += near.reshape(-1, 2) @ [1.0, _NEAR_DAY]
    return times


def relevance(search: Search, table: Table, *, named: bool) -> Numbers:
    """Return the relevance of each memory in 0..1.

    It grows with the share of the query's words that a memory holds, by their rarity; with their
    number; with the cosine; and if the memory holds a rare name of the query, or the query names
    somebody who speaks in the scope or is often named there, or is about the speaker's own things.
    In a small scope one shared word counts more. A memory with both words of a look-up, or of the
    date that is all a query asks for, is relevant.

    Args:
        search: the search.
        table: the candidates.
        named: True if the query names the speaker of a candidate.
    """
    query = search.question.text
    holds = table.counts > 0
    share = (holds @ table.idf) / (float(table.idf.sum()) + table.missing or 1.0)
    is_look_up = len(query.split()) <= _LOOK_UP_WORDS
    in_full = table.dated & search.date_only | (share > 0.99) & is_look_up
    full_cosines = table.near.full.cosines  # highest first
    # `usual`: the cosine of memories that do not answer
    count = len(full_cosines)
    usual = 0.0
    if count >= _LIST:
        median = (full_cosines[(count - 1) // 2] + full_cosines[count // 2]) / 2
        usual = min(0.99, max(0.0, float(median)))
    nearness = search.trust * np.fmax(0.0, table.cosines - usual) / (1 - usual)
    countable = [len(term) > 2 or not term.isdecimal() for term in table.text.matches.terms]
    words = holds @ np.array(countable, np.float64)
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
        evidence = np.maximum(by_words, _STEEPNESS * (nearness - _NEAR))
    else:
        evidence = by_words - _LONG_TEXTS * table.long
    evidence = np.where(in_full, np.maximum(evidence, _IN_FULL), evidence)
    return 1 / (1 + np.exp(-evidence))


def _smallness(documents: int) -> float:
    """Return 1 for a scope of at most 10 memories, falling with the logarithm to 0 at 100."""
    closeness = math.log(_LARGE / max(1, documents)) / math.log(_LARGE / _SMALL)
    return min(1.0, max(0.0, closeness))
