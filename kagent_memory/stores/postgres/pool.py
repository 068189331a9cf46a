"""The connections of one store: a `psycopg_pool.AsyncConnectionPool`, ours or the caller's."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
from typing_extensions import override

from ...errors import ConfigurationError, StoreError
from .connection import CONNECT_SECONDS, AnyConnection, Target, Traits, connect, set_up, within

TRUSTED_SECONDS = 1.0
IDLE_SECONDS = 300.0
WAIT_SECONDS = 60.0
T = TypeVar("T")
Work: TypeAlias = Callable[[AnyConnection, Traits], Coroutine[Any, Any, T]]
Verify: TypeAlias = Callable[[AnyConnection, Traits], Awaitable[None]]


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

    Args:
        target: which database.
        size: the most connections at a time.
        verify: refuses a new connection by raising.
    """

    def __init__(self, target: Target, *, size: int = 1, verify: Verify | None = None) -> None:
        self._target = target
        self._verify = verify
        self._lent, self._owned, self._closed = False, True, False
        self._traits: WeakKeyDictionary[AnyConnection, Traits] = WeakKeyDictionary()
        self._waiting: set[asyncio.Timeout] = set()
        self._failure: Exception = psycopg.OperationalError("the connection failed")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
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
    async def lent(cls, given: object, target: Target) -> Self:
        """Return the caller's pool, or the one that the caller's function makes, as connections of
        a store.

        A pool that a function made is closed with the store.

        Raises:
            ConfigurationError: it is neither.
        """
        owned = callable(given) and not isinstance(given, AsyncConnectionPool)
        if owned:
            made = cast("Callable[[], object]", given)()
            given = await made if inspect.isawaitable(made) else made
        if not isinstance(given, AsyncConnectionPool):
            raise ConfigurationError(
                "pool= takes an open psycopg_pool.AsyncConnectionPool of this event loop, or a "
                "function "
                f"that makes one; not {type(given).__name__}."
            )
        lent = cls(target)
        lent._pool, lent._lent, lent._owned = cast("AsyncConnectionPool[Any]", given), True, owned
        return lent

    async def open(self) -> Self:
        """Start to make connections as they are needed."""
        if not self._lent:
            await self._pool.open()
        return self

    async def use(self, work: Work[T]) -> T:
        """Return what `work` returns, given a free connection and what is known of it.

        Raises:
            StoreError: none is free in time, or the store is closed.
            psycopg.Error: the database is away, or whatever the work raises.
        """
        connection = await self._take()

        async def used() -> T:
            try:
                traits = self._traits.get(connection) or await self._set_up(connection)
                return await work(connection, traits)
            finally:
                await self._put_back(connection)

        task = asyncio.create_task(used(), name="kagent-memory-database")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def forget(self) -> None:
        """Forget what was found out about the connections, for the schema has changed."""
        self._traits.clear()
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
        if self._closed:
            raise StoreError("The store is closed; open it again.")
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting.add(waiting)
                try:
                    return await self._pool.getconn()
                finally:
                    self._waiting.discard(waiting)
        except TimeoutError:
            raise self._failure.with_traceback(None) from None
        except PoolClosed:
            raise StoreError(
                "memory unavailable: the store or its pool is closed; open it again."
            ) from None
        except PoolTimeout:
            busy = f"all connections stayed at work for {self._pool.timeout:g} s"
            raise StoreError(f"memory unavailable: {busy}; raise pool_size.") from None

    async def _put_back(self, connection: AnyConnection) -> None:
        is_idle = connection.info.transaction_status == TransactionStatus.IDLE
        if not is_idle or connection.pgconn.pipeline_status != PipelineStatus.OFF:
            await connection.close()
        elif traits := self._traits.get(connection):
            traits.answered_at = asyncio.get_running_loop().time()
        await self._pool.putconn(connection)

    async def _dial(self) -> AnyConnection:
        try:
            connection = await connect(self._target)
            try:
                await self._set_up(connection)
            except BaseException:
                await connection.close()
                raise
        except Exception as error:
            self._failure = error
            self._refuse_waiting()
            raise
        return connection

    async def _set_up(self, connection: AnyConnection) -> Traits:
        traits = await set_up(connection, self._target, lent=self._lent)
        if self._verify is not None:
            await self._verify(connection, traits)
        self._traits[connection] = traits
        return traits

    async def _check(self, connection: AnyConnection) -> None:
        traits = self._traits.get(connection)
        now = asyncio.get_running_loop().time()
        if traits is not None and now - traits.answered_at < TRUSTED_SECONDS:
            return
        try:
            await within(connection, CONNECT_SECONDS, self._pool.check_connection(connection))
        except psycopg.Error:
            await self._pool.drain()  # what broke one has most likely broken all
            raise

    def _refuse_waiting(self, _: object = None) -> None:
        # While a connection is open it will be given back: a server that takes no more is shared.
        if any(not connection.closed for connection in self._traits):
            return
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting:
            waiting.reschedule(now)
        self._waiting.clear()
