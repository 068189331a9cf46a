"""Ranks the candidates by what they hold, where they stand, and when and by whom they were said."""

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

_LONG = np.log1p(300.0)


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
    candidates: Candidates,
    features: Sequence[RankFeatures],
    *,
    now: datetime,
    min_score: float = 0.0,
    settings: RankSettings = RankSettings(),
    dated: Collection[str] = (),
    date_only: bool = False,
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
    """
    table = _Table(candidates, features, dated)
    around = np.vstack([table.counts, np.zeros((1, table.counts.shape[1]))])
    counts = table.counts + settings.before * around[table.previous] + settings.after * around[table.next]
    lexical = bm25(candidates, counts, candidates.lengths[table.rows], settings)
    match = fused(candidates, lexical, candidates.dense[table.rows], settings)
    signs = _signs(query, np.maximum(match, table.dated) if date_only else match, table, now, settings)
    weights = settings.month + settings.day + settings.author + settings.length + settings.recency + settings.importance
    most = (1 + settings.following + settings.answer) * (1 + settings.session) + weights
    scores = np.clip(sum(signs.values(), np.zeros(len(features))) / most, 0.0, 1.0)

    cosines = candidates.cosines[table.rows]
    matched: npt.NDArray[np.bool_] = (table.counts.max(axis=1, initial=0.0) > 0) | table.dated
    if candidates.has_vectors:
        answers = matched | (np.nan_to_num(cosines, nan=-2.0) >= (min_score or -2.0))
    else:
        answers = matched if candidates.idf.size < settings.context_terms else np.ones_like(matched)
    order = np.lexsort((np.arange(len(features)), -scores))
    ranked: list[Ranked] = []
    left_out: list[LeftOut] = []
    rows: list[int] = order.tolist()
    for row, score, cosine, is_answer in zip(
        rows, scores[order].tolist(), cosines[order].tolist(), answers[order].tolist(), strict=True
    ):
        if is_answer:
            ranked.append(Ranked(features[row].id, score, None if cosine != cosine else cosine))
        elif min_score and candidates.has_vectors:
            left_out.append(LeftOut(memory_id=features[row].id, reason="below_min_score"))
    explain = partial(_why, candidates=candidates, table=table, signs=signs, most=most)
    return Ranking(ranked, tuple(left_out), explain)


class _Table:
    """The features as arrays: each one's row among the candidates, and its neighbours (the last, empty one if none)."""

    def __init__(self, candidates: Candidates, features: Sequence[RankFeatures], dated: Collection[str]) -> None:
        nothing = len(candidates.rows)
        self.features = features
        self.rows = np.array([candidates.rows.get(one.id, nothing) for one in features], dtype=np.intp)
        self.counts = candidates.counts[self.rows]
        positions = [(one.session_id or "", -2 if one.position is None else one.position) for one in features]
        at = {position: row for row, position in enumerate(positions) if position[0]}
        last = len(features)
        self.previous = np.array([at.get((session, number - 1), last) for session, number in positions], dtype=np.intp)
        self.next = np.array([at.get((session, number + 1), last) for session, number in positions], dtype=np.intp)
        self.dated = np.array([one.id in dated for one in features] if dated else [False] * last, dtype=np.bool_)
        self.asks = np.array([one.asks for one in features], dtype=np.float64)

    def best_of_session(self, scores: Numbers) -> Numbers:
        """For each memory the best score in its session; one without a session stands alone."""
        numbers: dict[str, int] = {}
        sessions = np.array(
            [numbers.setdefault(one.session_id or one.id, len(numbers)) for one in self.features], dtype=np.intp
        )
        best = np.zeros(len(numbers))
        np.maximum.at(best, sessions, scores)
        return best[sessions]


def _signs(query: str, match: Numbers, table: _Table, now: datetime, settings: RankSettings) -> dict[str, Numbers]:
    """What each sign adds to the scores, by its name."""
    features = table.features
    padded, asks = np.append(match, 0.0), np.append(table.asks, 0.0)
    signs = {
        "match": match,
        "following": settings.following * padded[table.next],
        "answer": settings.answer * padded[table.previous] * asks[table.previous],
    }
    signs["session"] = settings.session * table.best_of_session(match + signs["following"] + signs["answer"])
    if spans := named_spans(query, now):
        near = np.array([closeness(spans, one.happened_at) for one in features]).reshape(-1, 2)
        signs |= {"month": settings.month * near[:, 0], "day": settings.day * near[:, 1]}
    words = set(tokens(query))
    authors = {one.author for one in features if one.author}
    if named := {author for author in authors if not words.isdisjoint(tokens(author))}:
        signs["author"] = settings.author * np.array([one.author in named for one in features], dtype=np.float64)
    chars = np.array([one.chars for one in features], dtype=np.float64)
    signs["length"] = settings.length * np.minimum(1.0, np.log1p(chars) / _LONG)
    signs["question"] = -settings.question * table.asks
    if settings.recency:
        ages = np.array([(now - (one.happened_at or one.created_at)).total_seconds() for one in features])
        signs["recency"] = settings.recency * 0.5 ** (np.maximum(ages, 0.0) / 86_400 / settings.half_life_days)
    if settings.importance:
        signs["importance"] = settings.importance * np.array([one.importance for one in features])
    return signs


def _why(
    memory_id: str, *, candidates: Candidates, table: _Table, signs: dict[str, Numbers], most: float
) -> dict[str, Any]:
    spot = next(number for number, one in enumerate(table.features) if one.id == memory_id)
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
