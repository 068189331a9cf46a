"""A cache of the indexes of recently searched scopes, brought up to date before each answer; and
views of these scopes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache
from typing_extensions import override

from ... import telemetry
from ...concurrency import LONG, batched, cancel_and_wait, run_in_thread
from ...errors import KagentMemoryError
from ...records import Memory, Scope, Vector
from ..codec import bounded
from ..index import ENTRY_WEIGHT, Entry, ScopeIndex
from ..spaces import checked_vectors
from ..values import EARLIEST, Stale
from ..vectors import ROW_BYTES, Nearest, VectorColumn
from ..view import VECTOR_BYTES_PER_UNIT, View
from .index_reads import UNSEEN, SqlIndexReads, Stamp

LOAD_ROWS = 250
MAX_PACKED_BYTES = 64 * 2**20
MIN_PACKED = 50
PACKED_SHARE = 10
PACKING_AT_ONCE = 2
PACKING_SECONDS = 5.0
PACKED_BYTES = 40  # of a packed index per memory
MAX_NUMBERS_AT_ONCE = 2**20  # in the vectors of one answer: fresh memory for larger ones is slow
MAX_CHANGED = 1000  # vectors that a search waits for if the database could search them

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CachedScope:
    """The cached index and vectors of a scope.

    Attributes:
        scope: the scope.
        index: its index.
        stamp: the stamp of the scope that the index reflects.
        unpacked_count: the number of memories indexed since the index was last packed.
        vectors: embedding space number → vectors.
        unread: the ids of memories whose vectors are being read; those written meanwhile are
            removed.
        steady: True if the last check of the store found nothing written.
    """

    scope: Scope
    index: ScopeIndex = field(default_factory=ScopeIndex)
    stamp: Stamp = UNSEEN
    unpacked_count: int = 0
    vectors: dict[int, VectorColumn] = field(default_factory=dict[int, VectorColumn])
    unread: set[str] = field(default_factory=set[str])
    steady: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    vectors_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return self.index.size + sum(column.size for column in self.vectors.values())

    def column(self, space_number: int) -> VectorColumn | None:
        """Return the loaded vectors of an embedding space, or None if some were set since then."""
        column = self.vectors.get(space_number)
        return column if column is not None and column.mark == self.stamp.mark else None

    async def update(
        self,
        entries: Sequence[Entry] = (),
        *,
        gone: Collection[str] = (),
        remaining: Collection[str] | None = None,
        packed: bytes | None = None,
    ) -> None:
        """Index new and changed memories, and remove erased ones.

        Args:
            entries: the memories to index.
            gone: the ids of erased memories.
            remaining: the ids of all remaining memories; None: nothing else was erased.
            packed: a packed index that replaces the cached one; b"" for an empty one.
        """

        def updated() -> tuple[ScopeIndex, Collection[str]]:
            index = self.index if packed is None else ScopeIndex.unpacked(packed)
            erased = gone if remaining is None else {*index.ids} - {*remaining}
            return (index.updated(entries, erased) if entries or erased else index), erased

        size = len(self.index.ids) + len(packed or b"") // PACKED_BYTES
        index, erased = await run_in_thread(size + ENTRY_WEIGHT * len(entries), updated)
        if index is self.index:
            return
        if packed is not None:
            self.vectors, self.unpacked_count = {}, 0
        changed = {*erased, *(entry.id for entry in entries)}
        self.unread -= changed
        for column in self.vectors.values():
            column.discard(changed)
            column.is_whole &= not entries
        # an erasure deletes the packed index too
        self.unpacked_count = len(index.ids) if erased else self.unpacked_count + len(entries)
        self.index = index


class IndexCache:
    """A cache of scope indexes that evicts the least recently used. It belongs to one event loop.

    Every write moves its scope's version and stamps the memories with it, so a search loads only
    newer ones. Every erasure is marked on the scope, which makes a search compare the ids that
    remain. The version is read first: a concurrent write is at worst loaded twice. A scope new to
    the cache is loaded from its last packed index, unless something was erased since.

    Args:
        max_bytes: the limit for the indexes in bytes, and as much again for their vectors.
        keep: stores a scope's packed index with its state.
    """

    def __init__(
        self, max_bytes: int, keep: Callable[[Scope, Stamp, bytes], Awaitable[None]]
    ) -> None:
        self._max_bytes, self._keep = max_bytes, keep
        # the scope searched last stays even if it alone exceeds the limit
        self.cached = LRUCache[bytes, CachedScope](
            2 * max_bytes, lambda cached: min(cached.size, 2 * max_bytes)
        )
        self.packing = set[asyncio.Task[None]]()
        # at most one scope's vectors at a time, while the database searches them
        self._loading = set[asyncio.Task[None]]()

    async def close(self) -> None:
        """Store the indexes with enough unpacked memories, within `PACKING_SECONDS`, and empty the
        cache.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(PACKING_SECONDS):
                if self.packing:
                    await asyncio.wait(self.packing)
                for cached in [*self.cached.values()]:
                    if cached.unpacked_count >= MIN_PACKED:
                        await self._pack(cached)
        await cancel_and_wait(*self._loading, *self.packing)
        self.cached.clear()

    def drop(self, scope: Scope | None = None) -> None:
        """Remove one scope's index, or all."""
        if scope is None:
            self.cached.clear()
        else:
            self.cached.pop(scope.id, None)

    # -- what this process writes ---------------------------------------------------------------

    def unsettle(self, scope: Scope) -> None:
        """Note a write to the scope, so that the next search checks the store first."""
        if cached := self.cached.get(scope.id):
            cached.steady = False

    async def discard(self, scope: Scope, ids: Collection[str]) -> None:
        """Remove erased memories; the next search checks the store first."""
        self.unsettle(scope)
        if cached := self.cached.get(scope.id):
            async with cached.lock:
                await cached.update(gone=ids)

    # -- searches -------------------------------------------------------------------------------

    def steady(self, scope: Scope) -> CachedScope | None:
        """Return the cached scope if the last check of the store found nothing written,
        else None.
        """
        cached = self.cached.get(scope.id)
        return cached if cached and cached.steady else None

    async def current(self, scope: Scope, reads: SqlIndexReads) -> CachedScope:
        """Return the scope's index as the store holds it now."""
        if not (cached := self.cached.get(scope.id)):
            self.cached[scope.id] = cached = CachedScope(scope)
        since = cached.stamp
        changes = await reads.changes(scope, since) if since is not UNSEEN else None
        async with cached.lock:  # one load serves all waiting searches
            if since is UNSEEN or cached.stamp != since:
                changes = await reads.changes(scope, cached.stamp)
            cached.steady = changes is not None and changes.stamp[:3] == cached.stamp[:3]
            telemetry.count(
                "cache_lookups", cache="text", result="hit" if cached.steady else "miss"
            )
            if changes is None:
                if self.cached.get(scope.id) is cached:
                    self.drop(scope)
                return CachedScope(scope)
            entries: list[Entry] = []
            for batch in batched(changes.written, LOAD_ROWS):
                entries += await reads.entries(scope, batch)
            await cached.update(entries, remaining=changes.remaining, packed=changes.packed)
            cached.stamp = changes.stamp
            if not cached.steady:
                self._weigh(cached)
        return cached

    def _weigh(self, cached: CachedScope) -> None:
        """Account for the new size; start to store the index if it has grown, a few at a time."""
        if self.cached.get(cached.scope.id) is cached:
            self.cached[cached.scope.id] = cached
        since = (len(cached.index.ids) - cached.unpacked_count) // PACKED_SHARE
        if cached.unpacked_count >= max(MIN_PACKED, since) and len(self.packing) < PACKING_AT_ONCE:
            _start(self.packing, self._pack(cached))
            cached.unpacked_count = 0

    async def _pack(self, cached: CachedScope) -> None:
        stamp = cached.stamp
        packed = await run_in_thread(LONG, cached.index.packed)
        if len(packed) > MAX_PACKED_BYTES:
            return
        try:
            await self._keep(cached.scope, stamp, packed)
        except KagentMemoryError as error:
            logger.warning(
                "A scope's index could not be stored; processes load it memory by memory: %s",
                error,
            )

    # -- vectors --------------------------------------------------------------------------------

    async def vectors(
        self,
        cached: CachedScope,
        space_number: int,
        dimensions: int,
        reads: SqlIndexReads,
        *,
        trusted: bool,
    ) -> VectorColumn | None:
        """Return the current vectors of a scope, or None to let the database search them.

        None is returned only if the database can search vectors, and these are not loaded yet or do
        not fit the cache.

        Args:
            cached: the cached scope.
            space_number: the number of the embedding space.
            dimensions: its dimensions.
            reads: reads from the store.
            trusted: True if the index has not been checked against the store for this search.
        """
        column = cached.column(space_number)
        is_whole = column is not None and column.is_whole
        telemetry.count("cache_lookups", cache="vectors", result="hit" if is_whole else "miss")
        if is_whole:
            return column

        async def fill_aside() -> None:
            try:
                await self._filled(cached, space_number, dimensions, reads)
            except KagentMemoryError as error:
                logger.warning(
                    "A scope's vectors could not be loaded; the database searches them: %s", error
                )

        count, is_filling = len(cached.index.ids), cached.vectors_lock.locked()
        is_near = column is not None and count - len(column) < MAX_CHANGED
        if not reads.database.has_nearest or (is_near and not is_filling):
            return await self._filled(cached, space_number, dimensions, reads)
        # not for a single search of a scope that others keep writing to
        fits = count * (4 * dimensions + ROW_BYTES) <= self._max_bytes
        if trusted and fits and not is_near and not self._loading:
            _start(self._loading, fill_aside())
        return None

    async def _filled(
        self, cached: CachedScope, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> VectorColumn:
        """Return the vectors of a scope after reading the missing ones in batches.

        Their mark is that of the oldest vector read.
        """
        async with cached.vectors_lock:
            column, index, stamp = cached.column(space_number), cached.index, cached.stamp
            if column is None:
                cached.vectors[space_number] = column = VectorColumn(dimensions, stamp.mark)
                column.reserve(len(index.ids))  # later it grows in the thread of `put`
            # whole: another search read it meanwhile
            missing = () if column.is_whole else column.lacking(index)
            cached.unread = {*missing}
            try:
                for batch in batched(missing, max(1, MAX_NUMBERS_AT_ONCE // dimensions)):
                    page = await reads.vectors(cached.scope, space_number, stamp, batch)
                    size = ENTRY_WEIGHT * len(page.ids) + column.size // VECTOR_BYTES_PER_UNIT
                    await run_in_thread(size, column.put, page.ids, page.vectors)
                    column.discard({*page.ids} - cached.unread)
                    column.mark = min(column.mark, page.mark)
            except BaseException:  # a thread may still put in vectors replaced meanwhile
                cached.vectors.pop(space_number, None)
                raise
            column.is_whole |= cached.index is index
        self._weigh(cached)
        return column


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

    @override
    async def nearest_rows(
        self, space_number: int, vectors: Sequence[Vector], *, limit: int
    ) -> list[Nearest]:
        dimensions = await self.source.spaces.dimensions_of(space_number)
        checked = checked_vectors(vectors, dimensions)
        if not (checked and self.index.ids and bounded(limit)):
            return [Nearest() for _ in checked]
        column = await self.indexes.vectors(
            self.cached,
            space_number,
            dimensions,
            self.reads,
            trusted=self.trusted is not None,
        )
        if column is None:
            return await self.reads.nearest(
                self.scope, space_number, checked, bounded(limit), self.index, self.visible
            )
        return await self._nearest(column, checked, limit)

    @override
    async def memories(self, ids: Sequence[str], *, hidden: bool = False) -> Mapping[str, Memory]:
        if self.trusted is None or hidden:
            now = EARLIEST if hidden else self.now
            return await self.source.get(self.scope, ids, now=now, superseded=hidden)
        stamp, self.trusted = self.trusted, None
        try:
            return await self.reads.unchanged(self.scope, ids, stamp=stamp, now=self.now)
        except Stale:
            self.indexes.unsettle(self.scope)
            raise


def _start(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Start a background task; the set holds it until it ends."""
    task = asyncio.create_task(work, name="kagent-memory-index")
    tasks.add(task)
    task.add_done_callback(tasks.discard)
