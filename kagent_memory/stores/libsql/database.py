"""An open file or server: transactions on its own thread, retries while it is locked, and erasure
of a file's log.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_before_delay,
    wait_random_exponential,
)
from typing_extensions import Unpack, override

from ...concurrency import turn
from ...errors import KagentMemoryError, StoreError
from ...records import Scope
from ..encryption import KeyRing
from ..parts import Adapter, Store, store_in
from ..sql.session import Database, Script
from ..values import OpenOptions
from .connection import MEMORY, Busy, LibSQLSession, Server, connect, is_migrated, migrate, to_place

PATIENCE_SECONDS = 5.0
ERASE_PATIENCE_SECONDS = 1.0
BACKOFF = wait_random_exponential(multiplier=0.002, exp_base=1.5, max=0.075)
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA secure_delete = ON",  # what is deleted is overwritten
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
)
_logger = logging.getLogger(__name__)
T = TypeVar("T")


class LibSQLStore(Adapter):
    """One SQLite file, memory, or a libSQL server.

    URIs: `libsql:///relative.db`, `libsql:////absolute.db` and `libsql:///:memory:` (each store its
    own).
    """

    supports = frozenset({"encryption_keys"})

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Store:
        """Open the file or create it. Of the options only `cache_mb` and the keys count: a file has
        one schema and one connection, and waits five seconds for another process's lock.
        """
        database = LibSQLDatabase.open(uri, KeyRing.parse(options.get("encryption_keys")))
        return store_in(await database, options)

    @classmethod
    @override
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        return await asyncio.to_thread(_exists, to_place(uri))


class LibSQLDatabase(Database):
    """The one connection of a store and its thread. It belongs to one event loop.

    Raises (all verbs):
        StoreError: it is closed, or another process held the lock for more than 5 seconds.
    """

    has_nearest = False

    def __init__(self, place: str | Server, ring: KeyRing | None) -> None:
        self.ring = ring
        self._place = place
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kagent-memory-libsql")
        self._path = place if isinstance(place, str) and place != MEMORY else None
        self._opened = ExitStack()
        self._writing = asyncio.Lock()
        self._owes_erasure = False
        self._closed = False

    @classmethod
    async def open(cls, uri: str, ring: KeyRing | None = None) -> Self:
        """Open the database or create it, and migrate it; safe if several processes do so at once.

        Raises:
            ConfigurationError: the URI, the file or its permissions prevent it.
        """
        database = cls(to_place(uri), ring)
        try:
            await database._patiently(PATIENCE_SECONDS, database._connect)
        except BaseException:
            database._end()
            raise
        return database

    @override
    async def run(self, script: Script[T], scope: Scope | None, *, write: bool) -> T:
        # writers in order of arrival; only one of us need wait for other processes, and none waits
        # for its turn, since others wait for it
        async with self._writing if write else turn.get():
            try:
                result = await self._patiently(
                    PATIENCE_SECONDS, partial(self._transact, script, write=write)
                )
            except asyncio.CancelledError:  # a write that goes on may erase
                self._owes_erasure |= write and self._path is not None
                raise
        if write and self._owes_erasure:
            await self._empty_log(0.0)
        return result

    @override
    async def erase(self) -> None:
        """Empty the log, which still holds deleted data; later if another process reads it. The log
        of a server is the server's task.
        """
        if self._path is not None and not await self._empty_log(ERASE_PATIENCE_SECONDS):
            _logger.warning(
                "Another process uses the database file; its log is emptied of forgotten text "
                "later."
            )

    @override
    async def close(self) -> None:
        """Finish queued work and close the file; closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._owes_erasure:
                await self._empty_log(ERASE_PATIENCE_SECONDS)
        finally:
            ended = self._end()
        await asyncio.shield(asyncio.wrap_future(ended))  # even if the caller is cancelled

    def _end(self) -> Future[None]:
        """Shut down: finish queued work, then close the connection."""
        ended = self._thread.submit(self._opened.close)
        self._thread.shutdown(wait=False)
        return ended

    def _connect(self) -> None:
        self._opened.close()  # of a former attempt
        self.connection = self._opened.enter_context(closing(connect(self._place)))
        # a server refuses these
        for pragma in _PRAGMAS if isinstance(self._place, str) else ():
            self.connection.rows(pragma)
        migrate(self.connection)
        self._identity = _identity(self._path)

    async def _patiently(self, seconds: float, action: Callable[[], T]) -> T:
        """Run `action` on the thread; retry for `seconds` while another connection holds the lock.

        A cancelled caller stops waiting at once; an action that has begun runs to its end.
        """
        with suppress(Busy):  # nearly always; retrying takes time to set up
            return await self._on_thread(action)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(Busy),
            stop=stop_before_delay(seconds),
            wait=BACKOFF,
            reraise=True,
        )
        return await retrying(self._on_thread, action)

    async def _on_thread(self, action: Callable[[], T]) -> T:
        try:
            running = asyncio.get_running_loop().run_in_executor(self._thread, action)
        except RuntimeError as error:
            raise StoreError("The store is closed; open it again.") from error
        return await running

    def _transact(self, script: Script[T], *, write: bool) -> T:
        """Drive a script to its end on the thread, without an event loop.

        Raises:
            StoreError: the file was deleted or replaced, and the script would write.
            RuntimeError: the script waited for something other than its session.
        """
        if write and _identity(self._path) != self._identity:
            raise StoreError(
                f"{self._path} was deleted or replaced while it was open: nothing was written. "
                "Put the file back, or open the store again."
            )
        with self.connection.transaction(write=write):
            steps = script(LibSQLSession(self.connection, self.ring))
            try:
                steps.send(None)
            except StopIteration as end:
                return end.value
            steps.close()
            raise RuntimeError("A transaction script waited for something other than its session.")

    async def _empty_log(self, patience: float) -> bool:
        """Empty the log and return True, or leave it to the next write."""

        def checkpoint() -> None:
            [done] = self.connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            if done["busy"]:
                raise Busy("Another connection is using the log.")

        self._owes_erasure = True
        with suppress(Busy):
            await self._patiently(patience, checkpoint)
            self._owes_erasure = False
        return not self._owes_erasure


def _identity(path: str | None) -> tuple[int, int] | None:
    """Return the device and inode of a file, or None without a file."""
    with suppress(OSError):
        if path:
            status = Path(path).stat()
            return status.st_dev, status.st_ino
    return None


def _exists(place: str | Server) -> bool:
    if place == MEMORY:
        return True
    try:
        if isinstance(place, str) and not Path(place).exists():
            return not os.access(Path(place).parent, os.W_OK)
        with closing(connect(place)) as connection, connection.transaction(write=False):
            return is_migrated(connection)
    except (OSError, KagentMemoryError):  # `open` says why
        return True
