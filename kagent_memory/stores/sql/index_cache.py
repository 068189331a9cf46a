"""The indexes of the scopes searched last, each brought up to what its store holds before it
answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cachetools import LRUCache

from ... import telemetry
from ...concurrency import LONG, cancel_and_wait, run_in_thread
from ...errors import KagentMemoryError
from ...records import EVERYTHING, Filter, Scope
from ..index import ENTRY_WEIGHT, Entry, ScopeIndex
from ..vectors import NEVER, ROW_BYTES, VectorColumn
from .index_reads import Changes, SqlIndexReads, Stand

LOAD_ROWS = 250
MAX_PACKED_BYTES = 64 * 2**20
MIN_PACKED = 50
PACKED_SHARE = 10
PACKING_AT_ONCE = 2
PACKING_SECONDS = 5.0
PACKED_BYTES = 500  # of a packed index, for each memory that it holds
MAX_NUMBERS_AT_ONCE = 2**22  # in the vectors that come in one answer
MAX_CHANGED = 1000  # memories whose vectors a search waits for, where the database has them

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Cached:
    """Index and vectors of a scope, as the cache keeps them.

    Attributes:
        stand: which state of the scope the index holds; None: nothing was loaded yet.
        news: how many memories the index took in since it was packed.
        vectors: by the number of their embedding space.
        steady: nothing had been written when the store was asked last.
    """

    scope: Scope
    index: ScopeIndex = field(default_factory=ScopeIndex)
    stand: Stand | None = None
    news: int = 0
    vectors: dict[int, VectorColumn] = field(default_factory=dict[int, VectorColumn])
    steady: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    vectors_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self.index.size + sum(column.size for column in self.vectors.values())

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
        for column in self.vectors.values():
            column.discard([*erased, *(entry.id for entry in entries)])
            column.mark = None if entries else column.mark
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
                    if cached.news >= MIN_PACKED and cached.stand is not None:
                        await self._pack(cached, cached.stand, cached.index)
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

    async def current(
        self, scope: Scope, reads: SqlIndexReads, *, filter: Filter, now: datetime
    ) -> tuple[Cached, Sequence[str] | None]:
        """Return the scope's index as the store holds it now, and the ids that the filter lets
        through (None: all).
        """
        if (cached := self._cached.get(scope.id)) is None:
            self._cached[scope.id] = cached = Cached(scope)
        if cached.stand is None:
            async with cached.lock:  # one loads for all who wait
                if cached.stand is None:
                    changes = await reads.changes(scope, None, filter=filter, now=now)
                    telemetry.cache_looked_up("text", hit=False)
                    matching = changes and changes.matching
                    return await self._updated(cached, reads, changes), matching
        since = cached.stand  # asked without the lock: a slow answer holds up no other search
        changes = await reads.changes(scope, since, filter=filter, now=now)
        matching = changes and changes.matching
        cached.steady = changes is not None and changes.stand.is_at(since)
        telemetry.cache_looked_up("text", hit=cached.steady)
        if changes is not None and cached.steady and cached.stand == since:
            cached.stand = changes.stand
            return cached, matching
        async with cached.lock:
            if cached.stand != since:  # another search took something in meanwhile
                changes = await reads.changes(scope, cached.stand, filter=EVERYTHING, now=now)
            return await self._updated(cached, reads, changes), matching

    async def _updated(
        self, cached: Cached, reads: SqlIndexReads, changes: Changes | None
    ) -> Cached:
        """Return what is kept with what changed taken in, under its lock."""
        if changes is None:
            if self._cached.get(cached.scope.id) is cached:
                self.drop(cached.scope)
            return Cached(cached.scope)
        entries: list[Entry] = []
        for start in range(0, len(changes.written), LOAD_ROWS):
            entries += await reads.entries(cached.scope, changes.written[start : start + LOAD_ROWS])
        await cached.update(entries, left=changes.left, packed=changes.packed)
        cached.stand = changes.stand
        self._weigh(cached)
        return cached

    def _weigh(self, cached: Cached) -> None:
        """Note the new size, and begin to store an index that has grown, a few at a time."""
        if self._cached.get(cached.scope.id) is cached:
            self._cached[cached.scope.id] = cached
        since = (len(cached.index.ids) - cached.news) // PACKED_SHARE
        if (
            cached.news >= max(MIN_PACKED, since)
            and len(self._packing) < PACKING_AT_ONCE
            and cached.stand is not None
        ):
            work = self._pack(cached, cached.stand, cached.index)
            _start(self._packing, work, "kagent-memory-index")
            cached.news = 0

    async def _pack(self, cached: Cached, stand: Stand, index: ScopeIndex) -> None:
        packed = await run_in_thread(LONG, index.packed)
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
        column = _current(cached, space_number)
        telemetry.cache_looked_up("vectors", hit=column is not None)
        if column is not None or (reads.has_nearest and cached.vectors_lock.locked()):
            return column
        async with cached.vectors_lock:
            if (column := _current(cached, space_number)) is not None:
                return column
            column = cached.vectors.get(space_number)
            count = len(cached.index.ids)
            is_near = column is not None and count - len(column) < MAX_CHANGED
            if reads.has_nearest and not is_near:
                fits = count * (4 * dimensions + ROW_BYTES) <= self._max_bytes
                # one search is not worth it where others write all the time
                if trusted and fits:
                    self._fill_aside(cached, space_number, dimensions, reads)
                return None
            column = await self._fill(cached, space_number, dimensions, reads)
            self._weigh(cached)
            return column

    def _fill_aside(
        self, cached: Cached, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> None:
        async def fill() -> None:
            async with cached.vectors_lock:
                try:
                    await self._fill(cached, space_number, dimensions, reads)
                except KagentMemoryError as error:
                    logger.warning(
                        "A scope's vectors could not be loaded; the database searches them: %s",
                        error,
                    )
            self._weigh(cached)

        if not self._loading:
            _start(self._loading, fill(), "kagent-memory-vectors")

    async def _fill(
        self, cached: Cached, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> VectorColumn:
        """Read the vectors that are not kept yet, some at a time, and those that were set anew;
        they stand where the scope stood at the first.
        """
        index, stand = cached.index, cached.stand
        if stand is None:  # it holds nothing
            return VectorColumn(dimensions)
        column = cached.vectors.setdefault(space_number, VectorColumn(dimensions))
        if not len(column):  # else it grows aside, with what is put into it
            column.reserve(len(index.ids))
        since, first = column.version, None
        at_once = max(1, MAX_NUMBERS_AT_ONCE // dimensions)
        try:
            lacking = await run_in_thread(len(index.ids), column.lacking, index)
            for start in range(0, max(1, len(lacking)), at_once):
                batch = lacking[start : start + at_once]
                limit = at_once + MAX_CHANGED
                page = await reads.vectors(
                    cached.scope, space_number, stand, batch, since=since, limit=limit
                )
                if page is None:  # too much changed, or the scope was made anew
                    cached.vectors.pop(space_number, None)
                    if since == NEVER:
                        return column
                    return await self._fill(cached, space_number, dimensions, reads)
                size = ENTRY_WEIGHT * len(page.ids)
                await run_in_thread(size, column.put, page.ids, page.vectors)
                # of what was erased since it was read, and of what the index does not know yet
                column.discard([id for id in page.ids if cached.index.row_of(id) < 0])
                first, since = first or page.stand, NEVER
        except BaseException:
            cached.vectors.pop(space_number, None)
            raise
        if first is not None:
            column.version = first.version
            column.mark = first.mark if cached.index is index else None
        return column


def _start(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None], name: str) -> None:
    """Run some work beside searches; the set holds it until it ends."""
    task = asyncio.create_task(work, name=name)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _current(cached: Cached, space_number: int) -> VectorColumn | None:
    """Return the vectors of a scope if they are those of where it stands."""
    column = cached.vectors.get(space_number)
    if column is None or column.mark is None or cached.stand is None:
        return None
    return column if column.mark >= cached.stand.mark else None
