"""A scope as seen by one search: in memory, at one time, under one filter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from typing_extensions import override

from ..concurrency import each_aside, run_in_thread
from ..language.tokenizer import query_terms
from ..records import EVERYTHING, SEARCHED, Filter, Memory, Scope, Vector
from .codec import Texts, bounded
from .columns import Mask, Rows
from .decisions import matches_filter
from .index import ENTRY_WEIGHT, ScopeIndex, entry_of
from .spaces import checked_vectors
from .values import TextMatches
from .vectors import Nearest, VectorColumn

if TYPE_CHECKING:
    from .base import MemoryStore

# what a search does in one unit of `run_in_thread`, the time to read a character
MEMORIES_PER_UNIT = 5  # searched by words
VECTOR_BYTES_PER_UNIT = 4_000  # compared


@dataclass(eq=False)
class View(ABC):
    """A snapshot of a scope for one search, under its filter and at its time.

    Text searches run in memory, so that a whole search can move to a thread once; `size` tells if
    it should. Vectors and memories may have to be read.

    Attributes:
        source: the store to read from; for a standby, one that reads there.
        scope: the scope.
        index: its index.
        filter: the filter of the search.
        passing: the ids that pass it; None: all.
        now: the time of the search.
    """

    source: MemoryStore
    scope: Scope
    index: ScopeIndex
    filter: Filter
    passing: Sequence[str] | None
    now: datetime

    # computed on first use, in the thread of the search

    @cached_property
    def visible(self) -> Mask:
        """The mask of the rows to search: they pass the filter, have not expired, and are active
        unless inactive ones were asked for.
        """
        superseded = bool(self.filter.superseded)
        if self.passing is None and not superseded:
            return self.current
        return self.index.visible(self.now, superseded=superseded, among=self.passing)

    @cached_property
    def current(self) -> Mask:
        """The mask of the rows that are active and have not expired, whether or not they pass the
        filter.
        """
        return self.index.visible(self.now)

    @cached_property
    def hidden(self) -> Mask:
        """The mask of the rows that have expired or are not active."""
        return ~self.current

    def without(self, rows: Mask | Rows) -> Self:
        """Return the same view, in which these rows are neither searched nor read."""
        view = copy(self)
        for name in ("visible", "current", "hidden"):
            mask = getattr(self, name).copy()
            mask[rows] = False
            setattr(view, name, mask)
        return view

    @property
    def size(self) -> int:
        """The cost of a search in units of `run_in_thread`; a filter adds the lookup of its ids."""
        return len(self.index.ids) // (MEMORIES_PER_UNIT if self.passing is None else 1)

    def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return the memories that hold any of the terms, rarest terms first, with counts for BM25.

        The limit keeps those with the highest sum of 1/frequency over the terms they hold, ties by
        id descending. Without terms there are no matches, only counts.

        Args:
            terms: the terms, as made by `tokenizer.index_terms`.
            limit: the most memories to return.
        """
        return self.index.text(terms, bounded(limit), self.visible)

    async def texts(self, queries: Sequence[str], *, limit: int) -> list[TextMatches]:
        """Return the answer of `text` for each query; other tasks run in between."""
        return await each_aside(
            queries,
            lambda query: len(query) + self.size,
            lambda query: self.text(query_terms(query), limit=limit),
        )

    @abstractmethod
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """Return the nearest memories of each query vector, exact within the scope.

        They have a vector and pass the filter.

        Raises:
            InvalidInput: a vector does not fit the embedding space, or there is none of this
                number.
        """

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[list[tuple[str, float]]]:
        """Return the results of `nearest_rows` as ids and cosines."""
        return [
            [*zip(self.index.ids_of(near.rows), near.cosines.tolist(), strict=True)]
            for near in await self.nearest_rows(space_number, vectors, limit=limit)
        ]

    async def _nearest(
        self,
        column: VectorColumn,
        vectors: Sequence[Vector],
        limit: int,
        fresh: Mapping[str, Vector] | None = None,
    ) -> list[Nearest]:
        """Return the nearest vectors of a column, after adding the `fresh` ones to it."""

        def search() -> list[Nearest]:
            if fresh:
                column.put([*fresh], np.array([*fresh.values()]).astype(np.float16))
            return column.nearest(self.index, vectors, bounded(limit), self.visible)

        size = len(vectors) * column.size // VECTOR_BYTES_PER_UNIT + ENTRY_WEIGHT * len(fresh or ())
        return await run_in_thread(self.size + size, search)

    @abstractmethod
    async def memories(self, ids: Sequence[str], *, hidden: bool = False) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, whether or not they pass the filter.

        With `hidden`, expired and inactive ones too.

        Raises:
            Stale: the scope was written to since this view was taken.
        """


@dataclass(eq=False)
class MemoriesView(View):
    """A view of memories that are all in memory, never stale.

    It fits stores with few memories per scope, past states of a scope, and short-term memories.

    Attributes:
        memories_by_id: the memories.
        reworded: the ids of the memories whose stored vector is that of a later text.
    """

    memories_by_id: Mapping[str, Memory]
    reworded: Set[str]

    @classmethod
    async def of(
        cls,
        source: MemoryStore,
        scope: Scope,
        memories: Sequence[Memory],
        *,
        states: Set[str] = SEARCHED,
        reworded: Set[str] = frozenset(),
        filter: Filter = EVERYTHING,
        now: datetime,
    ) -> Self:
        """Return a view of some memories. Those in one of `states` count as active."""

        def indexed() -> Self:
            postings = Texts().postings
            entries = [
                entry_of(memory, postings(memory), active=memory.state in states)
                for memory in memories
            ]
            return cls(
                source,
                scope,
                ScopeIndex().updated(entries),
                filter,
                None
                if filter == EVERYTHING
                else [memory.id for memory in memories if matches_filter(filter, memory)],
                now,
                {memory.id: memory for memory in memories},
                reworded,
            )

        size = sum(ENTRY_WEIGHT + len(memory.content) for memory in memories)
        return await run_in_thread(size, indexed)

    @override
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        dimensions = await self.source.spaces.dimensions_of(space_number)
        queries = checked_vectors(vectors, dimensions)
        ids = [id for id in self.index.ids_of(self.visible) if id not in self.reworded]
        rows = await self.source.vectors(self.scope, space_number, ids)
        return await self._nearest(VectorColumn(dimensions), queries, limit, rows)

    @override
    async def memories(self, ids: Sequence[str], *, hidden: bool = False) -> Mapping[str, Memory]:
        rows = self.index.rows_of(ids)
        ids = self.index.ids_of(rows if hidden else rows[self.current[rows]])
        return {id: self.memories_by_id[id] for id in ids}
