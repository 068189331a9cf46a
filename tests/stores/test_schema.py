"""The schema of a new database equals that of a migrated one; a database of an unpublished build is
left alone.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql.connection import Connection
from kagent_memory.stores.libsql.schema import migrate
from kagent_memory.stores.sql import migrations, schema

FIRST = Path(__file__).parent / "first_schema"
ADVICE = (
    "schema.sql and its migrations disagree: give the change a numbered migration and make it "
    "in schema.sql as well. "
    "tests/stores/first_schema is the schema of the first release; until that is out, copy "
    "schema.sql there instead."
)

COLUMNS = (
    "SELECT name, type, [notnull], dflt_value, pk, hidden FROM pragma_table_xinfo(:name) "
    "ORDER BY cid"
)
CATALOG = """
SELECT line FROM (
    SELECT concat_ws(' ', 'relation', relname, relkind, relpersistence, reloptions) FROM pg_class
        WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL SELECT concat_ws(
            ' ', 'column', relname, rank() OVER (PARTITION BY attrelid ORDER BY attnum), attname,
            format_type(atttypid, atttypmod), attnotnull, attstorage, attcollation::regcollation,
            pg_get_expr(adbin, adrelid)
        )
        FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r',
        'v') AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT concat_ws(' ', 'index', pg_get_indexdef(indexrelid)) FROM pg_index
        JOIN pg_class AS c ON c.oid = indexrelid WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname,
    pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = %(schema)s::regnamespace
    UNION ALL SELECT concat_ws(' ', 'view', oid::regclass, pg_get_viewdef(oid)) FROM pg_class
        WHERE relnamespace = %(schema)s::regnamespace AND relkind = 'v'
    UNION ALL SELECT concat_ws(' ', 'function', oid::regprocedure, prosrc) FROM pg_proc
        WHERE pronamespace = %(schema)s::regnamespace
    UNION ALL SELECT concat_ws(' ', 'trigger', tgname, tgrelid::regclass) FROM pg_trigger
        JOIN pg_class AS c ON c.oid = tgrelid WHERE relnamespace = %(schema)s::regnamespace
    UNION ALL SELECT concat_ws(' ', 'policy', polrelid::regclass, polname) FROM pg_policy
        JOIN pg_class AS c ON c.oid = polrelid WHERE relnamespace = %(schema)s::regnamespace
) AS lines (line)
ORDER BY line
"""


def catalog_of_file(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """Return all objects of a SQLite database, comments and layout of their statements aside."""
    lines: list[tuple[object, ...]] = []
    for kind, name, table, text in connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master"
    ):
        plain = (
            " ".join(re.sub(r"--[^\n]*", "", text or "").split())
            .replace("( ", "(")
            .replace(" )", ")")
        )
        # columns are compared one by one
        options = plain.rpartition(")")[2] if kind == "table" else plain
        lines.append((kind, name, table, options))
        if kind == "table":
            columns = connection.execute(COLUMNS, {"name": name})
            lines += [("column", name, place, *column) for place, column in enumerate(columns)]
    return sorted(lines, key=repr)


def catalog_of_schema(uri: str, name: str) -> list[str]:
    """Return all objects of a PostgreSQL schema, whatever its name is."""
    with psycopg.connect(uri, options=f"-csearch_path={name},public") as connection:
        return [
            line.replace(f"{name}.", "")
            for (line,) in connection.execute(CATALOG, {"schema": name})
        ]


def test_a_new_file_is_as_the_first_one_migrated() -> None:
    with (
        closing(sqlite3.connect(":memory:")) as new,
        closing(sqlite3.connect(":memory:")) as migrated,
    ):
        new.executescript(schema("libsql"))
        migrated.executescript((FIRST / "libsql.sql").read_text(encoding="utf-8"))
        for step in migrations("libsql"):
            migrated.executescript(step.script)
        assert catalog_of_file(new) == catalog_of_file(migrated), ADVICE
        assert len(catalog_of_file(new)) > 100


async def test_a_new_schema_of_postgres_is_as_the_first_one_migrated(postgres_uri: str) -> None:
    async with await open_store(postgres_uri, schema="new"):
        pass
    with psycopg.connect(
        postgres_uri, options="-csearch_path=migrated,public", autocommit=True
    ) as connection:
        connection.execute("CREATE SCHEMA migrated")
        connection.execute((FIRST / "postgres.sql").read_bytes())
        for step in migrations("postgres"):
            connection.execute(step.script)
    assert catalog_of_schema(postgres_uri, "new") == catalog_of_schema(postgres_uri, "migrated"), (
        ADVICE
    )
    assert len(catalog_of_schema(postgres_uri, "new")) > 100


def test_both_dialects_have_the_same_migrations() -> None:
    steps = [
        [(step.number, step.name) for step in migrations(dialect)]
        for dialect in ("libsql", "postgres")
    ]
    assert steps[0] == steps[1]


# -- databases of builds from before the first release, which had numbered migrations of their own
# ----------------

UNPUBLISHED = (
    "CREATE TABLE schema_migration (number integer PRIMARY KEY, name text NOT NULL);"
    "INSERT INTO schema_migration VALUES (1, 'schema'), (28, 'index_parts');"
    "CREATE TABLE memory (content text NOT NULL);"
    "INSERT INTO memory VALUES ('The spare key is with Grace.');"
)
REFUSED = r"before its first release.*\(kagent-memory export .*\(kagent-memory import "


async def test_a_file_of_an_unpublished_build_is_refused(tmp_path: Path) -> None:
    """A file of an unpublished build is refused and left as it is."""
    place = tmp_path / "memory.db"
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(UNPUBLISHED)
        before = catalog_of_file(connection)
    with pytest.raises(ConfigurationError, match=REFUSED):
        await open_store(f"libsql:///{place}")
    with closing(sqlite3.connect(place)) as connection:
        assert catalog_of_file(connection) == before
        assert connection.execute("SELECT * FROM memory").fetchall() == [
            ("The spare key is with Grace.",)
        ]


async def test_a_schema_of_an_unpublished_build_is_refused(postgres_uri: str) -> None:
    """A schema of an unpublished build is refused and left as it is."""
    with psycopg.connect(
        postgres_uri, options="-csearch_path=unpublished", autocommit=True
    ) as connection:
        connection.execute("CREATE SCHEMA unpublished")
        connection.execute(UNPUBLISHED)
    before = catalog_of_schema(postgres_uri, "unpublished")
    for rls in (False, True):
        with pytest.raises(ConfigurationError, match=REFUSED):
            await open_store(postgres_uri, schema="unpublished", rls=rls)
    assert catalog_of_schema(postgres_uri, "unpublished") == before
    with psycopg.connect(postgres_uri) as connection:
        rows = connection.execute("SELECT * FROM unpublished.memory").fetchall()
    assert rows == [("The spare key is with Grace.",)]


def test_a_database_with_an_empty_table_of_migrations_is_refused() -> None:
    with closing(Connection(":memory:")) as connection:
        migrate(connection)
        connection.run("DELETE FROM schema_migration", {})
        with pytest.raises(ConfigurationError, match=REFUSED):
            migrate(connection)
