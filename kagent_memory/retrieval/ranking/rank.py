"""Ranks the candidates by what they hold, where they stand, and when and by whom they were said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...language.dates import closeness
from ...language.preferences import USER
from ...language.time_words import asks_when
from ...language.tokenizer import tokens
from ...records import Exclusion
from ...stores.columns import NONE, Mask, Places, Rows, spots_of, time_of
from ..search import Search
from . import RankSettings
from .candidates import Candidates, Numbers, bm25, fused, share_of_best, wordiness
from .relevance import relevance

_LONG = np.log1p(300.0)
_NEAR_DAY = 1.5  # times what the month is worth
_ASKS = 0.3  # of what a long turn is worth is taken off one that asks
_PREFERENCE = 0.3  # what a stated preference is worth beside a long turn's 1
_FIRST_HITS = 5
# In keyword mode, the neighbours of matching turns are answers too when the query has this many
# terms that the scope knows: a question may be answered by the next turn, a look-up of a word may
# not.
_CONTEXT_TERMS = 3
REACH = 2  # turns before and after that are neighbours


class Ranked(NamedTuple):
    """One candidate in its place.

    Attributes:
        score: 0..1, comparable within one ranking.
        cosine: the full query's, if the vector leg saw it.
        relevance: 0..1, comparable between queries.
    """

    id: str
    score: float
    cosine: float | None
    relevance: float = 0.0


@dataclass(frozen=True)
class Ranking:
    """All candidates, best first, and those that the floor left out.

    Attributes:
        signs: what each sign added to the scores before they were brought into 0..1, in the order
            of the places.
        highest: the score that is told as 1.
    """

    ranked: list[Ranked]
    left_out: Mapping[str, Exclusion]
    signs: Mapping[str, Numbers]
    highest: float
    candidates: Candidates
    table: Table

    def explain(self, memory_id: str) -> dict[str, Any]:
        """Return what found a memory, and what each sign added to its score; nothing found the
        successor of one that was found.
        """
        candidates, ids = self.candidates, self.table.places.ids
        if memory_id not in ids:
            return {"legs": [], "scores": {}}
        spot = ids.index(memory_id)
        row = int(self.table.rows[spot])
        words, cosine = candidates.counts @ candidates.idf, float(candidates.cosines[row])
        why: dict[str, Any] = {"legs": []}
        if candidates.counts[row].any():
            why["legs"].append("text")
            why["text_rank"] = 1 + int((words > words[row]).sum())
        if cosine == cosine:  # NaN is not
            why["legs"].append("vector")
            why["vector_rank"] = 1 + int((candidates.cosines > cosine).sum())
            why["cosine"] = round(cosine, 6)
        if self.table.dated[spot]:
            why["legs"].append("date")
        signs = {name: float(values[spot]) for name, values in self.signs.items()}
        why["scores"] = {name: value / self.highest for name, value in signs.items() if value}
        return why


def rank(
    search: Search,
    candidates: Candidates,
    places: Places,
    settings: RankSettings = RankSettings(),
) -> Ranking:
    """Return the candidates whose places are known, in the order they answer the query.

    When none of the first five has the relevance `search.floor`, nothing is answered.

    Args:
        search: what is searched for.
        candidates: of both searches.
        places: of the shortlist and its neighbours in their sessions. What is not among them is not
            ranked.
        settings: the weights.
    """
    table = Table(candidates, places, search)
    signs, highest = _signs(search, table, settings), _highest(settings)
    whole = sum(signs.values(), np.zeros(len(places))) / highest
    scores = whole.clip(0.0, 1.0)
    if (exact := candidates.exact[table.rows]).any():  # above all that the other signs can reach
        signs["exact"] = np.where(exact, highest, 0.0)
        highest *= 2
        scores, whole = (scores + exact) / 2, whole + 2.0 * exact
    fit = relevance(search, candidates, table.rows, dated=table.dated, named="author" in signs)
    cosines = candidates.cosines[table.rows]
    answers = _answers(search, table, cosines)
    order = (-whole).argsort(kind="stable")  # 0 and less has an order, too
    answering = order[answers[order]]
    rows: list[int] = answering.tolist()
    own: list[list[float]] = np.stack([scores, cosines, fit], axis=1)[answering].tolist()
    ranked = [
        Ranked(places.ids[row], score, None if math.isnan(cosine) else cosine, likelihood)
        for row, (score, cosine, likelihood) in zip(rows, own, strict=True)
    ]
    others: list[int] = order[~answers[order]].tolist()
    left_out: dict[str, Exclusion] = {}
    if candidates.has_vectors:
        left_out = {places.ids[row]: "below_min_score" for row in others}
    if ranked and max(hit.relevance for hit in ranked[:_FIRST_HITS]) < search.floor:
        left_out |= {hit.id: "irrelevant" for hit in ranked}
        ranked = []
    return Ranking(ranked, left_out, signs, highest, candidates, table)


class Table:
    """The candidates' places as arrays: each one's row among the candidates, its session, and who
    stands around it.
    """

    def __init__(self, candidates: Candidates, places: Places, search: Search) -> None:
        nothing, ids = len(candidates.rows), places.ids
        self.candidates, self.places = candidates, places
        self.rows = np.array([candidates.rows.get(id, nothing) for id in ids], np.intp)
        self.counts, self.dense = candidates.counts[self.rows], candidates.dense[self.rows]
        self.lengths = candidates.lengths[self.rows]
        self.dated = np.array([id in search.dated for id in ids], np.bool_)
        self.preferences = np.array([id in search.preferences for id in ids], np.bool_)
        self.asks = places.columns["asks"].astype(np.float64)
        self._spots, self._rising, self._order = spots_of(places.columns)
        # one without a session stands alone
        sessions = places.columns["session"].astype(np.int64)
        alone = np.where(sessions < 0, ~np.arange(len(ids)), sessions)
        _, self.sessions = np.unique(alone, return_inverse=True)

    def beside(self, step: int) -> Rows:
        """Return the row of the turn so many steps on in each one's session; one past the last row
        for none.
        """
        wanted = self._spots + step
        last = self._rising.searchsorted(wanted, "right") - 1
        is_there = (self._spots != NONE) & (last >= 0) & (self._rising[last] == wanted)
        return np.where(is_there, self._order[last], len(self._spots))

    def around(self) -> tuple[Numbers, Numbers]:
        """Return how often the turns around each hold each term, and their mean cosine, each step
        away half.
        """
        # side by side, so that each step is one addition: the counts, the cosines, and that there
        # is a turn at all
        own = np.column_stack([self.counts, self.dense, np.ones(len(self.dense))])
        padded = np.vstack([own, np.zeros(own.shape[1])])
        around = own.copy()
        for away in range(1, REACH + 1):
            for step in (-away, away):
                around += padded[self.beside(step)] / 2**away
        return around[:, :-2], around[:, -2] / around[:, -1]

    def of_sessions(self) -> tuple[Numbers, Numbers]:
        """Return how often each one's session holds each term, and its nearest cosine."""
        size = int(self.sessions.max(initial=-1)) + 1
        counts, nearest = np.zeros((size, self.counts.shape[1])), np.zeros(size)
        np.add.at(counts, self.sessions, self.counts)
        np.maximum.at(nearest, self.sessions, self.dense)
        return counts, nearest


def _answers(search: Search, table: Table, cosines: Numbers) -> Mask:
    """Return which candidates are answers: not what only its vector found below the floor, and no
    neighbours of what a look-up found.
    """
    candidates = table.candidates
    matched = table.counts.any(axis=1) | table.dated
    if candidates.has_vectors:
        return matched | (cosines >= search.min_score) if search.min_score else matched | True
    return matched | (len(candidates.terms) >= _CONTEXT_TERMS)


def _highest(settings: RankSettings) -> float:
    """Return the highest score there could be."""
    matches = settings.match + settings.window + settings.session + settings.answer
    others = settings.author + settings.substance
    return matches + (2 + _NEAR_DAY) * settings.time + others or 1.0


def _signs(search: Search, table: Table, settings: RankSettings) -> dict[str, Numbers]:
    """Return what each sign adds to the scores, by its name.

    A long text speaks for itself, so that the weight of what surrounds it goes to its own match.
    """
    candidates, places = table.candidates, table.places
    long = wordiness(candidates.average_length)

    def match(words: Numbers, dense: Numbers) -> Numbers:
        both = fused(candidates, words, share_of_best(dense), search, settings)
        return np.maximum(both, table.dated) if search.date_only else both

    counts, dense = table.around()
    words_around = bm25(candidates, counts, table.lengths)
    # a session has no length here: of its turns only those that match and their neighbours are at
    # hand
    in_session, nearest = table.of_sessions()
    by_session = bm25(candidates, in_session, np.full(len(nearest), candidates.average_length))
    own = match(bm25(candidates, table.counts, table.lengths), table.dense)
    session = match(by_session[table.sessions], nearest[table.sessions])
    asks = np.append(words_around * table.asks, 0.0)  # the last stands for no turn
    signs: dict[str, Numbers] = {
        "match": (settings.match + long * (settings.window + settings.session)) * own,
        "window": (1 - long) * settings.window * match(words_around, dense),
        "session": (1 - long) * settings.session * session,
        "answer": (1 - long) * settings.answer * asks[table.beside(-1)],
        "substance": settings.substance * _substance(table, long),
    }
    if search.question.spans or asks_when(search.question.text):
        signs["time"] = settings.time * _time(search, places)
    words, authors = {*tokens(search.question.text)}, places.columns["author"]
    named = [
        number
        for number in {*map(int, authors[authors >= 0])}
        if places.names[number] != USER and not words.isdisjoint(tokens(places.names[number]))
    ]
    if named:
        signs["author"] = settings.author * np.isin(authors, named).astype(np.float64)
    return signs


def _substance(table: Table, long: float) -> Numbers:
    """Return how much each turn tells by itself: in chat, short turns and questions little; among
    long texts, what answers the user less than what the user said, which it repeats. A preference
    bears on more than its words say.
    """
    columns, names = table.places.columns, table.places.names
    chars = np.minimum(1.0, np.log1p(columns["chars"]) / _LONG)
    of_user = np.isin(columns["author"], [n for n, name in enumerate(names) if name == USER])
    answers = (columns["author"] >= 0) & ~of_user & of_user.any()
    alone = (1 - long) * (chars - _ASKS * table.asks) - long * answers
    return alone + _PREFERENCE * table.preferences


def _time(search: Search, places: Places) -> Numbers:
    """Return how well each memory's time, or one that it names, is what the query asks for."""
    question = search.question
    times = places.columns["names_a_time"] * float(asks_when(question.text))
    if question.spans:
        happened = map(time_of, places.columns["happened"].tolist())
        near = np.array([closeness(question.spans, at) for at in happened])
        times = times + near.reshape(-1, 2) @ [1.0, _NEAR_DAY]
    return times
