"""A database of an unpublished build is refused; one that a later build migrated is served."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from memories.opening import ADA, listed, opened
from relay import execute

from kagent_memory import Message
from kagent_memory.errors import ConfigurationError
from kagent_memory.stores import open_store
from kagent_memory.stores.libsql.connection import connect, migrate
from kagent_memory.stores.sql import migrations


def test_both_dialects_have_the_same_migrations():
    """Both dialects number and name their migrations alike."""
    steps = [[step[:2] for step in migrations(dialect)] for dialect in ("libsql", "postgres")]
    assert steps[0] == steps[1]


TABLES_OF_FILE = "SELECT name, sql FROM sqlite_master"
TABLES_OF_SCHEMA = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'unpublished' ORDER BY tablename"
)
KEPT = "The spare key is with Grace."
UNPUBLISHED = (
    "CREATE TABLE schema_migration (number integer PRIMARY KEY, name text NOT NULL);"
    "INSERT INTO schema_migration VALUES (1, 'schema'), (28, 'index_parts');"
    "CREATE TABLE memory (content text NOT NULL);"
    f"INSERT INTO memory VALUES ('{KEPT}');"
)
REFUSED = r"before its first release.*\(kagent-memory export .*\(kagent-memory import "


async def test_a_file_of_an_unpublished_build_is_refused(tmp_path: Path):
    """A file of an unpublished build is refused and left as it is."""
    place = tmp_path / "memory.db"
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(UNPUBLISHED)
        before = connection.execute(TABLES_OF_FILE).fetchall()
    with pytest.raises(ConfigurationError, match=REFUSED):
        await open_store(f"libsql:///{place}")
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute(TABLES_OF_FILE).fetchall() == before
        assert connection.execute("SELECT * FROM memory").fetchall() == [(KEPT,)]


async def test_a_schema_of_an_unpublished_build_is_refused(postgres_uri: str):
    """A schema of an unpublished build is refused and left as it is."""
    tables = UNPUBLISHED.replace("TABLE ", "TABLE unpublished.").replace(
        "INTO ", "INTO unpublished."
    )
    execute(postgres_uri, "CREATE SCHEMA unpublished", *tables.split(";")[:-1])
    for rls in (False, True):
        with pytest.raises(ConfigurationError, match=REFUSED):
            await open_store(postgres_uri, schema="unpublished", rls=rls)
    assert execute(postgres_uri, "SELECT * FROM unpublished.memory") == [(KEPT,)]
    assert execute(postgres_uri, TABLES_OF_SCHEMA) == [("memory",), ("schema_migration",)]


def test_a_database_with_an_empty_table_of_migrations_is_refused():
    """A ledger without the first release's row is no database of ours."""
    with closing(connect(":memory:")) as connection:
        migrate(connection)
        connection.rows("DELETE FROM schema_migration")
        with pytest.raises(ConfigurationError, match=REFUSED):
            migrate(connection)


async def test_an_old_process_serves_beside_a_new_one(postgres_uri: str):
    """While pods are replaced, one that knows nothing of a later column goes on, and may start."""
    async with await opened(postgres_uri, worker=True) as old:
        [tea] = await old.add(ADA, ["Ada likes tea"])
        for table in ("memory", "scope", "ingest_job", "memory_stats"):
            execute(postgres_uri, f"ALTER TABLE {table} ADD COLUMN later text DEFAULT 'new'")
        [[view]] = execute(postgres_uri, "SELECT pg_get_viewdef('remembered'::regclass)")
        wider = view.replace("FROM", ", 'new' AS later FROM", 1)
        execute(
            postgres_uri,
            f"CREATE OR REPLACE VIEW remembered AS {wider}",
            "INSERT INTO schema_migration VALUES (9000, 'later', now())",
        )
        async with await opened(postgres_uri) as started_late:
            [coffee] = await started_late.add(ADA, ["Ada likes coffee"])
        hits = await old.recall(ADA, "Ada likes")
        assert {hit.memory.id for hit in hits} == {tea, coffee}
        await old.edit(ADA, tea, content="Ada likes green tea")
        assert [revision.kind for revision in await old.history(ADA, tea)] == ["edit"]
        await old.remember(ADA, [Message(text="I like rain.")], "s1")
        await old.drain()
        await old.forget(ADA, coffee)
        assert await listed(old) == {"Ada likes green tea", "I like rain."}
