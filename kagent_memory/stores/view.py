"""A scope as one search reads it: at one time, under one filter."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np
from typing_extensions import override

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Filter, Memory, Scope, Vector
from .codec import bounded
from .columns import Mask, Places
from .filter_match import is_searched, matches_filter
from .index import ScopeIndex, entry_of
from .planning import Texts
from .spaces import checked_vector
from .values import Stale, TextMatches
from .vectors import Nearest, VectorColumn

if TYPE_CHECKING:
    from .base import MemoryStore

__all__ = ["MemoriesView", "Nearest", "Stale", "View", "texts"]

ROW_WEIGHT = 100  # of one memory, against a character of what else is worked on in a thread
SEARCHED_BYTES = 16_000  # of an index, to be searched as long as it takes to read one character


class View(Protocol):
    """One scope at one time, under one filter: all of its answers go together."""

    @property
    def source(self) -> MemoryStore:
        """The store that it is read from; of a standby, one that reads there."""
        ...

    @property
    def scope(self) -> Scope:
        """Return the scope of these memories."""
        ...

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """Return the memories that hold any of the terms, rarest terms first, and the counts for
        BM25.

        The cut at `limit` keeps those with the highest sum of 1/frequency over the terms they hold,
        ties by id descending. No terms: no matches, but the counts.

        Args:
            terms: as `tokenizer.index_terms` made them.
            limit: how many memories at most.
        """
        ...

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """Return the nearest memories of each query vector, exact within the scope.

        (id, cosine in -1..1 rounded to 6 digits), highest first, ties by id descending: exactly
        min(limit, how many have a vector and pass the filter).

        Raises:
            InvalidInput: a vector does not fit the embedding space, or there is none of this
                number.
        """
        ...

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Places:
        """Return where these visible memories stand, and those up to `reach` positions from them in
        their sessions.

        The filter does not count here.
        """
        ...

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """Return the visible ones of these memories, whether the filter lets them through or not.

        Raises:
            Stale: the scope was written to since what this view answered from.
        """
        ...

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """Return the newest memories that this filter lets through at this time, ties by id
        descending.
        """
        ...

    def under(self, filter: Filter, now: datetime) -> View:
        """Return a view of the same scope with another filter and time, which is never stale."""
        ...


async def texts(view: View, queries: Sequence[Sequence[str]], *, limit: int) -> list[TextMatches]:
    """Return what `view.text` finds for each of the queries; others have their turns in between."""
    found: list[TextMatches] = []
    for terms in queries:
        found.append(await view.text(terms, limit=limit))
        await asyncio.sleep(0)
    return found


class IndexView(ABC):
    """A scope that is searched by an index in memory.

    Args:
        source: the store that it is read from.
        scope: whose memories.
        filter: which of them.
        now: the time.
    """

    def __init__(self, source: MemoryStore, scope: Scope, *, filter: Filter, now: datetime) -> None:
        self.source, self.scope = source, scope
        self._filter, self._now = filter, now
        self._superseded = bool(filter.superseded)

    @abstractmethod
    async def _searched(self) -> tuple[ScopeIndex, Mask]:
        """Return the index, and which of its rows are searched: the same at each call."""

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """See `View`."""
        index, visible = await self._searched()
        size = index.size // SEARCHED_BYTES
        return await run_in_thread(size, index.text, terms, bounded(limit), visible)

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Places:
        """See `View`."""
        index, _ = await self._searched()
        return index.features(ids, reach, index.visible(self._now))

    async def _nearest(
        self, column: VectorColumn, vectors: Sequence[Vector], limit: int
    ) -> list[Nearest]:
        """Return the nearest of these vectors."""
        index, visible = await self._searched()
        size = len(vectors) * (index.size + column.size) // SEARCHED_BYTES
        return await run_in_thread(size, column.nearest, index, vectors, bounded(limit), visible)


class MemoriesView(IndexView):
    """A scope whose memories are read whole, once, when they are first asked for, and searched
    here: right for any store that keeps few memories in a scope, for a scope as it was, and for
    what a session keeps for itself.

    Args:
        source: the store that it is read from.
        scope: whose memories.
        memories: which, by id; None: what the store holds when it is first asked.
        vectors: returns those of some memories in an embedding space; None: as the store has them.
        short_term: the ids of those that are searched as if they were active, and are not.
        filter: which memories.
        now: the time.
    """

    def __init__(
        self,
        source: MemoryStore,
        scope: Scope,
        memories: Mapping[str, Memory] | None = None,
        *,
        vectors: Callable[[int, Sequence[str]], Awaitable[Mapping[str, Vector]]] | None = None,
        short_term: Collection[str] = (),
        filter: Filter,
        now: datetime,
    ) -> None:
        super().__init__(source, scope, filter=filter, now=now)
        self._memories, self._short_term = memories, short_term
        self._vectors = vectors or partial(source.vectors, scope)
        self._known: tuple[Mapping[str, Memory], ScopeIndex] | None = None
        self._visible: Mask | None = None

    @classmethod
    def of(
        cls,
        source: MemoryStore,
        scope: Scope,
        memories: Sequence[Memory],
        *,
        filter: Filter,
        now: datetime,
    ) -> Self:
        """Return a view of short-term memories that were read already."""
        active = {memory.id: replace(memory, state="active") for memory in memories}
        return cls(source, scope, active, short_term=active.keys(), filter=filter, now=now)

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """See `View`."""
        spaces = await self.source.spaces.all()
        space = next((space for space in spaces if space.number == space_number), None)
        if space is None:
            raise InvalidInput(f"There is no embedding space {space_number} here.")
        queries = [checked_vector(vector, space.dimensions) for vector in vectors]
        index, visible = await self._searched()
        column = VectorColumn(space.dimensions)
        if rows := await self._vectors(space_number, index.ids_of(visible)):
            numbers = np.array([*rows.values()]).astype(np.float16)
            await run_in_thread(ROW_WEIGHT * len(rows), column.put, [*rows], numbers)
        return await self._nearest(column, queries, limit)

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; never stale."""
        known, _ = await self._contents()
        found = [known[id] for id in dict.fromkeys(ids) if id in known]
        return {
            one.id: replace(one, state="short_term") if one.id in self._short_term else one
            for one in found
            if is_searched(one, self._now, self._filter.superseded)
        }

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """See `View`."""
        view: MemoriesView = self.under(filter, now)
        index, visible = await view._searched()
        known, _ = await view._contents()
        some = [known[id] for id in index.ids_of(visible)]
        return sorted(some, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]

    def under(self, filter: Filter, now: datetime) -> MemoriesView:
        """See `View`."""
        view: MemoriesView = copy(self)
        IndexView.__init__(view, self.source, self.scope, filter=filter, now=now)
        view._visible = None
        return view

    async def _contents(self) -> tuple[Mapping[str, Memory], ScopeIndex]:
        """Return the memories by id, and their index."""
        if self._known is None:
            memories = self._memories
            if memories is None:
                every = await self.source.whole(self.scope)
                memories = {one.memory.id: one.memory for one in every}
            size = sum(len(memory.content) for memory in memories.values())
            self._known = memories, await run_in_thread(size, _indexed, [*memories.values()])
        return self._known

    @override
    async def _searched(self) -> tuple[ScopeIndex, Mask]:
        known, index = await self._contents()
        if self._visible is None:

            def visible() -> Mask:
                passing = (
                    one.id
                    for one in known.values()
                    if is_searched(one, self._now, self._filter.superseded)
                    and matches_filter(self._filter, one)
                )
                return index.visible(self._now, superseded=self._superseded, among=passing)

            self._visible = await run_in_thread(ROW_WEIGHT * len(known), visible)
        return index, self._visible


def _indexed(memories: Sequence[Memory]) -> ScopeIndex:
    postings = Texts().postings
    return ScopeIndex().updated([entry_of(memory, postings(memory)) for memory in memories])
