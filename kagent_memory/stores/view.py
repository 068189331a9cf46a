"""A scope as one search reads it: at one time, under one filter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Filter, Memory, Scope, Vector
from .codec import bounded
from .columns import Places
from .filter_match import is_searched, matches_filter
from .index import Nearest, ScopeIndex, entry_of
from .planning import postings_of
from .values import Stale, TextMatches, checked_vector
from .vectors import VectorColumn

if TYPE_CHECKING:
    from .base import MemoryStore

__all__ = ["MemoriesView", "Nearest", "Stale", "View", "texts"]

ROW_WEIGHT = 100  # of one memory, against a character of what else is worked on in a thread


class View(Protocol):
    """One scope at one time, under one filter: all of its answers go together."""

    @property
    def source(self) -> MemoryStore:
        """The store that it is read from; of a standby, one that reads there."""
        ...

    @property
    def scope(self) -> Scope:
        """Whose memories these are."""
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


class MemoriesView:
    """A scope whose memories are read whole, once, when they are first asked for, and searched
    here: right for any store that keeps few memories in a scope, for a scope as it was, and for
    what a session keeps for itself.

    Args:
        source: the store that it is read from.
        scope: whose memories.
        read: returns them by id.
        vectors: returns those of some memories in an embedding space; None: as the store has them.
        short_term: the ids of those that are searched as if they were active, and are not.
        filter: which memories.
        now: the time.
    """

    def __init__(
        self,
        source: MemoryStore,
        scope: Scope,
        read: Callable[[], Awaitable[Mapping[str, Memory]]],
        *,
        vectors: Callable[[int, Sequence[str]], Awaitable[Mapping[str, Vector]]] | None = None,
        short_term: Collection[str] = (),
        filter: Filter,
        now: datetime,
    ) -> None:
        self.source, self.scope = source, scope
        self._read, self._read_vectors, self._short_term = read, vectors, short_term
        self._filter, self._now = filter, now
        self._known: tuple[Mapping[str, Memory], ScopeIndex] | None = None

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

        async def read() -> Mapping[str, Memory]:
            return active

        return cls(source, scope, read, short_term=active.keys(), filter=filter, now=now)

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """See `View`."""
        known, index = await self._contents()
        among = await self._passing()
        superseded = bool(self._filter.superseded)
        return await run_in_thread(
            ROW_WEIGHT * len(known),
            index.text,
            terms,
            bounded(limit),
            self._now,
            superseded=superseded,
            among=among,
        )

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """See `View`."""
        spaces = await self.source.spaces.all()
        space = next((space for space in spaces if space.number == space_number), None)
        if space is None:
            raise InvalidInput(f"There is no embedding space {space_number} here.")
        queries = [checked_vector(vector, space.dimensions) for vector in vectors]
        if not queries:
            return []
        known, index = await self._contents()
        among = await self._passing()
        if self._read_vectors is not None:
            rows = await self._read_vectors(space_number, among)
        else:
            rows = await self.source.vectors(self.scope, space_number, among)
        column = index.vectors[space_number] = VectorColumn(space.dimensions)

        def nearest() -> list[Nearest]:
            if rows:
                index.put_vectors(
                    column, "".join(rows), np.array([*rows.values()]).astype(np.float16)
                )
            superseded = bool(self._filter.superseded)
            return index.nearest(
                space_number, queries, bounded(limit), self._now, superseded=superseded, among=among
            )

        return await run_in_thread(ROW_WEIGHT * len(known), nearest)

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Places:
        """See `View`."""
        return (await self._contents())[1].features(ids, reach, self._now)

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
        known, _ = await view._contents()
        some = [known[id] for id in await view._passing()]
        return sorted(some, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]

    def under(self, filter: Filter, now: datetime) -> MemoriesView:
        """See `View`."""
        view = MemoriesView(
            self.source,
            self.scope,
            self._read,
            vectors=self._read_vectors,
            short_term=self._short_term,
            filter=filter,
            now=now,
        )
        view._known = self._known
        return view

    async def _contents(self) -> tuple[Mapping[str, Memory], ScopeIndex]:
        """Return the memories by id, and their index."""
        if self._known is None:
            memories = await self._read()
            size = sum(len(memory.content) for memory in memories.values())
            self._known = memories, await run_in_thread(size, _indexed, [*memories.values()])
        return self._known

    async def _passing(self) -> list[str]:
        """Return the ids of the memories that the filter lets through, in order."""
        known, _ = await self._contents()

        def passing() -> list[str]:
            seen = (
                one
                for one in known.values()
                if is_searched(one, self._now, self._filter.superseded)
            )
            return sorted(one.id for one in seen if matches_filter(self._filter, one))

        return await run_in_thread(ROW_WEIGHT * len(known), passing)


def _indexed(memories: Sequence[Memory]) -> ScopeIndex:
    index = ScopeIndex()
    index.load([entry_of(memory, postings_of(memory)) for memory in memories])
    return index
