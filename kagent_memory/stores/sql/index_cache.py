"""The indexes of the scopes searched last, each brought up to what its store holds before it
answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache

from ... import telemetry
from ...concurrency import LONG, batched, cancel_and_wait, run_in_thread
from ...errors import KagentMemoryError
from ...records import Scope
from ..index import ENTRY_WEIGHT, Entry, ScopeIndex
from ..vectors import ROW_BYTES, VectorColumn
from .index_reads import UNSEEN, Changes, SqlIndexReads, Stand

LOAD_ROWS = 250
MAX_PACKED_BYTES = 64 * 2**20
MIN_PACKED = 50
PACKED_SHARE = 10
PACKING_AT_ONCE = 2
PACKING_SECONDS = 5.0
PACKED_BYTES = 40  # of a packed index, for each memory that it holds
MAX_NUMBERS_AT_ONCE = 2**22  # in the vectors that come in one answer
MAX_CHANGED = 1000  # memories whose vectors a search waits for, where the database has them

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Cached:
    """Index and vectors of a scope, as the cache keeps them.

    Attributes:
        stand: which state of the scope the index holds.
        news: how many memories the index took in since it was packed.
        vectors: by the number of their embedding space.
        unread: the memories whose vectors are being read, and that were not written meanwhile.
        steady: nothing had been written when the store was asked last.
    """

    scope: Scope
    index: ScopeIndex = field(default_factory=ScopeIndex)
    stand: Stand = UNSEEN
    news: int = 0
    vectors: dict[int, VectorColumn] = field(default_factory=dict[int, VectorColumn])
    unread: set[str] = field(default_factory=set[str])
    steady: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    vectors_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self.index.size + sum(column.size for column in self.vectors.values())

    def column(self, space_number: int) -> VectorColumn | None:
        """Return the vectors of an embedding space, whole or in part, unless others have been set
        since they were read.
        """
        column = self.vectors.get(space_number)
        return column if column is not None and column.mark == self.stand.mark else None

    async def update(
        self,
        entries: Sequence[Entry] = (),
        *,
        gone: Collection[str] = (),
        left: Collection[str] | None = None,
        packed: bytes | None = None,
    ) -> None:
        """Take in memories that are new or have changed, and let go of what was erased.

        Args:
            entries: the memories to take in.
            gone: the ids of those that were erased.
            left: the ids of all others; None: nothing else is gone.
            packed: an index, or b"" for an empty one, that takes the place of what is kept.
        """
        if not entries and not gone and left is None and packed is None:
            return  # the version alone has moved

        def updated() -> tuple[ScopeIndex, Collection[str]]:
            index = self.index if packed is None else ScopeIndex()
            index = ScopeIndex.unpacked(packed) if packed else index
            erased = gone if left is None else {*index.ids} - {*left}
            return (index.updated(entries, erased) if entries or erased else index), erased

        size = len(self.index.ids) + len(packed or b"") // PACKED_BYTES
        index, erased = await run_in_thread(size + ENTRY_WEIGHT * len(entries), updated)
        if index is self.index:
            return
        if packed is not None:
            self.vectors, self.news = {}, 0
        changed = {*erased, *(entry.id for entry in entries)}
        self.unread -= changed
        for column in self.vectors.values():
            column.discard(changed)
            column.is_whole &= not entries
        # what was packed is erased with what is gone
        self.news = len(index.ids) if erased else self.news + len(entries)
        self.index = index


class IndexCache:
    """Keeps the indexes of some scopes, those used last, up to a number of bytes. It belongs to one
    event loop.

    Every write moves its scope's version and marks the memories it wrote with it, so a search loads
    what came since the version it knows; every erasure is marked on the scope, and then it learns
    which memories are left. The version is read first: what is written meanwhile is at worst loaded
    twice. A scope not seen before is loaded as it was packed last, unless something was erased
    since.

    Args:
        max_bytes: of the indexes; as much again of their vectors.
        keep: stores a packed index of a scope that stood there.
    """

    def __init__(
        self, max_bytes: int, keep: Callable[[Scope, Stand, bytes], Awaitable[None]]
    ) -> None:
        self._max_bytes, self._keep = max_bytes, keep
        # the one searched last stays, even where it alone is larger
        self._cached = LRUCache[bytes, Cached](
            2 * max_bytes, lambda cached: min(cached.size, 2 * max_bytes)
        )
        self._packing = set[asyncio.Task[None]]()
        # of one scope's vectors at a time, where the database searches them meanwhile
        self._loading = set[asyncio.Task[None]]()

    def __len__(self) -> int:
        return len(self._cached)

    async def close(self) -> None:
        """Store the indexes that hold enough news, within some seconds, and let go of all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PACKING_SECONDS):
                if self._packing:
                    await asyncio.wait(self._packing)
                for cached in [*self._cached.values()]:
                    if cached.news >= MIN_PACKED:
                        await self._pack(cached)
        await cancel_and_wait(*self._loading, *self._packing)
        self._cached.clear()

    def drop(self, scope: Scope | None = None) -> None:
        """Let go of one scope's index, or of all."""
        if scope is None:
            self._cached.clear()
        else:
            self._cached.pop(scope.id, None)

    # -- what this process writes ---------------------------------------------------------------

    def unsettle(self, scope: Scope) -> None:
        """Note that the scope is written to, so that the next search asks the store first."""
        if (cached := self._cached.get(scope.id)) is not None:
            cached.steady = False

    async def discard(self, scope: Scope, ids: Collection[str]) -> None:
        """Let go of memories that were erased; the next search asks the store first."""
        self.unsettle(scope)
        if (cached := self._cached.get(scope.id)) is not None:
            async with cached.lock:
                await cached.update(gone=ids)

    # -- searches -------------------------------------------------------------------------------

    def steady(self, scope: Scope) -> Cached | None:
        """Return what is kept of a scope if nothing had been written when the store was asked
        last.
        """
        cached = self._cached.get(scope.id)
        return cached if cached is not None and cached.steady else None

    async def current(self, scope: Scope, reads: SqlIndexReads) -> Cached:
        """Return the scope's index as the store holds it now."""
        if (cached := self._cached.get(scope.id)) is None:
            self._cached[scope.id] = cached = Cached(scope)
        since = cached.stand
        changes = await reads.changes(scope, since) if since is not UNSEEN else None
        async with cached.lock:  # one loads for all who wait
            if since is UNSEEN or cached.stand != since:
                changes = await reads.changes(scope, cached.stand)
            cached.steady = changes is not None and changes.stand.is_at(cached.stand)
            telemetry.count(
                "cache_lookups", cache="text", result="hit" if cached.steady else "miss"
            )
            if changes is None:
                if self._cached.get(scope.id) is cached:
                    self.drop(scope)
                return Cached(scope)
            await self._take_in(cached, reads, changes)
        return cached

    async def _take_in(self, cached: Cached, reads: SqlIndexReads, changes: Changes) -> None:
        """Take in what changed, under the scope's lock."""
        entries: list[Entry] = []
        for batch in batched(changes.written, LOAD_ROWS):
            entries += await reads.entries(cached.scope, batch)
        await cached.update(entries, left=changes.left, packed=changes.packed)
        cached.stand = changes.stand
        if not cached.steady:
            self._weigh(cached)

    def _weigh(self, cached: Cached) -> None:
        """Note the new size, and begin to store an index that has grown, a few at a time."""
        if self._cached.get(cached.scope.id) is cached:
            self._cached[cached.scope.id] = cached
        since = (len(cached.index.ids) - cached.news) // PACKED_SHARE
        if cached.news >= max(MIN_PACKED, since) and len(self._packing) < PACKING_AT_ONCE:
            _start(self._packing, self._pack(cached))
            cached.news = 0

    async def _pack(self, cached: Cached) -> None:
        stand = cached.stand
        packed = await run_in_thread(LONG, cached.index.packed)
        if len(packed) > MAX_PACKED_BYTES:
            return
        try:
            await self._keep(cached.scope, stand, packed)
        except KagentMemoryError as error:
            logger.warning(
                "A scope's index could not be kept; each process loads it memory by memory: %s",
                error,
            )

    # -- vectors --------------------------------------------------------------------------------

    async def vectors(
        self,
        cached: Cached,
        space_number: int,
        dimensions: int,
        reads: SqlIndexReads,
        *,
        trusted: bool,
    ) -> VectorColumn | None:
        """Return the vectors of a scope as it stands; None where the store should search them: it
        can, and they are not to be kept yet, or not at all.

        Args:
            cached: what is kept of the scope.
            space_number: of the embedding space.
            dimensions: of its vectors.
            reads: the store.
            trusted: nobody was asked yet whether the index is up to date.
        """
        column = cached.column(space_number)
        is_whole = column is not None and column.is_whole
        telemetry.count("cache_lookups", cache="vectors", result="hit" if is_whole else "miss")
        if is_whole:
            return column

        async def fill() -> VectorColumn:
            async with cached.vectors_lock:
                filled = await self._filled(cached, space_number, dimensions, reads)
            self._weigh(cached)
            return filled

        async def fill_aside() -> None:
            try:
                await fill()
            except KagentMemoryError as error:
                logger.warning(
                    "A scope's vectors could not be loaded; the database searches them: %s", error
                )

        count, is_filling = len(cached.index.ids), cached.vectors_lock.locked()
        is_near = column is not None and count - len(column) < MAX_CHANGED
        if not reads.has_nearest or (is_near and not is_filling):
            return await fill()
        # one search is not worth it where others write all the time
        fits = count * (4 * dimensions + ROW_BYTES) <= self._max_bytes
        if trusted and fits and not is_near and not self._loading:
            _start(self._loading, fill_aside())
        return None

    async def _filled(
        self, cached: Cached, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> VectorColumn:
        """Return the vectors of a scope, with those that were lacking read, some at a time. They
        are marked as they were when the oldest of them was read.
        """
        index, stand = cached.index, cached.stand
        column = cached.column(space_number)
        if column is not None and column.is_whole:  # another search read it meanwhile
            return column
        if column is None:
            cached.vectors[space_number] = column = VectorColumn(dimensions, stand.mark)
            column.reserve(len(index.ids))  # later it grows aside, with what is put into it
        lacking = await run_in_thread(len(index.ids), column.lacking, index)
        cached.unread = {*lacking}
        at_once = max(1, MAX_NUMBERS_AT_ONCE // dimensions)
        try:
            for batch in batched(lacking, at_once):
                page = await reads.vectors(cached.scope, space_number, stand, batch)
                await run_in_thread(
                    ENTRY_WEIGHT * len(page.ids), column.put, page.ids, page.vectors
                )
                column.discard({*page.ids} - cached.unread)
                column.mark = min(column.mark, page.mark)
        except BaseException:  # a thread may still put in what was written anew meanwhile
            cached.vectors.pop(space_number, None)
            raise
        column.is_whole = cached.index is index
        return column


def _start(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Run some work beside searches; the set holds it until it ends."""
    task = asyncio.create_task(work, name="kagent-memory-index")
    tasks.add(task)
    task.add_done_callback(tasks.discard)
