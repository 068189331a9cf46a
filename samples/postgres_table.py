"""Read a table of another system in PostgreSQL, without changing anything there."""

import sys
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
from psycopg import IsolationLevel, sql
from psycopg.rows import dict_row


def rows(uri: str, query: LiteralString, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of one moment, some at a time.

    Args:
        uri: of the database.
        query: with {table} for the name.
        table: its name, also with its schema.

    Raises:
        SystemExit: the database is away, or the table is another one.
    """
    try:
        with psycopg.connect(uri) as connection:
            connection.read_only = True
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            with connection.cursor(name="samples", row_factory=dict_row) as cursor:
                cursor.execute(sql.SQL(query).format(table=sql.Identifier(*table.split("."))))
                yield from cursor
    except psycopg.Error as error:
        sys.exit(f"The table {table} cannot be read: {error}")
