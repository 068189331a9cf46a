"""A scope that is searched by its index in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from typing_extensions import override

from ...records import EVERYTHING, Filter, Memory, Scope, Vector
from ..base import MemoryStore
from ..codec import bounded
from ..columns import Mask
from ..index import ScopeIndex
from ..spaces import checked_vector
from ..view import IndexView, Nearest, Stale
from .index_cache import Cached, IndexCache
from .index_reads import SqlIndexReads, Stand

# vectors asked for beyond the limit, where some may belong to memories that readers may not see
SPARE = 32


class ScopeView(IndexView):
    """A scope whose index is kept in memory between searches.

    Args:
        source: the store that it is read from.
        cache: of indexes.
        scope: whose memories.
        filter: which of them.
        now: the time.
        cached: answers from memory alone where it can, and asks whether that still holds with the
            first memories.
    """

    def __init__(
        self,
        source: MemoryStore,
        reads: SqlIndexReads,
        cache: IndexCache,
        scope: Scope,
        *,
        filter: Filter,
        now: datetime,
        cached: bool = False,
    ) -> None:
        super().__init__(source, scope, filter=filter, now=now)
        self._reads, self._cache = reads, cache
        self._may_trust = cached and filter == EVERYTHING
        self._trusted: Stand | None = None  # what nobody was asked about yet
        self._mark: int | None = None  # of the vectors that were searched before anybody was asked
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
        if trusted:
            mark = -1 if column.mark is None else column.mark
            self._mark = mark if self._mark is None else min(mark, self._mark)
        return await self._nearest(column, checked, limit)

    async def _nearest_by_database(
        self,
        index: ScopeIndex,
        visible: Mask,
        space_number: int,
        vectors: Sequence[Vector],
        limit: int,
    ) -> list[Nearest]:
        """Ask for a few more than the limit of all vectors, since nearly all are visible; for those
        of the visible memories only where that is not enough.
        """
        hidden = len(visible) - int(visible.sum())
        if 2 * hidden < len(visible):
            reach = limit + min(hidden, limit // 4 + SPARE)
            found = await self._reads.nearest(
                self.scope, space_number, vectors, limit=reach, among=None
            )
            answers = [
                [hit for hit in one if visible[index.rows_of([hit[0]])].any()][:limit]
                for one in found
            ]
            if all(
                len(answer) == limit or len(one) < reach
                for answer, one in zip(answers, found, strict=True)
            ):
                return answers
        among = index.ids_of(visible)
        return await self._reads.nearest(
            self.scope, space_number, vectors, limit=limit, among=among
        )

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; asks once whether what was trusted still holds."""
        if self._trusted is None:
            return await self.source.get(
                self.scope, ids, now=self._now, superseded=self._superseded
            )
        stand, self._trusted = self._trusted, None
        try:
            return await self._reads.unchanged(
                self.scope, ids, stand=stand, mark=self._mark, now=self._now
            )
        except Stale:
            self._cache.unsettle(self.scope)
            raise

    async def newest(self, filter: Filter, now: datetime, *, limit: int) -> Sequence[Memory]:
        """See `View`."""
        return (await self.source.list(self.scope, filter=filter, limit=limit, now=now)).memories

    def under(self, filter: Filter, now: datetime) -> ScopeView:
        """See `View`."""
        return ScopeView(self.source, self._reads, self._cache, self.scope, filter=filter, now=now)

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
