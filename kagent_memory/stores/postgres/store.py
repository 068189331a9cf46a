"""The PostgreSQL adapter: how a database is opened, looked for, and distributed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psycopg
from psycopg import AsyncConnection, sql
from typing_extensions import Unpack, override

from ...errors import ConfigurationError
from ..adapter import Adapter
from ..encryption import KeyRing
from ..parts import Store
from ..sql.memories import CACHE_MB, SqlMemoryStore
from ..sql.queue import JobQueue
from ..sql.receipts import ReceiptStore
from ..sql.tokens import TokenStore
from ..values import OpenOptions
from . import embedded_server
from .connection import AnyConnection, Target, Traits
from .database import PostgresDatabase
from .distribution import drop_local_rows, left_to_distribute
from .errors import check_loop, refused
from .pool import Pool
from .schema import MIGRATION_SECONDS, prepare
from .standby import LOOK_SECONDS, open_standby

_LOOK = """
SELECT to_regclass(%s) IS NOT NULL,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
        OR EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),
    to_regnamespace(%s) IS NOT NULL OR has_database_privilege(current_database(), 'CREATE')
"""


class PostgresStore(Adapter):
    """PostgreSQL with pgvector 0.7 or newer. A store belongs to the event loop that opened it."""

    supports = frozenset({"encryption_keys", "rls", "read_uri"})

    @override
    @classmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Store:
        check_loop()
        if not uri.startswith("pgserver:"):
            return await _open(uri, None, options)
        directory = embedded_server.directory_of(uri)
        conninfo = await asyncio.to_thread(embedded_server.start, directory)
        try:
            return await _open(conninfo, directory, options)
        except BaseException:
            await asyncio.to_thread(embedded_server.stop, directory)
            raise

    @override
    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        if uri.startswith("pgserver:"):
            return (embedded_server.directory_of(uri) / "PG_VERSION").exists()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                connection = await AsyncConnection.connect(
                    uri, autocommit=True, connect_timeout=LOOK_SECONDS, prepare_threshold=None
                )
                async with connection:
                    ledger = sql.Identifier(schema, "schema_migration").as_string(connection)
                    names = (ledger, sql.Identifier(schema).as_string(connection))
                    [(there, extension, right)] = await (
                        await connection.execute(_LOOK, names)
                    ).fetchall()
        except (psycopg.Error, TimeoutError):
            return True
        if not there and not extension:
            raise ConfigurationError(
                "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector "
                "installed on the server."
            )
        if not there and not right:
            raise ConfigurationError(
                f"The database user lacks a privilege: CREATE on the database, to make {schema!r}."
            )
        return bool(there)

    @override
    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 32, dry_run: bool = False
    ) -> Mapping[str, str]:
        check_loop()
        target = Target(conninfo=uri, schema=schema, statement_seconds=MIGRATION_SECONDS)

        async def work(connection: AnyConnection, traits: Traits) -> Mapping[str, str]:
            left = await left_to_distribute(connection, traits)
            if left and not dry_run:
                await prepare(connection, traits, shards=shards)
                await drop_local_rows(connection, traits)
            return left

        pool = await Pool(target).open()
        try:
            return await pool.use(work)
        except psycopg.Error as error:
            raise refused(error) from error
        finally:
            await pool.close()


async def _open(conninfo: str, directory: Path | None, options: OpenOptions) -> Store:
    target = Target(
        conninfo=conninfo,
        schema=options.get("schema", "kagent_memory"),
        statement_seconds=options.get("statement_timeout_seconds", 15.0),
    )
    ring = KeyRing.parse(options.get("encryption_keys"))
    reads = None
    if (given := options.get("pool")) is not None:
        pool = await Pool.lent(given, target)
    else:
        pool = await Pool(target, size=options.get("pool_size", 10)).open()
    database = PostgresDatabase(pool, directory, ring=ring)
    try:
        if await pool.use(partial(prepare, row_security=options.get("rls", False))):
            await pool.forget()
        if (read_uri := options.get("read_uri")) is not None:
            reads = await open_standby(read_uri, target, options.get("pool_size", 10), database)
    except psycopg.Error as error:
        await pool.close()
        raise refused(error) from error
    except BaseException:
        await pool.close()
        raise
    cache_mb = options.get("cache_mb", CACHE_MB)
    return Store(
        SqlMemoryStore(database, cache_mb=cache_mb, ring=ring, searches=reads),
        JobQueue(database),
        TokenStore(database),
        ReceiptStore(database),
    )
