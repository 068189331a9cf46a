"""Whether a database holds memories already, looked up without making or changing anything."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg import AsyncConnection, sql

from ...errors import ConfigurationError
from . import embedded_server as server

LOOK_SECONDS = 10
_LOOK = """
SELECT to_regclass(%s) IS NOT NULL,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
        OR EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),
    to_regnamespace(%s) IS NOT NULL OR has_database_privilege(current_database(), 'CREATE')
"""


async def is_present(uri: str, schema: str, table_prefix: str) -> bool:
    """Whether the schema was migrated once. What cannot be looked into counts as there: opening it says why.

    Raises:
        ConfigurationError: it was not, and could not be made here: pgvector or a right is missing.
    """
    if uri.startswith("pgserver:"):
        return (server.directory_of(uri) / "PG_VERSION").exists()
    try:
        there, extension, right = await asyncio.wait_for(_looked(uri, schema, table_prefix), LOOK_SECONDS)
    except (psycopg.Error, TimeoutError):
        return True
    if not there and not extension:
        raise ConfigurationError(
            "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector installed on the server."
        )
    if not there and not right:
        raise ConfigurationError(f"The database user lacks a privilege: CREATE on the database, to make {schema!r}.")
    return there


async def _looked(uri: str, schema: str, table_prefix: str) -> tuple[bool, bool, bool]:
    connection = await AsyncConnection.connect(
        uri, autocommit=True, connect_timeout=LOOK_SECONDS, prepare_threshold=None
    )
    async with connection:
        ledger = sql.Identifier(schema, f"{table_prefix}schema_migration").as_string(connection)
        cursor = await connection.execute(_LOOK, (ledger, sql.Identifier(schema).as_string(connection)))
        [(there, extension, right)] = await cursor.fetchall()
        return bool(there), bool(extension), bool(right)
