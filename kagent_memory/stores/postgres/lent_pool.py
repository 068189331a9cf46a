"""The connections of a pool that the caller has made, each used under settings of our own and given back as it was."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection

from ...errors import ConfigurationError, StoreError
from .connection import Connection, Target, lent
from .errors import ours


class LentPool:
    """Hands out the connections of the caller's pool; the caller closes it.

    Nothing is set on them for longer than a transaction, no statement has a name, and the caller's own row factory,
    adapters and handlers stay as they are: what we use is another face of the same connection.

    Args:
        pool: open, and of this event loop.
        target: which schema, and the bounds of statements.
        wait_seconds: the longest that a call waits for a connection.
        owned: it is closed with the store.

    Raises:
        ConfigurationError: it is not such a pool.
    """

    @classmethod
    async def of(cls, given: object, target: Target, *, wait_seconds: float) -> Self:
        """The caller's pool, or the one that the caller's function makes on this event loop, closed with the store.

        Raises:
            ConfigurationError: it is neither.
        """
        if hasattr(given, "getconn") or not callable(given):
            return cls(given, target, wait_seconds=wait_seconds)
        made = cast("Callable[[], object]", given)()
        return cls(await made if inspect.isawaitable(made) else made, target, wait_seconds=wait_seconds, owned=True)

    def __init__(self, pool: object, target: Target, *, wait_seconds: float, owned: bool = False) -> None:
        if not (inspect.iscoroutinefunction(getattr(pool, "getconn", None)) and hasattr(pool, "putconn")):
            raise ConfigurationError(
                "pool= takes an open psycopg_pool.AsyncConnectionPool of this event loop, or a function that makes "
                f"one; not {type(pool).__name__}."
            )
        self._pool: Any = pool
        self._target, self._owned = target, owned
        self._wait_seconds = wait_seconds
        self._faces: WeakKeyDictionary[AsyncConnection[Any], Connection] = WeakKeyDictionary()
        self._taken: dict[Connection, AsyncConnection[Any]] = {}
        self._returning: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> Connection:
        """A connection; it must be given back.

        Raises:
            StoreError: none is free in time, the pool or the store is closed, or the database is away.
        """
        if self._closed:
            raise StoreError("The store is closed; open it again.")
        try:
            theirs = await self._pool.getconn(timeout=self._wait_seconds)
        except psycopg.Error as error:
            raise ours(error) from error
        try:
            face = self._faces.get(theirs)
            if face is None:
                face = self._faces[theirs] = await lent(theirs, self._target)
        except psycopg.Error as error:
            self._put_back(theirs)
            raise ours(error) from error
        except BaseException:
            self._put_back(theirs)
            raise
        face.patience = face.answer_seconds
        self._taken[face] = theirs
        return face

    def give_back(self, connection: Connection) -> None:
        """Hands a connection back to the caller's pool; one that is not at rest is closed before."""
        theirs = self._taken.pop(connection)
        if not connection.reusable:
            connection.end()
        self._put_back(theirs)

    def forget(self) -> None:
        """Forgets what was found out about the connections: it is no longer true."""
        self._faces.clear()

    def close(self) -> None:
        """Takes out no more."""
        self._closed = True

    async def settled(self) -> None:
        """Returns when every connection that was given back is in the pool; closes one of our own with the store."""
        while self._returning:
            await asyncio.wait(self._returning)
        if self._closed and self._owned:
            await self._pool.close()

    def _put_back(self, theirs: AsyncConnection[Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._pool.putconn(theirs), name="kagent-memory-give-back")
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)
