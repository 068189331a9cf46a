"""Reads the tables of other memory systems in PostgreSQL, without changing anything there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, IsolationLevel, errors, sql
from psycopg.rows import dict_row

from ...errors import InvalidInput
from .connection import CONNECT_SECONDS
from .errors import check_loop, ours, refused

ROWS: Mapping[str, LiteralString] = {
    "kagent": """
        SELECT id::text AS id, agent_name, user_id, content, embedding::text AS embedding, metadata::text AS metadata,
            created_at, expires_at, access_count
        FROM {table} ORDER BY agent_name, user_id, created_at, id
    """,
    "mem0": """
        SELECT id::text AS id, payload FROM {table}
        ORDER BY payload ->> 'agent_id', payload ->> 'user_id', payload ->> 'created_at', id
    """,
    "langgraph": """
        SELECT prefix, key, value, created_at, updated_at, to_jsonb(item) ->> 'expires_at' AS expires_at
        FROM {table} AS item ORDER BY prefix, created_at, key
    """,  # early versions have no expires_at
}


async def table_rows(uri: str, system: str, table: str, *, part: int) -> AsyncGenerator[Sequence[dict[str, Any]]]:
    """All rows of one moment, some at a time, those of one user and agent together.

    Args:
        uri: of the database.
        system: whose table it is, a key of `ROWS`.
        table: its name, also with its schema.
        part: how many rows at a time.

    Raises:
        InvalidInput: there is no such table, or its columns are others.
        ConfigurationError: the URI, or a right, does not fit.
        StoreError: the database is away.
    """
    check_loop()
    try:
        connection = await AsyncConnection.connect(uri, connect_timeout=CONNECT_SECONDS)
    except psycopg.Error as error:
        raise refused(error) from error
    try:
        async with connection:
            await connection.set_read_only(True)
            await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
            async with connection.cursor(name="import", row_factory=dict_row) as cursor:
                await cursor.execute(sql.SQL(ROWS[system]).format(table=sql.Identifier(*table.split("."))))
                while rows := await cursor.fetchmany(part):
                    yield rows
    except errors.InsufficientPrivilege as error:
        raise ours(error) from error
    except (psycopg.ProgrammingError, psycopg.DataError) as error:
        why = str(error).partition("\n")[0]
        raise InvalidInput(f"{table} is not the table of {system}, or holds what cannot be read: {why}.") from error
    except psycopg.Error as error:
        raise ours(error) from error
