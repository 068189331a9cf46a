"""Stores on a Citus cluster: what is refused without one, and the whole contract where there is one.

Run it with KAGENT_MEMORY_TEST_CITUS=postgresql://…, a database of its own on the coordinator of a cluster.
"""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from conftest import CITUS

from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError
from kagent_memory.stores import distribute_store, open_store
from kagent_memory.testing import StoreContract


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_database_without_citus_is_one_error_that_says_what_to_do(postgres_uri, words, capsys):
    assert main(["migrate", "--distribute", *words, "--uri", postgres_uri]) == 5
    said = capsys.readouterr().err
    assert "CREATE EXTENSION citus" in said.replace("\n", " ")
    assert said.count("\n") == 1


def test_a_file_is_not_distributed(tmp_path, capsys):
    assert main(["migrate", "--distribute", "--dry-run", "--uri", f"libsql:///{tmp_path}/memory.db"]) == 5
    assert "Citus" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words", [("--distribute", "--shards", "0"), ("--distribute", "--shards", "64001"), ("--dry-run",)]
)
def test_options_that_cannot_be_are_told(postgres_uri, words, capsys):
    assert main(["migrate", *words, "--uri", postgres_uri]) == 2
    assert "--shards" in capsys.readouterr().err or words == ("--dry-run",)


if CITUS:

    class TestCitus(StoreContract):
        @pytest.fixture(autouse=True)
        def _database(self, citus_uri):
            self.uri = citus_uri

        async def open_store(self):
            return await open_store(self.uri)

    def test_tables_that_come_later_are_distributed_too(citus_uri):
        async def make() -> None:
            async with await open_store(citus_uri) as store:
                await store.add_embedding_space("late", 8, None)

        asyncio.run(make())
        with psycopg.connect(citus_uri) as connection:
            found = connection.execute("SELECT logicalrelid::text FROM pg_dist_partition").fetchall()
        assert any("memory_vector_" in name for (name,) in found)
        left = asyncio.run(distribute_store(citus_uri, schema="kagent_memory", shards=8, dry_run=True))
        assert left == {}

    def test_row_security_and_distribution_exclude_each_other(citus_uri):
        async def secure() -> None:
            await open_store(citus_uri, rls=True)

        with pytest.raises(ConfigurationError, match="Citus"):
            asyncio.run(secure())
