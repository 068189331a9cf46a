"""Read a table of another system in PostgreSQL, without changing anything there."""

import sys
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
from psycopg import IsolationLevel, sql
from psycopg.rows import dict_row


def rows(uri: str, query: LiteralString, table: str) -> Iterator[dict[str, Any]]:
    """Yield a table's rows as of one moment, in batches.

    Args:
        uri: the database's URI.
        query: a statement with {table} in place of the table's name.
        table: the name, also with its schema.

    Raises:
        SystemExit: the database cannot be reached, or the table does not fit the query.
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
