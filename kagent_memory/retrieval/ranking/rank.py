"""Ranks the candidates of both legs by what they hold, where they stand, and when and by whom they were said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...language.dates import closeness, named_spans
from ...language.tokenizer import tokens
from ...records import LeftOut
from ...stores.base import RankFeatures
from .candidates import Candidates, Numbers, bm25, fused
from .rank_settings import RankSettings


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
    """

    ranked: list[Ranked]
    left_out: tuple[LeftOut, ...]
    explain: Callable[[str], dict[str, Any]]


def rank(
    query: str,
    legs: Candidates,
    places: Sequence[RankFeatures],
    *,
    now: datetime,
    min_score: float = 0.0,
    settings: RankSettings = RankSettings(),
    dated: Collection[str] = (),
    only_when: bool = False,
) -> Ranking:
    """The candidates whose places are known, in the order they answer the query.

    Args:
        query: as asked, all words.
        legs: both legs' candidates.
        places: of the shortlist and its neighbours in their sessions. What is not among them is not ranked.
        now: what "yesterday" is counted from.
        settings: the weights.
        min_score: floor on the full query's cosine for rows that only the vector leg found.
        dated: the ids found by a date that the query names; answers as those found by a word are.
        only_when: the query asks what there was at a time and no more: then to be of that time is the whole match.
    """
    table = _Table(legs, places, dated)
    own = _own(legs, table, settings)
    own = np.maximum(own, table.dated) if only_when else own
    signs = _signs(query, own, table, now, settings)
    scores = sum(signs.values(), np.zeros(len(places)))
    most = _most(settings, legs)
    scores = np.clip(scores / most, 0.0, 1.0)
    wanted = _wanted(legs, table, min_score, settings)
    order = np.lexsort((np.arange(len(places)), -scores))
    cosines = legs.cosines[table.rows]
    ranked: list[Ranked] = []
    left_out: list[LeftOut] = []
    rows: list[int] = order.tolist()
    for row, score, cosine, good in zip(
        rows, scores[order].tolist(), cosines[order].tolist(), wanted[order].tolist(), strict=True
    ):
        if good:
            ranked.append(Ranked(places[row].id, score, None if cosine != cosine else cosine))
        elif min_score and legs.has_vectors:
            left_out.append(LeftOut(memory_id=places[row].id, reason="below_min_score"))
    return Ranking(ranked, tuple(left_out), partial(_why, legs=legs, table=table, signs=signs, most=most))


class _Table:
    """The places as arrays: each one's row among the legs, and its neighbours' places (the last, empty one if none)."""

    def __init__(self, legs: Candidates, places: Sequence[RankFeatures], dated: Collection[str]) -> None:
        nothing = len(legs.rows)
        self.places = places
        self.rows = np.array([legs.rows.get(place.id, nothing) for place in places], dtype=np.intp)
        spots = [(place.session_id or "", -2 if place.position is None else place.position) for place in places]
        at = {spot: row for row, spot in enumerate(spots) if spot[0]}
        last = len(places)
        self.previous = np.array([at.get((session, position - 1), last) for session, position in spots], dtype=np.intp)
        self.next = np.array([at.get((session, position + 1), last) for session, position in spots], dtype=np.intp)
        self.dated = np.array([place.id in dated for place in places] if dated else [False] * last, dtype=np.bool_)
        self.asks = np.array([place.asks for place in places], dtype=np.float64)

    def sessions(self) -> tuple[npt.NDArray[np.intp], int]:
        """Each place's session as a number, and how many there are; places without one stand alone."""
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(place.session_id or place.id, len(numbers)) for place in self.places]
        return np.array(found, dtype=np.intp), len(numbers)


def _signs(query: str, own: Numbers, table: _Table, now: datetime, settings: RankSettings) -> dict[str, Numbers]:
    before, after = _padded(own)[table.previous], _padded(own)[table.next]
    signs = {
        "match": own,
        "following": settings.following * after,
        "answer": settings.answer * before * _padded(table.asks)[table.previous],
    }
    so_far = own + signs["following"] + signs["answer"]
    signs["session"] = settings.session * _session_best(so_far, table)
    signs |= _when_and_who(query, table.places, now, settings)
    chars = np.array([place.chars for place in table.places], dtype=np.float64)
    signs["length"] = settings.length * np.minimum(1.0, np.log1p(chars) / _LONG)
    signs["question"] = -settings.question * table.asks
    if settings.recency:
        ages = np.array([(now - (place.happened_at or place.created_at)).total_seconds() for place in table.places])
        signs["recency"] = settings.recency * 0.5 ** (np.maximum(ages, 0.0) / 86_400 / settings.half_life_days)
    if settings.importance:
        signs["importance"] = settings.importance * np.array([place.importance for place in table.places])
    return signs


_LONG = np.log1p(300.0)


def _own(legs: Candidates, table: _Table, settings: RankSettings) -> Numbers:
    counts = legs.counts[table.rows]
    around = np.vstack([counts, np.zeros((1, counts.shape[1]))])
    counts = counts + settings.before * around[table.previous] + settings.after * around[table.next]
    lexical = bm25(legs, counts, legs.lengths[table.rows], settings)
    return fused(legs, lexical, legs.dense[table.rows], settings)


def _padded(values: Numbers) -> Numbers:
    return np.append(values, 0.0)


def _session_best(scores: Numbers, table: _Table) -> Numbers:
    numbers, count = table.sessions()
    best = np.zeros(count)
    np.maximum.at(best, numbers, scores)
    return best[numbers]


def _when_and_who(
    query: str, places: Sequence[RankFeatures], now: datetime, settings: RankSettings
) -> dict[str, Numbers]:
    signs: dict[str, Numbers] = {}
    if spans := named_spans(query, now):
        near = np.array([closeness(spans, place.happened_at) for place in places]).reshape(-1, 2)
        signs = {"month": settings.month * near[:, 0], "day": settings.day * near[:, 1]}
    words = set(tokens(query))
    authors = {place.author for place in places if place.author}
    named = {author for author in authors if not words.isdisjoint(tokens(author))}
    if named:
        signs["author"] = settings.author * np.array([place.author in named for place in places], dtype=np.float64)
    return signs


def _most(settings: RankSettings, legs: Candidates) -> float:
    weights = (settings.following, settings.answer, settings.month, settings.day, settings.author, settings.length)
    extra = settings.recency + settings.importance
    return (1 + settings.following + settings.answer) * (1 + settings.session) + sum(weights[2:]) + extra


def _wanted(legs: Candidates, table: _Table, min_score: float, settings: RankSettings) -> npt.NDArray[np.bool_]:
    matched: npt.NDArray[np.bool_] = (legs.counts.max(axis=1, initial=0.0) > 0)[table.rows] | table.dated
    if not legs.has_vectors:
        return matched if legs.idf.size < settings.context_terms else np.ones_like(matched)
    cosines = legs.cosines[table.rows]
    return matched | (np.nan_to_num(cosines, nan=-2.0) >= (min_score or -2.0))


def _why(memory_id: str, *, legs: Candidates, table: _Table, signs: dict[str, Numbers], most: float) -> dict[str, Any]:
    spot = next(number for number, place in enumerate(table.places) if place.id == memory_id)
    row = int(table.rows[spot])
    matched, cosine = bool(legs.counts[row].any()), float(legs.cosines[row])
    found = {"text": matched, "vector": cosine == cosine, "date": bool(table.dated[spot])}
    why: dict[str, Any] = {"legs": [leg for leg, seen in found.items() if seen]}
    if matched:
        why["text_rank"] = 1 + int((legs.counts @ legs.idf > legs.counts[row] @ legs.idf).sum())
    if cosine == cosine:
        why["vector_rank"] = 1 + int((legs.cosines > cosine).sum())
        why["cosine"] = round(cosine, 6)
    why["scores"] = {name: float(values[spot]) / most for name, values in signs.items() if values[spot]}
    return why
