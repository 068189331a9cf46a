"""A scope that is searched by its index in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from ...records import EVERYTHING, Filter, Memory, Scope, Vector
from ..codec import bounded
from ..columns import Mask
from ..index import ScopeIndex
from ..spaces import checked_vector
from ..view import IndexView, Nearest, Stale
from .index_cache import Cached
from .index_reads import Stand

if TYPE_CHECKING:
    from .memories import SqlMemoryStore


class ScopeView(IndexView):
    """A scope whose index is kept in memory between searches.

    Args:
        store: that it is read from.
        scope: whose memories.
        filter: which of them.
        now: the time.
        cached: answers from memory alone where it can, and asks whether that still holds with the
            first memories.
    """

    def __init__(
        self,
        store: SqlMemoryStore,
        scope: Scope,
        *,
        filter: Filter,
        now: datetime,
        cached: bool = False,
    ) -> None:
        super().__init__(store, scope, filter=filter, now=now)
        self._store, self._reads, self._cache = store, store.index_reads, store.indexes
        self._may_trust = cached and filter == EVERYTHING
        self._trusted: Stand | None = None  # what nobody was asked about yet
        self._searched_vectors = False  # before anybody was asked
        self._found: tuple[Cached, ScopeIndex, Mask] | None = None

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """See `View`."""
        dimensions = await self._reads.spaces.dimensions_of(space_number)
        checked = [checked_vector(vector, dimensions) for vector in vectors]
        cached, index, visible = await self._opened()
        if not (checked and index.ids and bounded(limit)):
            return [[] for _ in checked]
        trusted = self._trusted is not None
        column = await self._cache.vectors(
            cached, space_number, dimensions, self._reads, trusted=trusted
        )
        if column is None:
            return await self._nearest_by_database(
                index, visible, space_number, checked, bounded(limit)
            )
        self._searched_vectors |= trusted
        return await self._nearest(column, checked, limit)

    async def _nearest_by_database(
        self,
        index: ScopeIndex,
        visible: Mask,
        space_number: int,
        vectors: Sequence[Vector],
        limit: int,
    ) -> list[Nearest]:
        """Ask the database, which is told those that are not searched, or those that are: the
        fewer of both.
        """
        is_told_hidden = 2 * visible.sum() > len(visible)
        found = await self._reads.nearest(
            self.scope,
            space_number,
            vectors,
            limit=limit,
            among=None if is_told_hidden else index.ids_of(visible),
            hidden=index.ids_of(~visible) if is_told_hidden else (),
        )
        return [[hit for hit in near if hit[0] in index.rows] for near in found]

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; asks once whether what was trusted still holds."""
        if self._trusted is None:
            return await self.source.get(
                self.scope, ids, now=self._now, superseded=self._superseded
            )
        stand, self._trusted = self._trusted, None
        try:
            return await self._reads.unchanged(
                self.scope, ids, stand=stand, vectors=self._searched_vectors, now=self._now
            )
        except Stale:
            self._cache.unsettle(self.scope)
            raise

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """See `View`."""
        return (await self.source.list(self.scope, filter=filter, limit=limit, now=now)).memories

    def under(self, filter: Filter, now: datetime) -> ScopeView:
        """See `View`."""
        return ScopeView(self._store, self.scope, filter=filter, now=now)

    @override
    async def _searched(self) -> tuple[ScopeIndex, Mask]:
        _, index, visible = await self._opened()
        return index, visible

    async def _opened(self) -> tuple[Cached, ScopeIndex, Mask]:
        """Return what is kept of the scope, with its index: as it is where that may be trusted,
        else as the store has it now.
        """
        if self._found is None:
            among: Sequence[str] | None = None
            cached = self._cache.steady(self.scope) if self._may_trust else None
            if cached is not None:
                self._trusted = cached.stand
            else:
                cached, among = await self._cache.current(
                    self.scope, self._reads, filter=self._filter, now=self._now
                )
            index = cached.index
            visible = index.visible(self._now, superseded=self._superseded, among=among)
            self._found = cached, index, visible
        return self._found
