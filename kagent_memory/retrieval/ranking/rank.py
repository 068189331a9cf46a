"""Ranks the candidates by what they hold, where they stand, and when and by whom they were said."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...language.dates import Span, closeness, named_spans
from ...language.time_words import asks_when
from ...language.tokenizer import tokens
from ...records import LeftOut
from ...stores.base import RankFeatures
from ...stores.columns import NONE, Places
from .candidates import Candidates, Numbers, bm25, fused, share_of_best, wordiness
from .rank_settings import RankSettings

_LONG = np.log1p(300.0)
_NEAR_DAY = 1.5  # times what the month is worth
_ASKS = 0.3  # of what a long turn is worth is taken off one that asks
_USER = "user"  # who ADK says wrote what a person typed
_FIRST_HITS = 5
# Logistic regression over the first five hits of two data sets (bench/relevance.py); the vector's is the cosine.
_SCORE, _OWN, _WINDOW, _BIAS = 9.2, 0.9, 1.7, -8.2
_SCORE_HYBRID, _OWN_HYBRID, _WINDOW_HYBRID, _COSINE, _BIAS_HYBRID = 7.8, 1.3, 0.9, 1.4, -7.1


class Ranked(NamedTuple):
    """One candidate in its place: the score in 0..1, and the full query's cosine if the vector leg saw it."""

    id: str
    score: float
    cosine: float | None


@dataclass(frozen=True)
class Ranking:
    """All candidates, best first, and those that the floor left out.

    Attributes:
        explain: what found a memory, and what each sign added to its score.
        signs: what each sign added to the scores before they were brought into 0..1, in the order of the features.
        relevance: how likely a memory answers the query, 0..1: of the first hits with so much that share did, where
            this was measured.
    """

    ranked: list[Ranked]
    left_out: tuple[LeftOut, ...]
    explain: Callable[[str], dict[str, Any]]
    signs: Mapping[str, Numbers]
    relevance: Callable[[str], float]


def rank(
    query: str,
    candidates: Candidates,
    features: Sequence[RankFeatures],
    *,
    now: datetime,
    min_score: float = 0.0,
    settings: RankSettings = RankSettings(),
    dated: Collection[str] = (),
    date_only: bool = False,
    spans: Sequence[Span] | None = None,
) -> Ranking:
    """The candidates whose features are known, in the order they answer the query.

    Args:
        query: as asked, all words.
        candidates: of both searches.
        features: of the shortlist and its neighbours in their sessions. What is not among them is not ranked.
        now: what "yesterday" is counted from.
        settings: the weights.
        min_score: floor on the full query's cosine for rows that only the vector search found.
        dated: the ids found by a date that the query names; answers as those found by a word are.
        date_only: the query asks for a date and nothing else: what is of that date matches in full.
        spans: the times that the query names; None: they are read from it.
    """
    spans = named_spans(query, now) if spans is None else spans
    features = features if isinstance(features, Places) else Places.of(features)
    table = _Table(candidates, features, dated)
    matches = _matches(candidates, table, settings, date_only=date_only)
    long = wordiness(candidates.average_length)
    signs = _signs(query, matches, table, settings, long=long, now=now, spans=spans)
    most = _most(settings)
    exact = candidates.exact[table.rows]
    if exact.any():  # a place of its own above all that the other signs can reach
        signs["exact"] = (most * exact).astype(np.float64)
        most *= 2
    whole = sum(signs.values(), np.zeros(len(features))) / most
    scores = np.minimum(np.maximum(whole, 0.0), 1.0)

    cosines = candidates.cosines[table.rows]
    order = (-scores).argsort(kind="stable")
    rows: list[int] = order.tolist()
    ids = map(features.ids.__getitem__, rows)
    seen = (None if cosine != cosine else cosine for cosine in cosines[order].tolist())
    ranked = [*map(Ranked, ids, scores[order].tolist(), seen)]
    left_out: list[LeftOut] = []
    is_narrow = bool(min_score) if candidates.has_vectors else candidates.idf.size < settings.context_terms
    if is_narrow:
        matched: npt.NDArray[np.bool_] = (table.counts.max(axis=1, initial=0.0) > 0) | table.dated
        answers = matched | (cosines >= min_score) if candidates.has_vectors else matched  # NaN is not
        found: list[bool] = answers[order].tolist()
        if candidates.has_vectors:
            below = (hit.id for hit, is_answer in zip(ranked, found, strict=True) if not is_answer)
            left_out += [LeftOut(memory_id=memory_id, reason="below_min_score") for memory_id in below]
        ranked = [*compress(ranked, found)]
    relevance = partial(_relevance, candidates, table, matches, scores, date_only=date_only)
    if settings.nothing_below and all(relevance(hit.id) < settings.nothing_below for hit in ranked[:_FIRST_HITS]):
        left_out += [LeftOut(memory_id=hit.id, reason="irrelevant") for hit in ranked]
        ranked = []
    explain = partial(_why, candidates=candidates, table=table, signs=signs, most=most)
    return Ranking(ranked, tuple(left_out), explain, signs, relevance)


class _Table:
    """The features as arrays: each one's row among the candidates, its session, and who stands around it."""

    def __init__(self, candidates: Candidates, features: Places, dated: Collection[str]) -> None:
        nothing, last = len(candidates.rows), len(features)
        self.features = features
        ids, standing = features.ids, candidates.rows
        self.rows = np.array([standing.get(id, nothing) for id in ids], dtype=np.intp)
        self.counts = candidates.counts[self.rows]
        self.dense = candidates.dense[self.rows]
        self.dated = np.array([id in dated for id in ids], np.bool_) if dated else np.zeros(last, np.bool_)
        self.asks = features.asks.astype(np.float64)
        self.positions = np.where(features.sessions < 0, NONE, features.positions)
        self._placed: npt.NDArray[np.bool_] = self.positions != NONE
        self.has_neighbours = bool(self._placed.any())
        numbers: dict[int, int] = {}
        # one without a session stands alone
        alone = (~place if session < 0 else session for place, session in enumerate(features.sessions.tolist()))
        self.sessions = np.array([numbers.setdefault(session, len(numbers)) for session in alone], dtype=np.intp)

    def beside(self, steps: Sequence[int]) -> npt.NDArray[np.intp]:
        """For each number of steps the rows of the turns so far on in the session; one past the last row where there
        is none.
        """
        # one key a place, so far from the next session's that no step leads there
        reach, held = max(map(abs, steps)), self.positions[self._placed]
        low, high = int(held.min(initial=0)), int(held.max(initial=0))
        keys = self.sessions * (high - low + 2 * reach + 1) + self.positions - low + reach
        keys = np.where(self._placed, keys, -1)
        order = keys.argsort(kind="stable")
        ordered, wanted = keys[order], keys + np.array(steps)[:, None]
        spots = ordered.searchsorted(wanted, "right") - 1
        found = self._placed & (spots >= 0) & (ordered[spots] == wanted)
        return np.where(found, order[spots], len(self.features))


class _Matches(NamedTuple):
    """How well a memory's own words and vector, those with the turns around it, and its session's answer the query.

    Attributes:
        around: the window's match by words alone.
        held: how often the window holds each term, each step away half.
        previous: the row of the turn before; one past the last where there is none.
    """

    own: Numbers
    window: Numbers
    session: Numbers
    around: Numbers
    held: Numbers
    previous: npt.NDArray[np.intp]


def _matches(candidates: Candidates, table: _Table, settings: RankSettings, *, date_only: bool) -> _Matches:
    counts, dense, lengths = table.counts, table.dense, candidates.lengths[table.rows]
    window, window_dense, beside = _around(table, settings.reach)
    size = int(table.sessions.max(initial=-1)) + 1
    whole, nearest = np.zeros((size, counts.shape[1])), np.zeros(size)
    np.add.at(whole, table.sessions, counts)
    np.maximum.at(nearest, table.sessions, dense)
    # a session has no length here: of its turns only those that match and their neighbours are at hand
    by_session = bm25(candidates, whole, np.full(size, candidates.average_length))
    own_words = bm25(candidates, counts, lengths)
    with_words = bm25(candidates, window, lengths) if table.has_neighbours else own_words
    levels = [
        fused(candidates, words, share_of_best(vectors), settings)
        for words, vectors in (
            (own_words, dense),
            (with_words, window_dense),
            (by_session[table.sessions], nearest[table.sessions]),
        )
    ]
    if date_only:
        levels = [np.maximum(level, table.dated) for level in levels]
    own, with_turns, of_session = levels
    return _Matches(own, with_turns, of_session, with_words, window, beside[0])


def _around(table: _Table, reach: int) -> tuple[Numbers, Numbers, npt.NDArray[np.intp]]:
    """How often the turns around each hold each term, their mean cosine, each step away half, and the rows of
    these turns, those of the ones before first.
    """
    counts, dense = table.counts, table.dense
    count, terms = counts.shape
    if not table.has_neighbours:
        return counts, dense, np.full((1, count), count)
    # side by side, so that each step is one addition: the counts, the cosines, and that there is a turn at all
    padded = np.zeros((count + 1, terms + 2))
    padded[:-1, :terms], padded[:-1, terms], padded[:-1, terms + 1] = counts, dense, 1.0
    steps = [step for away in range(1, reach + 1) for step in (-away, away)]
    beside = table.beside(steps or [-1])
    around = padded[:-1].copy()
    for step, rows in zip(steps, beside, strict=False):
        around += padded[rows] / 2 ** abs(step)
    return around[:, :terms], around[:, terms] / around[:, terms + 1], beside


def _relevance(
    candidates: Candidates, table: _Table, matches: _Matches, scores: Numbers, memory_id: str, *, date_only: bool
) -> float:
    """How likely a memory answers the query, by its score, the share of the query's words that it and the turns around
    it hold, each by its rarity, and the full query's cosine.
    """
    row = table.features.ids.index(memory_id)
    asked = float(candidates.idf.sum()) + candidates.missing or 1.0
    own, around = (float(candidates.idf @ (counts[row] > 0)) / asked for counts in (table.counts, matches.held))
    if date_only and table.dated[row]:
        own = around = 1.0
    score, cosine = float(scores[row]), float(np.nan_to_num(candidates.cosines[table.rows[row]]))
    if candidates.has_vectors:
        weighed = _SCORE_HYBRID * score + _OWN_HYBRID * own + _WINDOW_HYBRID * around + _COSINE * cosine + _BIAS_HYBRID
    else:
        weighed = _SCORE * score + _OWN * own + _WINDOW * around + _BIAS
    return 1 / (1 + math.exp(-weighed))


def _most(settings: RankSettings) -> float:
    """Return the highest score there could be."""
    matches = settings.match + settings.window + settings.session + settings.answer
    others = settings.author + settings.substance + settings.recency + settings.importance
    return matches + (2 + _NEAR_DAY) * settings.time + others or 1.0


def _signs(
    query: str,
    matches: _Matches,
    table: _Table,
    settings: RankSettings,
    *,
    long: float,
    now: datetime,
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
    words, said_by = set(tokens(query)), list[int](features.authors.tolist())
    authors = (number for number in set(said_by) if number >= 0)
    if named := {number for number in authors if not words.isdisjoint(tokens(features.names[number]))}:
        signs["author"] = settings.author * np.array([one in named for one in said_by], dtype=np.float64)
    if settings.recency:
        ages = np.array([(now - (one.happened_at or one.created_at)).total_seconds() for one in features])
        signs["recency"] = settings.recency * 0.5 ** (np.maximum(ages, 0.0) / 86_400 / settings.half_life_days)
    if settings.importance:
        signs["importance"] = settings.importance * np.array([one.importance for one in features])
    return signs


def _substance(table: _Table, long: float) -> Numbers:
    """Return how much each turn tells by itself: in chat, short turns and questions little; among long
    texts, what answers the user less than what the user said, which it repeats.
    """
    features = table.features
    chars = np.minimum(1.0, np.log1p(features.chars.astype(np.float64)) / _LONG)
    of_user = np.array([number >= 0 and features.names[number] == _USER for number in features.authors.tolist()])
    answers = (features.authors >= 0) & ~of_user if of_user.any() else np.zeros(len(features))
    return (1 - long) * (chars - _ASKS * table.asks) - long * answers


def _time(query: str, features: Places, spans: Sequence[Span]) -> Numbers:
    """Return how well each memory's time, or one that it names, is what the query asks for."""
    times = features.names_a_time.astype(np.float64) if asks_when(query) else np.zeros(len(features))
    if spans:
        near = np.array([closeness(spans, one.happened_at) for one in features]).reshape(-1, 2)
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
        why["text_rank"] = 1 + int((candidates.counts @ candidates.idf > candidates.counts[row] @ candidates.idf).sum())
    if cosine == cosine:
        why["vector_rank"] = 1 + int((candidates.cosines > cosine).sum())
        why["cosine"] = round(cosine, 6)
    why["scores"] = {name: float(values[spot]) / most for name, values in signs.items() if values[spot]}
    return why
