"""A scope in memory that answers as `MemoryStore` promises, for rankings without a database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace

import numpy as np

from kagent_memory import RankSettings
from kagent_memory.language.tokenizer import index_terms, query_terms
from kagent_memory.records import Exclusion
from kagent_memory.retrieval.question import Question
from kagent_memory.retrieval.ranking.rank import Ranked, rank
from kagent_memory.retrieval.ranking.table import Near
from kagent_memory.retrieval.search import Search
from kagent_memory.stores.index import Entry, ScopeIndex
from kagent_memory.stores.postings import packed
from kagent_memory.stores.values import TextMatches
from kagent_memory.stores.vectors import Nearest
from kagent_memory.testing.fixtures import NOW


class SmallScope:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.index = ScopeIndex()

    def add(
        self,
        content: str,
        *,
        author: str | None = None,
        session: str | None = None,
        happened: datetime | None = None,
    ) -> int:
        """Add a memory; return its row."""
        row = len(self.entries)
        entry = Entry(
            id=f"m{row:04d}",
            session_id=session,
            position=sum(memory.session_id == session for memory in self.entries)
            if session
            else None,
            author=author,
            created_at=NOW,
            happened_at=happened,
            chars=len(content),
            asks=content.rstrip().endswith("?"),
            postings=packed(index_terms(content, author)),
        )
        self.entries.append(entry)
        self.index = self.index.updated([entry])
        return row

    def search_text(self, query: str) -> TextMatches:
        return self.index.text(query_terms(query), 10**6, self.index.visible(NOW))

    def rank(
        self,
        query: str,
        cosines: Mapping[int, float] | None = None,
        *,
        settings: RankSettings = RankSettings(),
        min_score: float = 0.0,
        full: Mapping[int, float] | None = None,
        now: datetime = NOW,
    ) -> tuple[list[Ranked], Mapping[int, Exclusion]]:
        question = Question.read(query, now)
        search = Search(
            scopes=(), text=query, question=question, now=now, min_score=min_score, explain=True
        )
        search.terms = search.question.terms
        visible = self.index.visible(NOW)
        search.view = SimpleNamespace(index=self.index, visible=visible, current=visible)  # type: ignore
        nearest = _ordered(cosines or {})
        near = Near(nearest, _ordered(full) if full else nearest)
        return rank(search, self.search_text(query), near, settings)

    def ids(
        self, query: str, cosines: Mapping[int, float] | None = None, **options: object
    ) -> list[int]:
        return [hit.row for hit in self.rank(query, cosines, **options)[0]]  # type: ignore[arg-type]


def _ordered(cosines: Mapping[int, float]) -> Nearest:
    rows, values = np.array([*cosines], np.int64), np.array([*cosines.values()])
    return Nearest.best(rows, values, len(rows))
