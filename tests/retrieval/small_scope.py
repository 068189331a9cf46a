"""A scope in memory that answers as `MemoryStore` promises, for rankings without a database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from kagent_memory.language.dates import named_spans
from kagent_memory.language.time_words import names_a_time
from kagent_memory.language.tokenizer import index_terms, query_terms
from kagent_memory.retrieval.ranking import Ranking, RankSettings, join, rank, shortlist
from kagent_memory.stores.base import RankFeatures, TermMatrix, TextMatches
from kagent_memory.stores.columns import Places

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


class SmallScope:
    def __init__(self) -> None:
        self.features: list[RankFeatures] = []
        self.terms: dict[str, Mapping[str, int]] = {}

    def add(
        self,
        content: str,
        *,
        author: str | None = None,
        session: str | None = None,
        happened: datetime | None = None,
        importance: float = 0.5,
        created: datetime = NOW,
    ) -> str:
        key = f"m{len(self.features):04d}"
        position = sum(place.session_id == session for place in self.features) if session else None
        asks = content.rstrip().endswith("?")
        self.terms[key] = index_terms(content, author)
        timed = names_a_time(self.terms[key].keys(), author)
        place = RankFeatures(
            key, session, position, author, importance, created, happened, len(content), asks, timed
        )
        self.features.append(place)
        return key

    def search_text(self, query: str) -> TextMatches:
        asked = query_terms(query)
        frequencies = Counter(
            term for terms in self.terms.values() for term in asked if term in terms
        )
        lengths = {key: sum(terms.values()) for key, terms in self.terms.items()}
        known = list(frequencies)
        ids = [key for key, terms in self.terms.items() if not terms.keys().isdisjoint(known)]
        counts = np.array([[self.terms[key].get(term, 0) for term in known] for key in ids])
        matches = TermMatrix(
            ids,
            known,
            np.array([lengths[key] for key in ids], np.int64),
            counts.reshape(len(ids), len(known)),
        )
        return TextMatches(
            documents=len(lengths),
            average_length=sum(lengths.values()) / max(1, len(lengths)),
            frequencies=frequencies,
            matches=matches,
        )

    def rank(
        self,
        query: str,
        cosines: Mapping[str, float] | None = None,
        *,
        settings: RankSettings = RankSettings(),
        min_score: float = 0.0,
        floor: float = 0.0,
        full: Mapping[str, float] | None = None,
        now: datetime = NOW,
    ) -> Ranking:
        nearest = _ordered(cosines) if cosines else []
        candidates = join(
            query_terms(query), self.search_text(query), nearest, _ordered(full) if full else None
        )
        wanted = set(shortlist(candidates, settings))
        near = {
            (place.session_id, place.position)
            for place in self.features
            if place.id in wanted and place.session_id
        }
        features = [place for place in self.features if place.id in wanted or _beside(place, near)]
        return rank(
            query,
            candidates,
            Places.of(features),
            spans=named_spans(query, now),
            min_score=min_score,
            floor=floor,
            settings=settings,
        )

    def ids(
        self, query: str, cosines: Mapping[str, float] | None = None, **options: object
    ) -> list[str]:
        return [hit.id for hit in self.rank(query, cosines, **options).ranked]  # type: ignore[arg-type]


def _ordered(cosines: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    return sorted(cosines.items(), key=lambda item: (-item[1], item[0]))


def _beside(place: RankFeatures, near: set[tuple[str | None, int | None]]) -> bool:
    if place.session_id is None or place.position is None:
        return False
    return any((place.session_id, place.position + step) in near for step in (-2, -1, 1, 2))
