"""A scope as one search reads it: at one time, under one filter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Filter, Memory, Scope, Vector
from .codec import bounded
from .filter_match import is_visible, matches_filter
from .planning import postings_of
from .text_index import Entry, ScopeIndex
from .values import RankFeatures, Stale, TextMatches, checked_vector, rank_features

if TYPE_CHECKING:
    from .base import MemoryStore

__all__ = ["Contents", "MemoriesView", "Nearest", "Stale", "View", "texts"]

Nearest = list[tuple[str, float]]
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
        """Return the memories that hold any of the terms, rarest terms first, and the counts for BM25.

        The cut at `limit` keeps those with the highest sum of 1/frequency over the terms they hold, ties by id
        descending. No terms: no matches, but the counts.

        Args:
            terms: as `tokenizer.index_terms` made them.
            limit: how many memories at most.
        """
        ...

    async def nearest(self, space_number: int, vectors: Sequence[Vector], *, limit: int) -> list[Nearest]:
        """Return the nearest memories of each query vector, exact within the scope.

        (id, cosine in -1..1 rounded to 6 digits), highest first, ties by id descending: exactly min(limit, how many
        have a vector and pass the filter).

        Raises:
            InvalidInput: a vector does not fit the embedding space, or there is none of this number.
        """
        ...

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Sequence[RankFeatures]:
        """Return where these visible memories stand, and those up to `reach` positions from them in their sessions.

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
        """Return the newest memories that this filter lets through at this time, ties by id descending."""
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


class Contents:
    """Memories with an index of them, read once, when they are first asked for."""

    def __init__(self, read: Callable[[], Awaitable[Mapping[str, Memory]]]) -> None:
        self._read = read
        self._known: tuple[Mapping[str, Memory], ScopeIndex] | None = None

    @classmethod
    def of(cls, memories: Mapping[str, Memory]) -> Self:
        """Return those that were read already."""

        async def read() -> Mapping[str, Memory]:
            return memories

        return cls(read)

    async def known(self) -> tuple[Mapping[str, Memory], ScopeIndex]:
        """Return the memories by id, and their index."""
        if self._known is None:
            memories = await self._read()
            size = sum(len(memory.content) for memory in memories.values())
            self._known = memories, await run_in_thread(size, _indexed, list(memories.values()))
        return self._known


class MemoriesView:
    """A scope that is read whole and searched here: right for any store that keeps few memories in a scope."""

    def __init__(self, source: MemoryStore, scope: Scope, contents: Contents, *, filter: Filter, now: datetime) -> None:
        self.source, self.scope = source, scope
        self._contents, self._filter, self._now = contents, filter, now

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """See `View`."""
        _, index = await self._contents.known()
        passing = await self._passing()

        def found() -> TextMatches:
            visible = index.visible(self._now, superseded=bool(self._filter.superseded), among=passing)
            return index.search(terms, visible, bounded(limit))

        return await run_in_thread(ROW_WEIGHT * len(passing), found)

    async def nearest(self, space_number: int, vectors: Sequence[Vector], *, limit: int) -> list[Nearest]:
        """See `View`."""
        spaces = await self.source.embedding_spaces()
        space = next((space for space in spaces if space.number == space_number), None)
        if space is None:
            raise InvalidInput(f"There is no embedding space {space_number} here.")
        queries = [checked_vector(vector, space.dimensions) for vector in vectors]
        if not queries:
            return []
        rows = await self._vectors(space_number, await self._passing())
        return await run_in_thread(ROW_WEIGHT * len(rows), _nearest, rows, queries, bounded(limit))

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Sequence[RankFeatures]:
        """See `View`."""
        return (await self._contents.known())[1].places(ids, reach, self._now)

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; never stale."""
        known, _ = await self._contents.known()
        found = {id: known[id] for id in ids if id in known}
        return {id: one for id, one in found.items() if is_visible(one, self._now, self._filter.superseded)}

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """See `View`."""
        known, _ = await self._contents.known()
        view: MemoriesView = self.under(filter, now)
        some = [known[id] for id in await view._passing()]
        return sorted(some, key=lambda one: (one.created_at, one.id), reverse=True)[:limit]

    def under(self, filter: Filter, now: datetime) -> Self:
        """See `View`."""
        return type(self)(self.source, self.scope, self._contents, filter=filter, now=now)

    async def _vectors(self, space_number: int, ids: Sequence[str]) -> Mapping[str, Vector]:
        return await self.source.vectors(self.scope, space_number, ids)

    async def _passing(self) -> list[str]:
        """The ids of the memories that the filter lets through, in order."""
        known, _ = await self._contents.known()

        def passing() -> list[str]:
            seen = (one for one in known.values() if is_visible(one, self._now, self._filter.superseded))
            return sorted(one.id for one in seen if matches_filter(self._filter, one))

        return await run_in_thread(ROW_WEIGHT * len(known), passing)


def _nearest(rows: Mapping[str, Vector], queries: Sequence[Vector], limit: int) -> list[Nearest]:
    if not rows:
        return [[] for _ in queries]
    ids = sorted(rows, reverse=True)
    matrix = np.array([rows[id] for id in ids], np.float64)
    norms = np.linalg.norm(matrix, axis=1)
    found: list[Nearest] = []
    for query in queries:
        exact = query.astype(np.float64)
        cosines = np.clip(matrix @ exact / (norms * np.linalg.norm(exact)), -1.0, 1.0).round(6) + 0.0
        best: list[int] = np.argsort(-cosines, kind="stable")[:limit].tolist()
        found.append([(ids[row], float(cosines[row])) for row in best])
    return found


def _indexed(memories: Sequence[Memory]) -> ScopeIndex:
    index = ScopeIndex()
    index.load(
        [
            Entry(
                rank_features(memory),
                memory.state == "active",
                None if memory.pinned else memory.expires_at,
                postings_of(memory),
            )
            for memory in memories
        ]
    )
    return index
