"""The indexes of the scopes searched last, each brought up to what its store holds before it
answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from cachetools import LRUCache

from ... import telemetry
from ...concurrency import LONG, cancel_and_wait, run_in_thread
from ...errors import KagentMemoryError, StoreError
from ...records import EVERYTHING, Filter, Scope
from ..index import ScopeIndex, Stand
from ..vectors import ROW_BYTES, VectorColumn
from .index_reads import Changes, SqlIndexReads, VectorPage

LOAD_ROWS = 250
# of a memory to be taken in, against a character of what else is worked on in a thread
ENTRY_WEIGHT = 20
MAX_OUTGROWN = 1000
MAX_PACKED_BYTES = 64 * 2**20
PACKING_AT_ONCE = 2
PACKING_SECONDS = 5.0
UNPACKED_BYTES = 1500  # of a packed index, to be taken in as long as it takes to read one character
MAX_NUMBERS_AT_ONCE = 2**22  # in the vectors that come in one answer
FIRST_ID = "00000000-0000-0000-0000-000000000000"
MAX_CHANGED = 1000  # memories whose vectors are read one by one; where more changed, all are
VECTOR_BYTES = 1000  # to be made ready as long as it takes to read one character

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Packed:
    """An index on its way to the database: `packed` as it was when the scope stood there."""

    stand: Stand
    packed: bytes


@dataclass(slots=True)
class _Cached:
    """An index with what is known about it.

    Attributes:
        steady: nothing had been written when the store was asked last.
        asked: embedding space → the version at which its vectors were searched by the store.
    """

    scope: Scope
    index: ScopeIndex = field(default_factory=ScopeIndex)
    steady: bool = False
    asked: dict[int, int] = field(default_factory=dict[int, int])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    vectors_lock: asyncio.Lock = field(default_factory=asyncio.Lock)


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
        keep: stores a packed index.
    """

    def __init__(self, max_bytes: int, keep: Callable[[Scope, Packed], Awaitable[None]]) -> None:
        self._max_bytes, self._keep = max_bytes, keep
        # the one searched last stays, even where it alone is larger
        self._cached = LRUCache[bytes, _Cached](
            2 * max_bytes, lambda one: min(one.index.size, 2 * max_bytes)
        )
        self._outgrown = set[Scope]()
        self._packing = set[asyncio.Task[None]]()
        # of more vectors than come in one answer: one, beside searches
        self._loading = set[asyncio.Task[None]]()

    def __len__(self) -> int:
        return len(self._cached)

    async def close(self) -> None:
        """Store the indexes that hold enough news, within some seconds, and let go of all."""
        await cancel_and_wait(*self._loading)
        self._outgrown |= {one.scope for one in self._cached.values() if one.index.is_worth_packing}
        with suppress(TimeoutError):
            async with asyncio.timeout(PACKING_SECONDS):
                while self._outgrown or self._packing:
                    self._pack_outgrown()
                    await asyncio.wait(self._packing, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(*self._packing)
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
            await run_in_thread(cached.index.size // UNPACKED_BYTES, cached.index.discard, ids)

    # -- searches -------------------------------------------------------------------------------

    def steady(self, scope: Scope) -> ScopeIndex | None:
        """Return the scope's index if nothing had been written when the store was asked last."""
        cached = self._cached.get(scope.id)
        return cached.index if cached is not None and cached.steady else None

    async def current(
        self, scope: Scope, reads: SqlIndexReads, *, filter: Filter, now: datetime
    ) -> tuple[ScopeIndex, Sequence[str] | None]:
        """Return the scope's index as the store holds it now, and the ids that the filter lets
        through (None: all).
        """
        if (cached := self._cached.get(scope.id)) is None:
            self._cached[scope.id] = cached = _Cached(scope)
        if (since := cached.index.stand) is None:
            async with cached.lock:  # one loads for all who wait
                if cached.index.stand is None:
                    telemetry.cache_looked_up("text", hit=False)
                    changes = await reads.changes(scope, None, filter=filter, now=now)
                    return await self._updated(cached, reads, changes), changes and changes.matching
            since = cached.index.stand
        changes = await reads.changes(scope, since, filter=filter, now=now)
        matching = changes and changes.matching
        cached.steady = stands = changes is not None and _is_same(changes.stand, since)
        telemetry.cache_looked_up("text", hit=stands)
        if changes is not None and _is_same(changes.stand, cached.index.stand):
            cached.index.stand = changes.stand
            return cached.index, matching
        async with cached.lock:
            if cached.index.stand != since:  # another search loaded something meanwhile
                changes = await reads.changes(scope, cached.index.stand, filter=EVERYTHING, now=now)
            return await self._updated(cached, reads, changes), matching

    async def _updated(
        self, cached: _Cached, reads: SqlIndexReads, changes: Changes | None
    ) -> ScopeIndex:
        """Return the index with what changed since, under its lock."""
        if changes is None:
            if self._cached.get(cached.scope.id) is cached:
                self.drop(cached.scope)
            return ScopeIndex()
        index = cached.index
        if changes.is_whole:
            index = ScopeIndex()
            if changes.packed is not None:
                packed, version = changes.packed
                stand = changes.stand._replace(version=version)
                index = await run_in_thread(
                    len(packed) // UNPACKED_BYTES, ScopeIndex.unpacked, packed, stand
                )
        if changes.left is not None:
            await run_in_thread(36 * len(changes.left), index.keep, changes.left)
        for start in range(0, len(changes.written), LOAD_ROWS):
            entries = await reads.entries(cached.scope, changes.written[start : start + LOAD_ROWS])
            await run_in_thread(ENTRY_WEIGHT * len(entries), index.load, entries)
        if index.is_worn:
            await run_in_thread(index.size // UNPACKED_BYTES, index.compact)
        index.stand, cached.index = changes.stand, index
        self._weigh(cached)
        return index

    def _weigh(self, cached: _Cached) -> None:
        if self._cached.get(cached.scope.id) is cached:
            self._cached[cached.scope.id] = cached
        if cached.index.is_outgrown and len(self._outgrown) < MAX_OUTGROWN:
            self._outgrown.add(cached.scope)
        self._pack_outgrown()

    # -- vectors --------------------------------------------------------------------------------

    async def has_vectors(
        self,
        scope: Scope,
        index: ScopeIndex,
        space_number: int,
        dimensions: int,
        reads: SqlIndexReads,
        *,
        trusted: bool,
    ) -> bool:
        """Bring the vectors of an index up to where it stands; return False where the store should
        search them: it can, and they are not to be kept yet, or not at all.

        Args:
            scope: whose.
            index: the scope's.
            space_number: of the embedding space.
            dimensions: of its vectors.
            reads: the store.
            trusted: nobody was asked yet whether the index is up to date.
        """
        is_current = _has_current(index, space_number)
        telemetry.cache_looked_up("vectors", hit=is_current)
        if is_current:
            return True
        cached = self._cached.get(scope.id)
        if cached is None or cached.index is not index:
            cached = _Cached(scope, index)  # which is not kept
        if reads.has_nearest and cached.vectors_lock.locked():
            return False
        async with cached.vectors_lock:
            if _has_current(index, space_number):
                return True
            column = index.vectors.get(space_number)
            if column is None or not await self._caught_up(
                scope, index, space_number, column, reads
            ):
                index.vectors.pop(space_number, None)
                if reads.has_nearest and not (
                    trusted and self._is_to_load(cached, space_number, dimensions)
                ):
                    return False
                if reads.has_nearest and index.count * dimensions > MAX_NUMBERS_AT_ONCE:
                    self._load_aside(cached, space_number, dimensions, reads)
                    return False
                await self._load_vectors(cached, space_number, dimensions, reads)
            self._weigh(cached)
            return True

    def _is_to_load(self, cached: _Cached, space_number: int, dimensions: int) -> bool:
        """Return True at the second search of a version: one search is not worth it where others
        write all the time.
        """
        index = cached.index
        if index.count * (4 * dimensions + ROW_BYTES) > self._max_bytes or index.stand is None:
            return False
        asked = cached.asked.get(space_number)
        cached.asked[space_number] = index.stand.version
        return asked == index.stand.version

    def _load_aside(
        self, cached: _Cached, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> None:
        async def load() -> None:
            async with cached.vectors_lock:
                try:
                    await self._load_vectors(cached, space_number, dimensions, reads)
                except KagentMemoryError as error:
                    logger.warning(
                        "A scope's vectors could not be loaded; the database searches them: %s",
                        error,
                    )
            self._weigh(cached)

        if not self._loading:
            task = asyncio.create_task(load(), name="kagent-memory-vectors")
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load_vectors(
        self, cached: _Cached, space_number: int, dimensions: int, reads: SqlIndexReads
    ) -> None:
        """Load all vectors of a scope, page by page; they stand where the scope stood at the
        first.
        """
        index, first, stand = cached.index, FIRST_ID, None
        column = index.vectors[space_number] = VectorColumn(dimensions)
        loads, limit = index.loads, max(2, MAX_NUMBERS_AT_ONCE // dimensions)
        try:
            while (
                page := await reads.vectors_from(cached.scope, space_number, first, limit=limit)
            ) is not None:
                is_last = len(page.vectors) < limit
                if stand is None:
                    stand = page.stand
                    column.reserve(index.count)
                elif page.ids.startswith(first):  # which the page before ended with
                    page = page._replace(ids=page.ids[36:], vectors=page.vectors[1:])
                await _put(index, column, page)
                if is_last:
                    break
                first = page.ids[-36:]
        except BaseException:
            index.vectors.pop(space_number, None)
            raise
        if stand is not None:
            column.version = stand.version
            column.mark = stand.mark if index.loads == loads else None

    async def _caught_up(
        self,
        scope: Scope,
        index: ScopeIndex,
        space_number: int,
        column: VectorColumn,
        reads: SqlIndexReads,
    ) -> bool:
        """Bring vectors up to date; return False where too many changed."""
        assert index.stand is not None
        loads, lacking = index.loads, index.lacking(column)
        limit = max(MAX_CHANGED, len(column) // 8)
        if len(lacking) >= limit or column.version < 0:
            return False
        page = await reads.vectors_since(
            scope, space_number, index.stand, version=column.version, ids=lacking, limit=limit
        )
        if page is None:
            return False
        await _put(index, column, page)
        column.version = page.stand.version
        column.mark = page.stand.mark if index.loads == loads else None
        return True

    # -- packing --------------------------------------------------------------------------------

    def _pack_outgrown(self) -> None:
        """Begin to store the packed indexes of scopes that have outgrown theirs: a few at a time,
        beside searches.
        """
        while self._outgrown and len(self._packing) < PACKING_AT_ONCE:
            task = asyncio.create_task(self._pack(self._outgrown.pop()), name="kagent-memory-index")
            self._packing.add(task)
            task.add_done_callback(self._packing.discard)

    async def _pack(self, scope: Scope) -> None:
        cached = self._cached.get(scope.id)
        if cached is None or (stand := cached.index.stand) is None:
            return
        packed = await run_in_thread(LONG, cached.index.packed)  # at worst newer than it says
        if len(packed) > MAX_PACKED_BYTES:
            return
        try:
            await self._keep(scope, Packed(stand, packed))
        except StoreError as error:
            logger.warning(
                "A scope's index could not be kept; each process loads it memory by memory: %s",
                error,
            )


async def _put(index: ScopeIndex, column: VectorColumn, page: VectorPage) -> None:
    await run_in_thread(
        page.vectors.nbytes // VECTOR_BYTES, index.put_vectors, column, page.ids, page.vectors
    )


def _is_same(stand: Stand, other: Stand | None) -> bool:
    return other is not None and stand[:3] == other[:3]


def _has_current(index: ScopeIndex, space_number: int) -> bool:
    column = index.vectors.get(space_number)
    return (
        column is not None
        and index.stand is not None
        and column.mark is not None
        and column.mark >= index.stand.mark
    )
