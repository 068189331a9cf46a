"""One PostgreSQL database, open: scripts on connections of the pool, each writing one in a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from . import embedded_server as server
from .errors import ours
from .pool import Pool
from .session import PostgresSession, statement

P = ParamSpec("P")
T = TypeVar("T")


class PostgresDatabase:
    """The connections of one store. It belongs to the event loop that opened it.

    Args:
        pool: of connections to the database.
        directory: of the private server that ends with the store; None: the server is somebody else's.
    """

    def __init__(self, pool: Pool, directory: Path | None) -> None:
        self.pool = pool
        self._directory = directory

    async def read(
        self,
        script: Callable[Concatenate[PostgresSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a script reads, each statement for itself."""
        connection = await self.pool.take()
        try:
            return await script(PostgresSession(connection), *args, **kwargs)
        except psycopg.Error as error:
            raise ours(error) from error
        finally:
            self.pool.give_back(connection)

    async def write(
        self,
        script: Callable[Concatenate[PostgresSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What came of a script in one transaction, with the settings of its own where no session has any."""
        connection = await self.pool.take()
        try:
            async with connection.pipeline() as pipeline, connection.transaction():
                if connection.pooled:
                    await connection.execute(statement("set_locally"), connection.settings)
                try:
                    return await script(PostgresSession(connection, pipeline), *args, **kwargs)
                except asyncio.CancelledError:
                    connection.hurry()
                    raise
        except psycopg.Error as error:
            raise ours(error) from error
        finally:
            self.pool.give_back(connection)

    async def close(self) -> None:
        """Closes the connections, and ends the private server if there is one. Closing twice is harmless."""
        self.pool.close()
        if self._directory is not None:
            directory, self._directory = self._directory, None
            await asyncio.to_thread(server.stop, directory)
