"""Bringing a database to the newest schema, safely when many processes do so at once."""

from __future__ import annotations

import psycopg
from psycopg import errors, sql

from ...errors import ConfigurationError
from ..sql import Upgrade, queries, upgrade
from .connection import DIALECT, AnyConnection, Traits, fetch, within
from .distribution import distribute
from .errors import ours
from .row_security import guard, is_guarded, join_roles
from .session import PostgresSession

MIGRATION_SECONDS = 1800.0
SHARDS = 32
_LOCK = 0x6B61_6765_6E74_6D65  # for all schemas of a database: they make the same extension


async def prepare(
    connection: AnyConnection,
    traits: Traits,
    *,
    row_security: bool = False,
    shards: int | None = None,
) -> bool:
    """Migrate the schema where it must be; guard its rows, and distribute its tables, where that is
    asked for or was once.

    Args:
        connection: one of its own.
        traits: what is known of it.
        row_security: switches row level security on.
        shards: distributes the tables, those of scopes in so many parts.

    Returns:
        Whether there was something to do.

    Raises:
        ConfigurationError: the user's rights or a missing pgvector do not allow it, or a build from
            before the first release made the database.
        StoreError: the database went away.
    """
    guarded = row_security or traits.row_security
    try:
        is_new = await within(
            connection, traits.target.answer_seconds, _is_new(connection, traits, guarded=guarded)
        )
        if is_new and shards is None:
            return False
        await within(
            connection,
            MIGRATION_SECONDS,
            _prepare(connection, traits, guarded=guarded, shards=shards),
        )
    except psycopg.Error as error:
        raise ours(error) from error
    return True


async def _is_new(connection: AnyConnection, traits: Traits, *, guarded: bool) -> bool:
    """Return whether nothing is left to migrate or to guard."""
    target = traits.target
    async with connection.transaction():
        if traits.row_security:  # else not even the schema may be looked into
            await join_roles(connection, target)
        if traits.halfvec is None or (await _upgrade(connection, traits)).steps:
            return False
        return not guarded or await is_guarded(connection, target)


async def _prepare(
    connection: AnyConnection, traits: Traits, *, guarded: bool, shards: int | None
) -> None:
    async with connection.transaction():
        await connection.execute("SELECT set_config('statement_timeout', '0', true)")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        await _migrate(connection, traits)
        distributed = (
            shards is not None or await PostgresSession(connection, traits).is_distributed()
        )
        if guarded and distributed:
            raise ConfigurationError(
                "Row level security and Citus exclude each other: Citus hands no transaction's "
                "scope on to its "
                "nodes. Leave out rls, or --distribute."
            )
        if guarded:
            await guard(connection, traits.target)
        if distributed:
            await distribute(connection, traits, shards=shards or SHARDS)


async def _upgrade(connection: AnyConnection, traits: Traits) -> Upgrade:
    """Return how to bring the schema to the newest one.

    Raises:
        ConfigurationError: a build from before the first release made it.
    """
    ledger = sql.Identifier(traits.target.schema, "schema_migration")
    place = {"place": ledger.as_string(connection)}
    [found] = await fetch(
        connection, "SELECT to_regclass(%(place)s::text) IS NOT NULL AS there", place
    )
    if not found["there"]:
        return upgrade(DIALECT, None)
    rows = await fetch(connection, sql.SQL("SELECT number, name FROM {}").format(ledger))
    return upgrade(DIALECT, {row["number"]: row["name"] for row in rows})


async def _migrate(connection: AnyConnection, traits: Traits) -> None:
    schema = traits.target.schema
    # All of it is set for this transaction only: behind a pooler the session is somebody else's a
    # moment later.
    await _ensure_extension(connection)
    found = await fetch(
        connection,
        "SELECT n.nspname::text AS name FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid "
        "= e.extnamespace "
        "JOIN pg_type AS t ON t.typnamespace = n.oid AND t.typname = 'halfvec' WHERE e.extname "
        "= 'vector'",
    )
    if not found:
        raise ConfigurationError(
            "The installed pgvector has no halfvec; update the extension to 0.7 or newer."
        )
    if not await fetch(
        connection, "SELECT FROM pg_namespace WHERE nspname = %(schema)s::text", {"schema": schema}
    ):
        await connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    path = ", ".join(
        sql.Identifier(name).as_string(connection) for name in (schema, found[0]["name"])
    )
    await connection.execute("SELECT set_config('search_path', %s, true)", (path,))
    text, needed = queries(DIALECT), await _upgrade(connection, traits)
    if traits.row_security and needed.steps:
        await connection.execute(text["unguard_tables"])
    for script in needed.scripts:
        await connection.execute(script)
    for step in needed.steps:
        await connection.execute(text["note_migration"], {"number": step.number, "name": step.name})


async def _ensure_extension(connection: AnyConnection) -> None:
    if await fetch(connection, "SELECT FROM pg_extension WHERE extname = 'vector'"):
        return
    try:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (
        errors.FeatureNotSupported,
        errors.UndefinedFile,
        errors.InsufficientPrivilege,
    ) as error:
        raise ConfigurationError(
            "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector "
            "installed on the server and a "
            "user who may create extensions; run it once as such a user. "
            f"({' '.join(str(error).split())})"
        ) from error
