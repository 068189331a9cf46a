"""One file or server, open: transactions on the driver thread, patience with others, and a file's
log erased.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    stop_before_delay,
    wait_random_exponential,
)

from ...errors import KagentMemoryError, StoreError
from ...records import Scope
from ..encryption import KeyRing
from .connection import Connection
from .driver import Busy
from .location import MEMORY, Server, check_file, to_place
from .schema import has_ledger, migrate
from .session import LibSQLSession
from .thread import DriverThread

PATIENCE_SECONDS = 5.0
ERASE_PATIENCE_SECONDS = 1.0
BACKOFF = wait_random_exponential(multiplier=0.002, exp_base=1.5, max=0.075)
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA secure_delete = ON",  # what is deleted is overwritten
    "PRAGMA foreign_keys = OFF",
    "PRAGMA cache_size = -32768",
    "PRAGMA temp_store = MEMORY",
)
_logger = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class Database:
    """The one connection of a store and its thread. Used from one event loop.

    Raises (all verbs):
        StoreError: it is closed, or another process held the lock for more than 5 seconds.
    """

    has_nearest = False

    def __init__(
        self,
        thread: DriverThread,
        connection: Connection,
        ring: KeyRing | None,
        *,
        place: str | Server,
    ) -> None:
        self._thread = thread
        self._connection = connection
        self._ring = ring
        self._is_file = isinstance(place, str)
        self._path = place if isinstance(place, str) and place != MEMORY else None
        self._identity = _identity(self._path) if self._path else None
        self._writing = asyncio.Lock()
        self._owes_erasure = False
        self._closed = False

    @classmethod
    async def open(cls, uri: str, ring: KeyRing | None = None, *, key: str | None = None) -> Self:
        """Opens or makes the database and migrates it; safe when several processes do so at once.

        Raises:
            ConfigurationError: the URI, the file or its rights do not allow it.
        """
        place = to_place(uri)
        thread, made = DriverThread(), list[Connection]()
        try:
            await _with_retries(PATIENCE_SECONDS, thread, lambda: made.append(_opened(place, key)))
        except BaseException:
            # the caller was cancelled meanwhile
            thread.end(lambda: [connection.close() for connection in made])
            raise
        [connection] = made
        return cls(thread, connection, ring, place=place)

    @classmethod
    async def exists(cls, uri: str) -> bool:
        """Return True if the database is there and was migrated once, or cannot be looked into.

        Raises:
            ConfigurationError: the URI names no file.
        """
        place = to_place(uri)
        thread = DriverThread()
        try:
            return await thread.run(_is_ours, place)
        finally:
            thread.end()

    def within(self, scope: Scope) -> Self:
        """The same: a file has no users to tell apart."""
        return self

    def read(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, T]:
        """Run a reading script in one transaction and return its result."""
        return _with_retries(
            PATIENCE_SECONDS, self._thread, self._transact, False, script, *args, **kwargs
        )

    async def write(
        self,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a script in one transaction, which keeps all of its writes or none."""
        # in order of arrival; only one of us need wait for other processes
        async with self._writing:
            result = await _with_retries(
                PATIENCE_SECONDS, self._thread, self._transact, True, script, *args, **kwargs
            )
        if self._owes_erasure:
            await self._erase(0.0)
        return result

    async def erase(self) -> None:
        """Empties the log, which still holds what was deleted; when another process is reading in
        it, later. A server's log is its own affair.
        """
        if not self._is_file:
            return
        self._owes_erasure = True
        await self._erase(ERASE_PATIENCE_SECONDS)
        if self._owes_erasure:
            _logger.warning(
                "Another process uses the database file; its log is emptied of forgotten text "
                "later."
            )

    async def close(self) -> None:
        """Closes the file after the work already handed over. Closing twice is harmless."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._owes_erasure:
                await self._erase(ERASE_PATIENCE_SECONDS)
            await self._thread.run(self._connection.close)
        finally:
            self._thread.end(self._connection.close)  # also where the caller was cancelled before

    def _transact(
        self,
        write: bool,
        script: Callable[Concatenate[LibSQLSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Drives a script to its end on the driver thread, without an event loop.

        Raises:
            StoreError: the file that it would write to was deleted or replaced meanwhile.
            RuntimeError: the script waited for something other than its session.
        """
        if write and self._path is not None and _identity(self._path) != self._identity:
            raise StoreError(
                f"{self._path} was deleted or replaced while it was open: nothing was written. "
                "Put the file back, or "
                "open the store again."
            )
        with self._connection.transaction(write=write):
            steps = script(LibSQLSession(self._connection, self._ring), *args, **kwargs)
            try:
                steps.send(None)
            except StopIteration as end:
                return end.value
            steps.close()
            raise RuntimeError("A transaction script waited for something other than its session.")

    async def _erase(self, patience: float) -> None:
        try:
            await _with_retries(patience, self._thread, self._empty_log)
        except Busy:
            return
        self._owes_erasure = False

    def _empty_log(self) -> None:
        busy, *_ = self._connection.tuples("PRAGMA wal_checkpoint(TRUNCATE)", {})[0]
        if busy:
            raise Busy("Another connection is using the log.")


def _opened(place: str | Server, key: str | None) -> Connection:
    if isinstance(place, str):
        check_file(place)
    connection = Connection(place, key)
    try:
        # a server sets its own, and refuses these
        for pragma in _PRAGMAS if isinstance(place, str) else ():
            connection.rows(pragma, {})
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one at the same path; None where there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_ours(place: str | Server) -> bool:
    if place == MEMORY:
        return True
    try:
        if (
            isinstance(place, str)
            and not (found := Path(place).stat()).st_size
            and stat.S_ISREG(found.st_mode)
        ):
            return False
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    try:
        connection = Connection(place)
        try:
            return has_ledger(connection)
        finally:
            connection.close()
    except KagentMemoryError:
        return True


async def _with_retries(
    seconds: float,
    thread: DriverThread,
    action: Callable[P, T],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `action` on the driver thread; retry for `seconds` while another connection holds the
    lock.
    """
    with suppress(Busy):  # most find the lock free, and pay for no retries
        return await thread.run(action, *args, **kwargs)
    retrying = AsyncRetrying(
        retry=retry_if_exception_type(Busy),
        stop=stop_before_delay(seconds),
        wait=BACKOFF,
        reraise=True,
    )
    return await retrying(thread.run, action, *args, **kwargs)
