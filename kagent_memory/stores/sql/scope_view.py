"""A scope in a SQL database as one search reads it: from memory where its index is cached there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from ...concurrency import run_in_thread
from ...records import EVERYTHING, Filter, Memory, Scope, Vector
from ..base import RankFeatures, TextMatches
from ..codec import bounded
from ..text_index import ScopeIndex
from ..vector_index import nearest_known
from ..view import Nearest, Stale
from . import read_queries

if TYPE_CHECKING:
    from .store import SqlStore

SEARCHED_BYTES = 16_000  # of an index, to be searched as long as it takes to read one character


class ScopeView:
    """A scope at one time: see `stores.view.View`.

    Args:
        source: the store that it is read from.
        scope: whose memories.
        filter: which of them.
        now: the time.
        cached: answers from memory alone where it can, and asks whether that still holds with the first memories.
    """

    def __init__(
        self, source: SqlStore[Any], scope: Scope, *, filter: Filter, now: datetime, cached: bool = False
    ) -> None:
        self.source, self.scope = source, scope
        self._filter, self._now = filter, now
        self._may_trust = cached and filter == EVERYTHING
        self._trusted: int | None = None  # the version that nobody was asked about yet
        self._marks: dict[int, int] = {}
        self._index: ScopeIndex | None = None
        self._version: int | None = None
        self._passing: Sequence[str] | None = None

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """See `View`."""
        index = await self._searched()
        find = partial(
            index.search_visible,
            terms,
            bounded(limit),
            self._now,
            superseded=bool(self._filter.superseded),
            among=self._passing,
        )
        return await run_in_thread(index.size // SEARCHED_BYTES, find)

    async def nearest(self, space_number: int, vectors: Sequence[Vector], *, limit: int) -> list[Nearest]:
        """See `View`."""
        checked = await self.source.checked_vectors(space_number, vectors)
        if not checked:
            return []
        if self._trusted is not None and (near := await self._cached(space_number, checked, limit)) is not None:
            return near
        return await self.source.nearest(
            self.scope,
            space_number,
            checked,
            limit=bounded(limit),
            filter=self._filter,
            version=self._version,
            passing=self._passing,
            now=self._now,
        )

    async def _cached(self, space_number: int, vectors: Sequence[Vector], limit: int) -> list[Nearest] | None:
        """The nearest by the vectors in memory, with a mark by which `memories` tells old ones; None: ask."""
        version = self._trusted
        if version is None or (index := self.source.indexes.known(self.scope, version)) is None:
            return None
        held = await self.source.cached_vectors(self.scope, space_number, index)
        if held is None:
            return None
        find = partial(nearest_known, limit=bounded(limit), version=version, now=self._now)
        found = await run_in_thread(len(vectors) * held.size // SEARCHED_BYTES, find, index, held, vectors)
        if found is None:
            return None
        near, self._marks[space_number] = found
        return near

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Sequence[RankFeatures]:
        """See `View`."""
        return (await self._searched()).places(ids, reach, self._now)

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; asks once whether what was trusted still holds."""
        if self._trusted is None:
            return await self.source.get(self.scope, ids, now=self._now, superseded=bool(self._filter.superseded))
        version, self._trusted = self._trusted, None
        found = await self.source.unchanged(self.scope, ids, version=version, marks=self._marks, now=self._now)
        if found is None:
            raise Stale
        return found

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """See `View`."""
        return (await self.source.list(self.scope, filter=filter, limit=limit, now=now)).memories

    def under(self, filter: Filter, now: datetime) -> ScopeView:
        """See `View`."""
        return ScopeView(self.source, self.scope, filter=filter, now=now)

    async def _searched(self) -> ScopeIndex:
        """The scope's index: as it is cached where that may be trusted, else as the database has it now."""
        if self._index is None:
            index = self.source.indexes.steady(self.scope) if self._may_trust else None
            if index is not None:
                self._trusted = index.version
            else:
                index, self._passing = await self.source.reader_of(self.scope).read(
                    read_queries.index_of, self.source.indexes, self.scope, self._filter, self._now
                )
            self.source.pack_outgrown()
            self._index, self._version = index, index.version
        return self._index
