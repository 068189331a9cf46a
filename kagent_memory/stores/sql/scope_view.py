"""A view of a scope on its cached index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from typing_extensions import override

from ...records import Memory, Vector
from ..codec import bounded
from ..spaces import checked_vector
from ..values import EARLIEST
from ..view import Nearest, Stale, View
from .index_cache import CachedScope, IndexCache
from .index_reads import SqlIndexReads, Stamp


@dataclass(eq=False)
class ScopeView(View):
    """A view of a scope whose index is cached between searches.

    Attributes:
        indexes: the cache.
        reads: reads from the store.
        cached: the cached scope.
        trusted: the stamp of its index if that has not been checked against the store; the first
            read checks it.
    """

    indexes: IndexCache
    reads: SqlIndexReads
    cached: CachedScope
    trusted: Stamp | None
    # True once vectors were searched by an unchecked index
    _searched_vectors: bool = field(default=False, init=False)

    @override
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        dimensions = await self.source.spaces.dimensions_of(space_number)
        checked = [checked_vector(vector, dimensions) for vector in vectors]
        if not (checked and self.index.ids and bounded(limit)):
            return [Nearest() for _ in checked]
        trusted = self.trusted is not None
        column = await self.indexes.vectors(
            self.cached, space_number, dimensions, self.reads, trusted=trusted
        )
        if column is None:
            return await self.reads.nearest(
                self.scope, space_number, checked, bounded(limit), self.index, self.visible
            )
        self._searched_vectors |= trusted
        return await self._nearest(column, checked, limit)

    @override
    async def memories(self, ids: Sequence[str], *, hidden: bool = False) -> Mapping[str, Memory]:
        if self.trusted is None or hidden:
            now = EARLIEST if hidden else self.now
            return await self.source.get(self.scope, ids, now=now, superseded=hidden)
        stamp, self.trusted = self.trusted, None
        try:
            return await self.reads.unchanged(
                self.scope, ids, stamp=stamp, vectors=self._searched_vectors, now=self.now
            )
        except Stale:
            self.indexes.unsettle(self.scope)
            raise
