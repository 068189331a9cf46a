"""Bringing a database to the newest schema, safely when many processes do so at once."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import errors, sql

from ...errors import ConfigurationError
from ..sql import Migration, migrations, missing, queries
from ..sql import schema as whole_schema
from .connection import DIALECT, Connection
from .distribution import distribute, is_distributed
from .errors import ours
from .row_security import guard, is_guarded, join_roles
from .session import PostgresSession

MIGRATION_SECONDS = 1800.0
SHARDS = 32
_LOCK = 0x6B61_6765_6E74_6D65  # for all schemas of a database: they make the same extension


async def prepare(
    connection: Connection, schema: str, *, row_security: bool = False, shards: int | None = None
) -> bool:
    """Migrates the schema where it must; guards its rows, and distributes its tables, where that is asked for or was
    once. Gives whether there was something to do.

    Args:
        connection: one of its own.
        schema: the schema's name.
        row_security: switches row level security on.
        shards: distributes the tables, those of scopes in so many parts.

    Raises:
        ConfigurationError: the user's rights or a missing pgvector do not allow it, or a build from before the first
            release made the database.
        StoreError: the database went away.
    """
    guarded = row_security or connection.row_security
    try:
        if connection.row_security:  # else not even the schema may be looked into
            await join_roles(connection, schema)
        lacking = await _missing(connection, schema)
        newest = connection.has_vectors and lacking == []
        if newest and shards is None and (not guarded or await is_guarded(connection, schema)):
            return False
        connection.patience = MIGRATION_SECONDS
        async with connection.transaction():
            await connection.execute("SELECT set_config('statement_timeout', '0', true)")
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            await _migrate(connection, schema)
            distributed = shards is not None or await is_distributed(PostgresSession(connection))
            if guarded and distributed:
                raise ConfigurationError(
                    "Row level security and Citus exclude each other: Citus hands no transaction's scope on to its "
                    "nodes. Leave out rls, or --distribute."
                )
            if guarded:
                await guard(connection, schema)
            if distributed:
                await distribute(connection, shards=shards or SHARDS)
    except psycopg.Error as error:
        raise ours(error) from error
    return True


async def _missing(connection: Connection, schema: str) -> Sequence[Migration] | None:
    """Return the migrations that the schema lacks; None where none of our tables is there yet.

    Raises:
        ConfigurationError: a build from before the first release made it.
    """
    ledger = sql.Identifier(schema, "schema_migration")
    cursor = await connection.execute("SELECT to_regclass(%s) AS place", (ledger.as_string(connection),))
    [found] = await cursor.fetchall()
    if found["place"] is None:
        return None
    cursor = await connection.execute(sql.SQL("SELECT number, name FROM {}").format(ledger))
    applied = {row["number"]: row["name"] for row in await cursor.fetchall()}
    return missing(migrations(DIALECT), applied)


async def _migrate(connection: Connection, schema: str) -> None:
    # All of it is set for this transaction only: behind a pooler the session is somebody else's a moment later.
    await _ensure_extension(connection)
    cursor = await connection.execute(
        "SELECT n.nspname AS name FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace "
        "JOIN pg_type AS t ON t.typnamespace = n.oid AND t.typname = 'halfvec' WHERE e.extname = 'vector'"
    )
    found = await cursor.fetchone()
    if found is None:
        raise ConfigurationError("The installed pgvector has no halfvec; update the extension to 0.7 or newer.")
    present = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    if not await present.fetchone():
        await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    path = ", ".join(sql.Identifier(name).as_string(connection) for name in (schema, found["name"]))
    await connection.execute("SELECT set_config('search_path', %s, true)", (path,))
    text, lacking = queries(DIALECT), await _missing(connection, schema)
    if lacking is None:
        await connection.execute(whole_schema(DIALECT))
        lacking = migrations(DIALECT)
        for step in lacking:
            await connection.execute(text["note_migration"], {"number": step.number, "name": step.name})
        return
    if connection.row_security and lacking:
        await connection.execute(text["unguard_tables"])
    for step in lacking:
        await connection.execute(step.script)
        await connection.execute(text["note_migration"], {"number": step.number, "name": step.name})


async def _ensure_extension(connection: Connection) -> None:
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
