"""A view of a scope on its cached index."""

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
from .index_cache import CachedScope

if TYPE_CHECKING:
    from .memories import SqlMemoryStore


class ScopeView(View):
    """A view of a scope whose index is cached between searches.

    Args:
        store: the store to read from.
        cached: the cached scope.
        matching: the ids that pass the filter; None: all.
        filter: the filter of the search.
        now: the time of the search.
        trusted: True if the index has not been checked against the store; the first read checks it.
    """

    def __init__(
        self,
        store: SqlMemoryStore,
        cached: CachedScope,
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
        self._trusted = cached.stamp if trusted else None
        self._searched_vectors = False  # True once vectors were searched by an unchecked index

    @override
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        dimensions = await self._store.spaces.dimensions_of(space_number)
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
        stamp, self._trusted = self._trusted, None
        try:
            return await self._reads.unchanged(
                self.scope, ids, stamp=stamp, vectors=self._searched_vectors, now=self._now
            )
        except Stale:
            self._store.indexes.unsettle(self.scope)
            raise
