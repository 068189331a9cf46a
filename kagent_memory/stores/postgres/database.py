"""One PostgreSQL database, open: a `psycopg_pool.AsyncConnectionPool`, ours or the caller's, and
scripts on its connections, each that writes in one transaction.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
from typing_extensions import override

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
    within,
)
from .errors import ours

TRUSTED_SECONDS = 1.0
IDLE_SECONDS = 300.0
WAIT_SECONDS = 60.0
OUTDATED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""The server knows a prepared statement no more, or another process changed what it reads."""
T = TypeVar("T")
Work: TypeAlias = Callable[[AnyConnection, Traits], Coroutine[Any, Any, T]]


class _Dialled(AsyncConnection[Any]):
    """Connection class of our own pool, which keeps the reason of a failure."""

    @override
    @classmethod
    async def connect(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, conninfo: str = "", *, dial: Callable[[], Awaitable[AnyConnection]], **_: Any
    ) -> AnyConnection:
        return await dial()


class Pool:
    """Runs work on connections, each in a task of its own; belongs to one event loop.

    A caller that is cancelled stops waiting at once, and the work comes to its end: the limits of
    its statements bound it, and `close` waits for it.

    Attributes:
        traits: what is known of them; None until one was set up.

    Args:
        target: which database.
        lent: the caller's connections; None: the pool opens its own, as they are needed.
        size: the most connections of its own at a time.
        owned: whether they are closed with the store.
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
        # by connection: that another one works says nothing of one that died unseen
        self._answered_at = WeakKeyDictionary[AnyConnection, float]()
        self._waiting: set[asyncio.Timeout] = set()
        self._failure: Exception = psycopg.OperationalError("the connection failed")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pool: AsyncConnectionPool[Any] = lent or AsyncConnectionPool(
            connection_class=_Dialled,
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
    async def open(cls, target: Target, *, size: int = 1, given: object = None) -> Self:
        """Return connections to a database.

        Args:
            target: which.
            size: the most at a time.
            given: the caller's pool, used as it is; or a function that makes one, which is closed
                with the store.

        Raises:
            ConfigurationError: it is neither.
        """
        if given is None:
            pool = cls(target, size=size)
            await pool._pool.open()
            return pool
        owned = callable(given)
        if callable(given):
            result = given()
            given = await result if inspect.isawaitable(result) else result
        if not isinstance(given, AsyncConnectionPool):
            raise ConfigurationError(
                "pool= takes an open psycopg_pool.AsyncConnectionPool of this event loop, or a "
                f"function that makes one; not {type(given).__name__}."
            )
        return cls(target, cast("AsyncConnectionPool[Any]", given), owned=owned)

    async def use(self, work: Work[T]) -> T:
        """Return what `work` returns, given a free connection and what is known of it.

        Raises:
            StoreError: none is free in time, or the store is closed.
            psycopg.Error: the database is away, or whatever the work raises.
        """
        connection = await self._take()

        async def used() -> T:
            try:
                return await work(connection, self.traits or await self._set_up(connection))
            finally:
                await self._put_back(connection)

        task = asyncio.create_task(used(), name="kagent-memory-database")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return await asyncio.shield(task)

    async def forget(self) -> None:
        """Forget what was found out about the connections, for the schema has changed; replace
        them, unless they are the caller's.
        """
        self.traits = None
        if not self._lent:
            await self._pool.drain()

    async def close(self) -> None:
        """Take no more work, finish what was begun, and close the connections unless they are the
        caller's.
        """
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._owned:
            await self._pool.close()

    async def _take(self) -> AnyConnection:
        try:
            if self._closed:
                raise PoolClosed
            async with asyncio.timeout(None) as waiting:
                self._waiting.add(waiting)
                try:
                    return await self._pool.getconn()
                finally:
                    self._waiting.discard(waiting)
        except TimeoutError:
            raise self._failure.with_traceback(None) from None
        except PoolClosed:
            raise StoreError("The store or its pool is closed; open it again.") from None
        except PoolTimeout:
            busy = f"all connections stayed at work for {self._pool.timeout:g} s"
            raise StoreError(f"memory unavailable: {busy}; raise pool_size.") from None

    async def _put_back(self, connection: AnyConnection) -> None:
        if connection.info.pipeline_status:  # which the pool would give to the next
            await connection.close()
        if not connection.closed:
            self._answered_at[connection] = time.monotonic()
        await self._pool.putconn(connection)

    async def _dial(self) -> AnyConnection:
        try:
            connection = await connect(self._target)
            try:
                await self._set_up(connection)
            except BaseException:
                await connection.close()
                raise
        except asyncio.CancelledError:
            # the pool's worker takes this for a failure and would go on for ever: tell it again
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
        # who once met a pooler sets nothing for longer than a transaction any more
        pooled = self.traits is not None and self.traits.pooled
        self.traits = await set_up(connection, self._target, pooled=pooled, lent=self._lent)
        return self.traits

    async def _check(self, connection: AnyConnection) -> None:
        if time.monotonic() - self._answered_at.get(connection, 0.0) < TRUSTED_SECONDS:
            return
        try:
            await within(connection, CONNECT_SECONDS, self._pool.check_connection(connection))
        except psycopg.Error:
            await self._pool.drain()  # what broke one has most likely broken all
            raise

    def _refuse_waiting(self, _: object = None) -> None:
        """Fail whoever waits for a connection, unless one will be given back or made: a server that
        takes no more is shared, but a silent one is not waited for again.
        """
        is_silent = isinstance(self._failure, errors.ConnectionTimeout)
        if not (self._tasks if is_silent else self._pool.get_stats()["pool_size"]):
            for waiting in self._waiting:
                waiting.reschedule(0)
            self._waiting.clear()


@dataclass(eq=False)
class PostgresDatabase(Database):
    """The connections of one store. It belongs to the event loop that opened it; what the server's
    log holds of deleted rows is the server's own affair.

    Args:
        pool: of connections to the database.
        ring: the keys that rows are encrypted with; None: they are not.

    Attributes:
        wrote: is told which scopes a transaction moved, and up to where the log holds it, None if
            that could not be learnt; None: nobody asks.
    """

    has_nearest = True
    pool: Pool
    ring: KeyRing | None = None
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
                done = await session.complete(script)
            except OUTDATED:  # nothing came of it
                await within(connection, CONNECT_SECONDS, _forget_prepared(connection))
                done = await session.complete(script)
            if self.wrote is not None and session.moved:
                position = None
                with suppress(psycopg.Error):  # what was written is kept all the same
                    position = (await node_of(connection))["position"]
                self.wrote(session.moved, position)
            return done

        try:
            return await self.pool.use(work)
        except psycopg.Error as error:
            raise ours(error) from error


async def node_of(connection: AnyConnection, _: Traits | None = None) -> Row:
    """Return which server answers, and up to where it holds the log."""
    [node] = await within(connection, CONNECT_SECONDS, fetch(connection, queries(DIALECT)["node"]))
    return node


async def _forget_prepared(connection: AnyConnection) -> None:
    async with connection.transaction(force_rollback=True):
        pass  # psycopg lets go of all prepared statements with a rollback
