"""The PostgreSQL adapter: its pool, its transactions, and the vector search, which is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import AsyncConnection
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool
from typing_extensions import override

from ...errors import StoreError
from ...records import Filter, Scope, Vector
from ..base import Generation
from ..sql.decoding import bounded
from ..sql.session import Row, Session
from ..sqlstore import Script, SqlStore, T
from . import searching, server
from .errors import translated
from .schema import prepare
from .session import IdLoader, PostgresSession, decoded

CONNECT_SECONDS = 3
WAIT_SECONDS = 3.0
TRUSTED_SECONDS = 1.0
STATEMENT_MILLISECONDS = 60_000
COVERED_DIMENSIONS = 1300
_SETTINGS = """
SELECT set_config('search_path', %s, false), set_config('TimeZone', 'UTC', false), set_config('jit', 'off', false),
    set_config('statement_timeout', %s, false)
"""


class Connection(AsyncConnection[Row]):
    """A connection that knows when the server last answered it, on the event loop's clock."""

    answered_at = -TRUSTED_SECONDS


async def _alive(connection: Connection) -> None:
    # A round trip, so only for a connection that was idle; one that breaks in between costs its user one StoreError.
    clock = asyncio.get_running_loop().time
    if clock() - connection.answered_at >= TRUSTED_SECONDS:
        await connection.execute("")
        connection.answered_at = clock()


class PostgresStore(SqlStore):
    """Memories in PostgreSQL with pgvector 0.7 or newer. It belongs to the event loop that opened it."""

    def __init__(self, pool: AsyncConnectionPool[Connection], directory: Path | None) -> None:
        super().__init__()
        self._pool = pool
        self._directory = directory
        self._writing: set[asyncio.Task[Any]] = set()

    @override
    @classmethod
    async def open(cls, uri: str, *, schema: str = "kagent_memory", pool_size: int = 10) -> Self:
        if not uri.startswith("pgserver:"):
            return await cls._open(uri, schema, pool_size, None)
        directory = server.directory_of(uri)
        conninfo = await asyncio.to_thread(server.start, directory)
        try:
            return await cls._open(conninfo, schema, pool_size, directory)
        except BaseException:
            await asyncio.to_thread(server.stop, directory)
            raise

    @classmethod
    async def _open(cls, conninfo: str, schema: str, pool_size: int, directory: Path | None) -> Self:
        path = await prepare(conninfo, schema, CONNECT_SECONDS)

        async def configure(connection: Connection) -> None:
            await connection.execute(_SETTINGS, (path, str(STATEMENT_MILLISECONDS)))
            if (info := await TypeInfo.fetch(connection, "halfvec")) is not None:
                register_halfvec_info(connection, info)
            connection.adapters.register_loader("uuid", IdLoader)

        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo,
            connection_class=Connection,
            kwargs={"autocommit": True, "row_factory": decoded, "connect_timeout": CONNECT_SECONDS},
            configure=configure,
            check=_alive,
            # None is kept ready: after an outage the next caller dials at once, instead of waiting out a back-off.
            min_size=0,
            max_size=pool_size,
            timeout=WAIT_SECONDS,
            reconnect_timeout=WAIT_SECONDS,
            open=False,
        )
        with translated():
            await pool.open()
        return cls(pool, directory)

    @override
    async def close(self) -> None:
        await self._pool.close()
        if self._directory is not None:
            directory, self._directory = self._directory, None
            await asyncio.to_thread(server.stop, directory)

    @override
    async def _read(self, script: Script[T]) -> T:
        with translated():
            async with self._pool.connection() as connection:
                return await script(PostgresSession(connection))

    @override
    async def _write(self, script: Script[T]) -> T:
        # A pipeline that is cancelled midway may wait for ever for answers that were never asked for: so a caller that
        # is cancelled waits for the end of its transaction, as with libSQL.
        task = asyncio.ensure_future(self._transaction(script))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            raise

    async def _transaction(self, script: Script[T]) -> T:
        with translated():
            async with (
                self._pool.connection() as connection,
                connection.pipeline() as pipeline,
                connection.transaction(),
            ):
                return await script(PostgresSession(connection, pipeline))

    @override
    async def _make_vectors(self, session: Session, generation: Generation) -> None:
        if not isinstance(session, PostgresSession):
            raise StoreError("A session of another store.")
        covered = generation.dimensions <= COVERED_DIMENSIONS
        for query in ("make_vectors" if covered else "make_wide_vectors", "tune_vectors"):
            await session.define(query, generation.number, generation.dimensions)

    @override
    async def search_vector(
        self,
        scope: Scope,
        generation: int,
        vectors: Sequence[Vector],
        *,
        limit: int,
        filter: Filter = Filter(),
        version: int | None = None,
        now: datetime,
    ) -> list[list[tuple[str, float]]]:
        checked = await self._checked_vectors(generation, vectors)
        options: dict[str, Any] = {
            "vectors": checked,
            "limit": bounded(limit),
            "filter": filter,
            "version": version,
            "now": now,
        }
        search = partial(searching.nearest, indexes=self._indexes, scope=scope, generation=generation, **options)
        return await self._read(search) if checked else []
