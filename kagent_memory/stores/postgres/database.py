"""Run scripts on one PostgreSQL database, on connections of a `psycopg_pool.AsyncConnectionPool`,
which is ours or the caller's.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
from typing_extensions import override

from ...concurrency import turn
from ...errors import ConfigurationError, StoreError
from ...records import Scope
from ..encryption import KeyRing
from ..sql import queries
from ..sql.session import Database, Row, Script
from .connection import (
    CONNECT_SECONDS,
    DIALECT,
    AnyConnection,
    PostgresSession,
    Target,
    Traits,
    connect,
    fetch,
    set_up,
    translated,
    within,
)

TRUSTED_SECONDS = 1.0
IDLE_SECONDS = 300.0
WAIT_SECONDS = 60.0
OUTDATED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported, errors.UndefinedTable)
"""A prepared statement is gone from the server, or another process changed its tables."""
T = TypeVar("T")
Work: TypeAlias = Callable[[AnyConnection, Traits], Coroutine[Any, Any, T]]


class _PoolConnection(AsyncConnection[Any]):
    """The connection class of our own pool, which calls `dial` to connect."""

    @override
    @classmethod
    async def connect(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, conninfo: str = "", *, dial: Callable[[], Awaitable[AnyConnection]], **_: Any
    ) -> AnyConnection:
        return await dial()


class Pool:
    """Run work on connections, each in its own task. A pool belongs to one event loop.

    A cancelled caller stops waiting at once, but the work runs to its end. The limits of its
    statements bound it, and `close` waits for it.

    Attributes:
        traits: the traits of the connections; None until one is set up.

    Args:
        target: the database.
        lent: the caller's pool; None: the pool opens its own connections on demand.
        size: the limit of its own connections.
        owned: True to close the connections with the store.
    """

    def __init__(
        self,
        target: Target,
        lent: AsyncConnectionPool[Any] | None = None,
        *,
        size: int = 1,
        owned: bool = True,
    ) -> None:
        self.traits: Traits | None = None
        self._target, self._lent, self._owned = target, lent is not None, owned
        self._closed = False
        # per connection: another one that works does not prove that this one lives
        self._answered_at = WeakKeyDictionary[AnyConnection, float]()
        self._waiting = set[asyncio.Timeout]()
        self._failure: Exception = psycopg.OperationalError("the connection failed")
        self._tasks = set[asyncio.Task[Any]]()
        self.pool: AsyncConnectionPool[Any] = lent or AsyncConnectionPool(
            connection_class=_PoolConnection,
            kwargs={"dial": self._dial},
            min_size=0,
            max_size=size,
            open=False,
            check=self._check,
            timeout=WAIT_SECONDS,
            max_idle=IDLE_SECONDS,
            reconnect_timeout=0,  # the next caller tries again
            reconnect_failed=self._refuse_waiting,
        )

    @classmethod
    async def open(cls, target: Target, *, size: int = 1, source: object = None) -> Self:
        """Return a pool of connections to a database.

        Args:
            target: the database.
            size: the limit of connections.
            source: the caller's pool, used as it is; or a function that returns one, which is
                closed with the store. None: the pool opens its own connections.

        Raises:
            ConfigurationError: `source` is neither.
        """
        if source is None:
            pool = cls(target, size=size)
            await pool.pool.open()
            return pool
        owned = callable(source)
        if callable(source):
            result = source()
            source = await result if inspect.isawaitable(result) else result
        if not isinstance(source, AsyncConnectionPool):
            raise ConfigurationError(
                "pool= takes an open psycopg_pool.AsyncConnectionPool of this event loop, or a "
                f"function that makes one; not {type(source).__name__}."
            )
        return cls(target, cast("AsyncConnectionPool[Any]", source), owned=owned)

    async def use(self, work: Work[T]) -> T:
        """Run `work` with a free connection and its traits, and return its result.

        Raises:
            StoreError: no connection is free in time, or the store is closed.
            psycopg.Error: the database cannot be reached, or the work raises it.
        """
        connection = await self._take()

        async def run() -> T:
            turn.set(nullcontext())  # others wait for the connection and for what it locks
            try:
                return await work(connection, self.traits or await self._set_up(connection))
            finally:
                await self._put_back(connection)

        task = asyncio.create_task(run(), name="kagent-memory-database")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def forget(self) -> None:
        """Forget the traits of the connections, because the schema changed, and replace the
        connections unless they are the caller's.
        """
        self.traits = None
        if not self._lent:
            await self.pool.drain()

    async def close(self) -> None:
        """Refuse new work, finish the running work, and close the connections unless they are the
        caller's.
        """
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._owned:
            await self.pool.close()

    async def _take(self) -> AnyConnection:
        try:
            if self._closed:
                raise PoolClosed
            async with asyncio.timeout(None) as limit:
                self._waiting.add(limit)
                try:
                    return await self.pool.getconn()
                finally:
                    self._waiting.discard(limit)
        except TimeoutError:
            raise self._failure.with_traceback(None) from None
        except PoolClosed:
            raise StoreError("The store or its pool is closed; open it again.") from None
        except PoolTimeout:
            raise StoreError(
                f"memory unavailable: all connections were busy for {self.pool.timeout:g} s; raise "
                "pool_size."
            ) from None

    async def _put_back(self, connection: AnyConnection) -> None:
        if connection.info.pipeline_status:  # the pool would give it to the next caller
            await connection.close()
        if not connection.closed:
            self._answered_at[connection] = time.monotonic()
        await self.pool.putconn(connection)

    async def _dial(self) -> AnyConnection:
        try:
            connection = await connect(self._target)
            try:
                await self._set_up(connection)
            except BaseException:
                await connection.close()
                raise
        except asyncio.CancelledError:
            # the pool's worker takes this for a failure and would never stop: cancel it again
            if worker := asyncio.current_task():
                asyncio.get_running_loop().call_soon(worker.cancel)
            raise
        except Exception as error:
            self._failure = error
            self._refuse_waiting()
            raise
        self._answered_at[connection] = time.monotonic()
        return connection

    async def _set_up(self, connection: AnyConnection) -> Traits:
        # after one connection through a pooler, no session is set up any more
        pooled = self.traits is not None and self.traits.pooled
        self.traits = await set_up(connection, self._target, pooled=pooled, lent=self._lent)
        return self.traits

    async def _check(self, connection: AnyConnection) -> None:
        if time.monotonic() - self._answered_at.get(connection, 0.0) < TRUSTED_SECONDS:
            return
        try:
            await within(connection, CONNECT_SECONDS, self.pool.check_connection(connection))
        except psycopg.Error:
            await self.pool.drain()  # the others are most likely broken, too
            raise

    def _refuse_waiting(self, _: object = None) -> None:
        """Fail the callers that wait for a connection, unless one will be returned: a server that
        accepts no more connections still serves the open ones, but a silent one is not waited for
        again.
        """
        is_silent = isinstance(self._failure, errors.ConnectionTimeout)
        if not (self._tasks if is_silent else self.pool.get_stats()["pool_size"]):
            for limit in self._waiting:
                limit.reschedule(0)
            self._waiting.clear()


@dataclass(eq=False)
class PostgresDatabase(Database):
    """The database of one store. It belongs to the event loop that opened it. The server's own log
    may keep deleted rows.

    Args:
        pool: the connections.
        ring: the keys that encrypt rows; None: rows are plain.

    Attributes:
        wrote: called with the scopes that a transaction changed and the position of the log that
            includes it, or None if that is unknown; None: not called.
    """

    has_nearest = True
    pool: Pool
    ring: KeyRing | None
    wrote: Callable[[Set[bytes], int | None], None] | None = None

    @override
    async def close(self) -> None:
        """Close the connections. Closing twice is harmless."""
        await self.pool.close()

    @override
    async def run(self, script: Script[T], scope: Scope | None, *, write: bool) -> T:
        async def work(connection: AnyConnection, traits: Traits) -> T:
            session = PostgresSession(connection, traits, scope, self.ring, write)
            try:
                result = await session.complete(script)
            except OUTDATED:  # rolled back
                await within(connection, CONNECT_SECONDS, _forget_prepared(connection))
                result = await session.complete(script)
            if self.wrote is not None and session.written_scopes:
                position = None
                with suppress(psycopg.Error):  # the transaction is committed
                    position = (await node_of(connection))["position"]
                self.wrote(session.written_scopes, position)
            return result

        try:
            return await self.pool.use(work)
        except psycopg.Error as error:
            raise translated(error) from error


async def node_of(connection: AnyConnection, _: Traits | None = None) -> Row:
    """Return the row of the statement `node`: which server answers, and its position in the log."""
    [node] = await within(connection, CONNECT_SECONDS, fetch(connection, queries(DIALECT)["node"]))
    return node


async def _forget_prepared(connection: AnyConnection) -> None:
    async with connection.transaction(force_rollback=True):
        pass  # a rollback makes psycopg drop all prepared statements
