"""Ranks the candidates by what they hold, where they stand, and when and by whom they were said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...language.dates import Span, closeness
from ...language.preferences import USER
from ...language.time_words import asks_when
from ...language.tokenizer import tokens
from ...records import LeftOut
from ...stores.columns import NONE, Places, spots_of, time_of
from .candidates import Candidates, Numbers, bm25, fused, share_of_best, wordiness
from .rank_settings import RankSettings
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
        explain: what found a memory, and what each sign added to its score.
        signs: what each sign added to the scores before they were brought into 0..1, in the order
            of the features.
    """

    ranked: list[Ranked]
    left_out: tuple[LeftOut, ...]
    explain: Callable[[str], dict[str, Any]]
    signs: Mapping[str, Numbers]


def rank(
    query: str,
    candidates: Candidates,
    features: Places,
    *,
    min_score: float = 0.0,
    floor: float = 0.0,
    settings: RankSettings = RankSettings(),
    dated: Collection[str] = (),
    preferences: Collection[str] = (),
    date_only: bool = False,
    spans: Sequence[Span] = (),
) -> Ranking:
    """The candidates whose features are known, in the order they answer the query.

    Args:
        query: as asked, all words.
        candidates: of both searches.
        features: of the shortlist and its neighbours in their sessions. What is not among them is
            not ranked.
        settings: the weights.
        min_score: floor on the full query's cosine for rows that only the vector search found.
        floor: when none of the first five has this relevance, nothing is answered. 0: off.
        dated: the ids found by a date that the query names; answers as those found by a word are.
        preferences: the ids of what states a preference.
        date_only: the query asks for a date and nothing else: what is of that date matches in full.
        spans: the times that the query names.
    """
    table = _Table(candidates, features, dated, preferences)
    matches = _matches(candidates, table, settings, date_only=date_only)
    long = wordiness(candidates.average_length)
    signs = _signs(query, matches, table, settings, long=long, spans=spans)
    most = _most(settings)
    whole = sum(signs.values(), np.zeros(len(features))) / most
    scores = np.minimum(np.maximum(whole, 0.0), 1.0)
    if (exact := candidates.exact[table.rows]).any():  # above all that the other signs can reach
        signs["exact"] = np.where(exact, most, 0.0)
        scores, whole = (scores + exact) / 2, whole + 2.0 * exact
        most *= 2

    cosines = candidates.cosines[table.rows]
    order = (-whole).argsort(kind="stable")  # those that are told as 0 still have an order
    rows: list[int] = order.tolist()
    ids = map(features.ids.__getitem__, rows)
    seen = (None if cosine != cosine else cosine for cosine in cosines[order].tolist())
    relevances = relevance(
        query,
        candidates,
        table.rows,
        names_speaker="author" in signs,
        of_the_date=table.dated & date_only,
    )
    ranked = [*map(Ranked, ids, scores[order].tolist(), seen, relevances[order].tolist())]
    left_out: list[LeftOut] = []
    is_narrow = bool(min_score) if candidates.has_vectors else candidates.idf.size < _CONTEXT_TERMS
    if is_narrow:
        matched: npt.NDArray[np.bool_] = (table.counts.max(axis=1, initial=0.0) > 0) | table.dated
        # NaN is not
        answers = matched | (cosines >= min_score) if candidates.has_vectors else matched
        found: list[bool] = answers[order].tolist()
        if candidates.has_vectors:
            below = (hit.id for hit, is_answer in zip(ranked, found, strict=True) if not is_answer)
            left_out += [
                LeftOut(memory_id=memory_id, reason="below_min_score") for memory_id in below
            ]
        ranked = [*compress(ranked, found)]
    if ranked and max(hit.relevance for hit in ranked[:_FIRST_HITS]) < floor:
        left_out += [LeftOut(memory_id=hit.id, reason="irrelevant") for hit in ranked]
        ranked = []
    explain = partial(_why, candidates=candidates, table=table, signs=signs, most=most)
    return Ranking(ranked, tuple(left_out), explain, signs)


class _Table:
    """The features as arrays: each one's row among the candidates, its session, and who stands
    around it.
    """

    def __init__(
        self,
        candidates: Candidates,
        features: Places,
        dated: Collection[str],
        preferences: Collection[str],
    ) -> None:
        nothing, ids = len(candidates.rows), features.ids
        self.features = features
        self.rows = np.array([candidates.rows.get(id, nothing) for id in ids], dtype=np.intp)
        self.counts = candidates.counts[self.rows]
        self.dense = candidates.dense[self.rows]
        self.dated = np.array([id in dated for id in ids], np.bool_)
        self.preferences = np.array([id in preferences for id in ids], np.float64)
        self.asks = features.columns["asks"].astype(np.float64)
        self._spots, self._rising, self._order = spots_of(features.columns)
        sessions: list[int] = features.columns["session"].tolist()
        numbers: dict[int, int] = {}
        # one without a session stands alone
        alone = (~row if session < 0 else session for row, session in enumerate(sessions))
        self.sessions = np.array(
            [numbers.setdefault(session, len(numbers)) for session in alone], dtype=np.intp
        )

    def beside(self, step: int) -> npt.NDArray[np.intp]:
        """Return the row of the turn so many steps on in each one's session; one past the last row
        for none.
        """
        wanted = self._spots + step
        last = self._rising.searchsorted(wanted, "right") - 1
        is_there = (self._spots != NONE) & (last >= 0) & (self._rising[last] == wanted)
        return np.where(is_there, self._order[last], len(self._spots))


class _Matches(NamedTuple):
    """Fit of each candidate's words, vectors, neighbouring turns and session to the query.

    Attributes:
        around: the window's match by words alone.
        previous: the row of the turn before; one past the last where there is none.
    """

    own: Numbers
    window: Numbers
    session: Numbers
    around: Numbers
    previous: npt.NDArray[np.intp]


def _matches(
    candidates: Candidates, table: _Table, settings: RankSettings, *, date_only: bool
) -> _Matches:
    counts, dense, lengths = table.counts, table.dense, candidates.lengths[table.rows]
    window, window_dense = _around(table)
    size = int(table.sessions.max(initial=-1)) + 1
    whole, nearest = np.zeros((size, counts.shape[1])), np.zeros(size)
    np.add.at(whole, table.sessions, counts)
    np.maximum.at(nearest, table.sessions, dense)
    # a session has no length here: of its turns only those that match and their neighbours are at
    # hand
    by_session = bm25(candidates, whole, np.full(size, candidates.average_length))
    with_words = bm25(candidates, window, lengths)
    own, with_turns, of_session = (
        fused(candidates, words, share_of_best(vectors), settings)
        for words, vectors in (
            (bm25(candidates, counts, lengths), dense),
            (with_words, window_dense),
            (by_session[table.sessions], nearest[table.sessions]),
        )
    )
    if date_only:
        own, with_turns, of_session = (
            np.maximum(match, table.dated) for match in (own, with_turns, of_session)
        )
    return _Matches(own, with_turns, of_session, with_words, table.beside(-1))


def _around(table: _Table) -> tuple[Numbers, Numbers]:
    """Return how often the turns around each hold each term, and their mean cosine, each step away
    half.
    """
    count, terms = table.counts.shape
    # side by side, so that each step is one addition: the counts, the cosines, and that there is a
    # turn at all
    padded = np.zeros((count + 1, terms + 2))
    padded[:-1, :terms], padded[:-1, terms], padded[:-1, terms + 1] = table.counts, table.dense, 1.0
    around = padded[:-1].copy()
    for away in range(1, REACH + 1):
        for step in (-away, away):
            around += padded[table.beside(step)] / 2**away
    return around[:, :terms], around[:, terms] / around[:, terms + 1]


def _most(settings: RankSettings) -> float:
    """Return the highest score there could be."""
    matches = settings.match + settings.window + settings.session + settings.answer
    others = settings.author + settings.substance
    return matches + (2 + _NEAR_DAY) * settings.time + others or 1.0


def _signs(
    query: str,
    matches: _Matches,
    table: _Table,
    settings: RankSettings,
    *,
    long: float,
    spans: Sequence[Span],
) -> dict[str, Numbers]:
    """Return what each sign adds to the scores, by its name.

    A `long` text speaks for itself, so that the weight of what surrounds it goes to its own match.
    """
    features, chat = table.features, 1 - long
    asked = np.zeros(len(features) + 1)  # the last stands for no turn
    asked[:-1] = matches.around * table.asks
    signs: dict[str, Numbers] = {
        "match": (settings.match + long * (settings.window + settings.session)) * matches.own,
        "window": chat * settings.window * matches.window,
        "session": chat * settings.session * matches.session,
        "answer": chat * settings.answer * asked[matches.previous],
        "substance": settings.substance * _substance(table, long),
    }
    if spans or asks_when(query):
        signs["time"] = settings.time * _time(query, features, spans)
    words, said_by = set(tokens(query)), list[int](features.columns["author"].tolist())
    authors = (number for number in set(said_by) if number >= 0 and features.names[number] != USER)
    if named := {
        number for number in authors if not words.isdisjoint(tokens(features.names[number]))
    }:
        signs["author"] = settings.author * np.array(
            [one in named for one in said_by], dtype=np.float64
        )
    return signs


def _substance(table: _Table, long: float) -> Numbers:
    """Return how much each turn tells by itself: in chat, short turns and questions little; among
    long texts, what answers the user less than what the user said, which it repeats. A preference
    bears on more than its words say.
    """
    features, authors = table.features, table.features.columns["author"]
    chars = np.minimum(1.0, np.log1p(features.columns["chars"].astype(np.float64)) / _LONG)
    of_user = np.array(
        [number >= 0 and features.names[number] == USER for number in authors.tolist()]
    )
    answers = (authors >= 0) & ~of_user if of_user.any() else np.zeros(len(features))
    alone = (1 - long) * (chars - _ASKS * table.asks) - long * answers
    return alone + _PREFERENCE * table.preferences


def _time(query: str, features: Places, spans: Sequence[Span]) -> Numbers:
    """Return how well each memory's time, or one that it names, is what the query asks for."""
    times = (
        features.columns["names_a_time"].astype(np.float64)
        if asks_when(query)
        else np.zeros(len(features))
    )
    if spans:
        happened = map(time_of, features.columns["happened"].tolist())
        near = np.array([closeness(spans, at) for at in happened]).reshape(-1, 2)
        times = times + near[:, 0] + _NEAR_DAY * near[:, 1]
    return times


def _why(
    memory_id: str, *, candidates: Candidates, table: _Table, signs: dict[str, Numbers], most: float
) -> dict[str, Any]:
    spot = table.features.ids.index(memory_id)
    row = int(table.rows[spot])
    matched, cosine = bool(candidates.counts[row].any()), float(candidates.cosines[row])
    found = {"text": matched, "vector": cosine == cosine, "date": bool(table.dated[spot])}
    why: dict[str, Any] = {"legs": [leg for leg, seen in found.items() if seen]}
    if matched:
        why["text_rank"] = 1 + int(
            (candidates.counts @ candidates.idf > candidates.counts[row] @ candidates.idf).sum()
        )
    if cosine == cosine:
        why["vector_rank"] = 1 + int((candidates.cosines > cosine).sum())
        why["cosine"] = round(cosine, 6)
    why["scores"] = {
        name: float(values[spot]) / most for name, values in signs.items() if values[spot]
    }
    return why
