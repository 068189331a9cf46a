"""A scope that is searched by its index in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from ...records import Filter, Memory, Vector
from ..codec import bounded
from ..spaces import checked_vector
from ..values import EARLIEST
from ..view import Nearest, Stale, View
from .index_cache import Cached

if TYPE_CHECKING:
    from .memories import SqlMemoryStore


class ScopeView(View):
    """A scope whose index is kept in memory between searches.

    Args:
        store: that it is read from.
        cached: what is kept of the scope.
        matching: the ids that the filter lets through; None: all.
        filter: which memories are searched.
        now: the time.
        trusted: nobody was asked yet whether the index is up to date; the first read does.
    """

    def __init__(
        self,
        store: SqlMemoryStore,
        cached: Cached,
        matching: Sequence[str] | None,
        *,
        filter: Filter,
        now: datetime,
        trusted: bool,
    ) -> None:
        superseded = bool(filter.superseded)
        super().__init__(
            store, cached.scope, cached.index, matching, superseded=superseded, now=now
        )
        self._store, self._reads, self._cached = store, store.index_reads, cached
        self._trusted = cached.stand if trusted else None
        self._searched_vectors = False  # before anybody was asked

    @override
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        dimensions = await self._reads.spaces.dimensions_of(space_number)
        checked = [checked_vector(vector, dimensions) for vector in vectors]
        if not (checked and self.index.ids and bounded(limit)):
            return [Nearest() for _ in checked]
        trusted = self._trusted is not None
        column = await self._store.indexes.vectors(
            self._cached, space_number, dimensions, self._reads, trusted=trusted
        )
        if column is None:
            return await self._reads.nearest(
                self.scope, space_number, checked, bounded(limit), self.index, self.visible
            )
        self._searched_vectors |= trusted
        return await self._nearest(column, checked, limit)

    @override
    async def memories(self, ids: Sequence[str], *, hidden: bool = False) -> Mapping[str, Memory]:
        if self._trusted is None or hidden:
            now = EARLIEST if hidden else self._now
            return await self.source.get(self.scope, ids, now=now, superseded=hidden)
        stand, self._trusted = self._trusted, None
        try:
            return await self._reads.unchanged(
                self.scope, ids, stand=stand, vectors=self._searched_vectors, now=self._now
            )
        except Stale:
            self._store.indexes.unsettle(self.scope)
            raise
