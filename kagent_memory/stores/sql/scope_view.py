"""A scope that is searched by its index in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from ...concurrency import run_in_thread
from ...records import EVERYTHING, Filter, Memory, Scope, Vector
from ..base import MemoryStore
from ..codec import bounded
from ..columns import Places
from ..index import ScopeIndex, Stand
from ..values import TextMatches
from ..view import Nearest, Stale
from .index_cache import IndexCache
from .index_reads import SqlIndexReads

SEARCHED_BYTES = 16_000  # of an index, to be searched as long as it takes to read one character
# vectors asked for beyond the limit, where some may belong to memories that readers may not see
SPARE = 32


class ScopeView:
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
        self.source, self.scope = source, scope
        self._reads, self._cache, self._filter, self._now = reads, cache, filter, now
        self._may_trust = cached and filter == EVERYTHING
        self._trusted: Stand | None = None  # what nobody was asked about yet
        self._mark: int | None = None  # of the vectors that were searched before anybody was asked
        self._index: ScopeIndex | None = None
        self._among: Sequence[str] | None = None

    async def text(self, terms: Sequence[str], *, limit: int) -> TextMatches:
        """See `View`."""
        index = await self._searched()
        return await run_in_thread(
            index.size // SEARCHED_BYTES,
            index.text,
            terms,
            bounded(limit),
            self._now,
            superseded=bool(self._filter.superseded),
            among=self._among,
        )

    async def nearest(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        """See `View`."""
        checked, limit = await self._reads.checked_vectors(space_number, vectors), bounded(limit)
        if not checked:
            return []
        index, superseded = await self._searched(), bool(self._filter.superseded)
        if not index.count or not limit:
            return [[] for _ in checked]
        dimensions = len(checked[0])
        trusted = self._trusted is not None
        if not await self._cache.has_vectors(
            self.scope, index, space_number, dimensions, self._reads, trusted=trusted
        ):
            return await self._nearest_by_database(index, space_number, checked, limit)
        if trusted:
            mark = index.vectors[space_number].mark
            self._mark = (
                -1 if mark is None else min(mark, mark if self._mark is None else self._mark)
            )
        return await run_in_thread(
            len(checked) * index.size // SEARCHED_BYTES,
            index.nearest,
            space_number,
            checked,
            limit,
            self._now,
            superseded=superseded,
            among=self._among,
        )

    async def _nearest_by_database(
        self, index: ScopeIndex, space_number: int, vectors: Sequence[Vector], limit: int
    ) -> list[Nearest]:
        """Ask for a few more than the limit of all vectors, since nearly all are visible; for those
        of the visible memories only where that is not enough.
        """
        now, superseded = self._now, bool(self._filter.superseded)
        if self._among is None:
            hidden = index.count - index.text((), 0, now, superseded=superseded).documents
            reach = limit + min(hidden, limit // 4 + SPARE)
            found = await self._reads.nearest(
                self.scope, space_number, vectors, limit=reach, among=None
            )
            ids = {id for one in found for id, _ in one}
            seen = set(index.visible_ids(now, superseded=superseded, among=ids))
            answers = [[hit for hit in one if hit[0] in seen][:limit] for one in found]
            if all(
                len(answer) == limit or len(one) < reach
                for answer, one in zip(answers, found, strict=True)
            ):
                return answers
        among = index.visible_ids(now, superseded=superseded, among=self._among)
        return await self._reads.nearest(
            self.scope, space_number, vectors, limit=limit, among=among
        )

    async def features(self, ids: Sequence[str], *, reach: int = 0) -> Places:
        """See `View`."""
        return (await self._searched()).features(ids, reach, self._now)

    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        """See `View`; asks once whether what was trusted still holds."""
        if self._trusted is None:
            return await self.source.get(
                self.scope, ids, now=self._now, superseded=bool(self._filter.superseded)
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

    async def _searched(self) -> ScopeIndex:
        """Return the scope's index: as it is cached where that may be trusted, else as the store
        has it now.
        """
        if self._index is None:
            index = self._cache.steady(self.scope) if self._may_trust else None
            if index is not None:
                self._trusted = index.stand
            else:
                index, self._among = await self._cache.current(
                    self.scope, self._reads, filter=self._filter, now=self._now
                )
            self._index = index
        return self._index
