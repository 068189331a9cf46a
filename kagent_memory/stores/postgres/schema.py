"""Bringing a database to the newest schema, safely when many processes do so at once."""

from __future__ import annotations

import psycopg
from psycopg import AsyncConnection, errors, sql
from psycopg.rows import TupleRow

from ...errors import ConfigurationError
from ..sql import migrations
from .errors import refused, translated

DIALECT = "postgres"
_LOCK = 0x6B61_6765_6E74_6D65
_LEDGER = """
CREATE TABLE schema_migration (
    number integer NOT NULL PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now()
)
"""


async def prepare(conninfo: str, schema: str, timeout_seconds: int) -> str:
    """Migrates the schema and gives the search path under which its tables and pgvector's types are found.

    Raises:
        ConfigurationError: the URI, the user's rights or a missing pgvector do not allow it.
        StoreError: the database cannot be reached.
    """
    try:
        connection = await AsyncConnection.connect(conninfo, autocommit=True, connect_timeout=timeout_seconds)
    except psycopg.Error as error:
        raise refused(error) from error
    with translated():
        async with connection:
            await connection.set_autocommit(True)
            path = await _search_path(connection, schema)
            if path is None or await _missing(connection, path):
                path = await _migrate(connection, schema)
            return path


async def _search_path(connection: AsyncConnection[TupleRow], schema: str) -> str | None:
    cursor = await connection.execute(
        "SELECT nspname FROM pg_type JOIN pg_namespace AS n ON n.oid = typnamespace WHERE typname = 'halfvec'"
    )
    found = await cursor.fetchone()
    if found is None:
        return None
    return ", ".join(sql.Identifier(name).as_string(connection) for name in (schema, found[0]))


async def _missing(connection: AsyncConnection[TupleRow], path: str) -> set[int]:
    await connection.execute("SELECT set_config('search_path', %s, false)", (path,))
    ledger = await (await connection.execute("SELECT to_regclass('schema_migration')")).fetchone()
    numbers = {migration.number for migration in migrations(DIALECT)}
    if ledger is None or ledger[0] is None:
        return numbers
    return numbers - {
        row[0] for row in await (await connection.execute("SELECT number FROM schema_migration")).fetchall()
    }


async def _migrate(connection: AsyncConnection[TupleRow], schema: str) -> str:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        await _ensure_extension(connection)
        path = await _search_path(connection, schema)
        if path is None:
            raise ConfigurationError("The installed pgvector has no halfvec; update the extension to 0.7 or newer.")
        present = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        if not await present.fetchone():
            await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        await _catch_up(connection, path)
    return path


async def _ensure_extension(connection: AsyncConnection[TupleRow]) -> None:
    present = await connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'")
    if await present.fetchone():
        return
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
        raise ConfigurationError(
            "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector installed on the server and a "
            f"user who may create extensions; run it once as such a user. ({' '.join(str(error).split())})"
        ) from error


async def _catch_up(connection: AsyncConnection[TupleRow], path: str) -> None:
    missing = await _missing(connection, path)
    ledger = await (await connection.execute("SELECT to_regclass('schema_migration')")).fetchone()
    if ledger is None or ledger[0] is None:
        await connection.execute(_LEDGER)
    for migration in migrations(DIALECT):
        if migration.number in missing:
            await connection.execute(migration.script)
            await connection.execute(
                "INSERT INTO schema_migration (number, name) VALUES (%s, %s)", (migration.number, migration.name)
            )
