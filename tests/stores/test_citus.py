"""Stores on a Citus cluster: the whole contract, and the errors without a cluster.

The tests on a cluster run with KAGENT_MEMORY_TEST_CITUS=postgresql://…, a database of its own on
the coordinator.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import CITUS
from relay import execute

from kagent_memory import Memories
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.stores.postgres import PostgresStore
from kagent_memory.stores.postgres import schema as schemas
from kagent_memory.testing import StoreContract


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_database_without_citus_is_one_error(postgres_uri, words, capsys):
    """Distributing a database without Citus raises one error that says what to do."""
    assert main(["migrate", "--distribute", *words, "--uri", postgres_uri]) == 5
    stderr = capsys.readouterr().err
    assert "CREATE EXTENSION citus" in stderr.replace("\n", " ")
    assert stderr.count("\n") == 1


def test_a_file_is_not_distributed(tmp_path, capsys):
    """Distribution is for PostgreSQL only; a file URI is refused and no file is created."""
    assert (
        main(["migrate", "--distribute", "--dry-run", "--uri", f"libsql:///{tmp_path}/memory.db"])
        == 5
    )
    assert "Citus" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    [("--distribute", "--shards", "0"), ("--distribute", "--shards", "64001"), ("--dry-run",)],
)
def test_options_that_cannot_be_are_told(postgres_uri, words, capsys):
    """Invalid options are refused before a connection is made."""
    try:
        code = main(["migrate", *words, "--uri", postgres_uri])
    except SystemExit as refused:  # argparse ends the program
        code = refused.code
    assert code == 2
    assert "--shards" in capsys.readouterr().err or words == ("--dry-run",)


if CITUS:

    class TestCitus(StoreContract):
        @pytest.fixture(autouse=True)
        def _database(self, citus_uri):
            self.uri = citus_uri

        async def open_store(self):
            return await open_store(self.uri)

    @pytest.fixture
    def schema(citus_uri):
        """A schema that does not exist yet and is not distributed."""
        drop = "DROP SCHEMA IF EXISTS undistributed CASCADE"
        execute(citus_uri, drop)
        yield "undistributed"
        execute(citus_uri, drop)

    async def test_tables_that_come_later_are_distributed_too(citus_uri):
        """The table of a new embedding space is distributed when it is created."""
        async with await open_store(citus_uri) as store:
            await store.memories.spaces.add("late", 8, None)
        found = execute(citus_uri, "SELECT logicalrelid::text FROM pg_dist_partition")
        assert any("memory_vector_" in name for (name,) in found)
        assert await PostgresStore.distribute(citus_uri, dry_run=True) == {}

    async def test_an_empty_database_is_distributed_at_once(citus_uri, schema):
        """A dry run names all tables and creates none; the run creates and distributes them."""
        named = await PostgresStore.distribute(citus_uri, schema=schema, dry_run=True)
        assert named["memory"] == "by scope"
        assert execute(citus_uri, f"SELECT to_regnamespace('{schema}')") == [(None,)]
        assert await PostgresStore.distribute(citus_uri, schema=schema) == named
        count = (
            f"SELECT count(*) FROM pg_dist_shard WHERE logicalrelid = '{schema}.memory'::regclass"
        )
        assert execute(citus_uri, count) == [(4,)]
        assert not await PostgresStore.distribute(citus_uri, schema=schema, dry_run=True)

    @pytest.mark.parametrize("distributed", [False, True])
    async def test_the_doctor_names_nodes_and_local_tables(citus_uri, schema, distributed):
        """The doctor names the nodes of a cluster and the tables that are only on the
        coordinator.
        """
        name = "kagent_memory" if distributed else schema
        async with await Memories.open(citus_uri, worker=False, postgres_schema=name) as memories:
            [cluster] = [finding for finding in await memories.check() if finding.part == "cluster"]
        assert cluster.state == ("ok" if distributed else "note")
        nodes, _, alone = cluster.text.partition(" On the coordinator")
        assert nodes.count(":") == 3
        assert ("memory_revision" in alone) is not distributed

    async def test_a_distribution_that_is_cut_off_goes_on_where_it_stopped(
        citus_uri, schema, monkeypatch
    ):
        """Running a distribution again completes one that lost its connection."""
        scope = Scope("acme", "ada", "notes")
        options: dict[str, Any] = {"worker": False, "postgres_schema": schema}
        async with await Memories.open(citus_uri, **options) as memories:
            await memories.add(scope, ["Ada likes tea", "Ada likes coffee"])
        before = await PostgresStore.distribute(citus_uri, schema=schema, dry_run=True)
        # in its transaction, and between it and what follows
        lost = "; SELECT pg_terminate_backend(pg_backend_pid())"
        for step, left in (("distribute", before), ("drop_local_rows", {})):
            with monkeypatch.context() as patch:
                texts = {**schemas.STATEMENTS, step: schemas.STATEMENTS[step] + lost}
                patch.setattr(schemas, "STATEMENTS", texts)
                with pytest.raises(StoreError):
                    await PostgresStore.distribute(citus_uri, schema=schema)
            assert await PostgresStore.distribute(citus_uri, schema=schema, dry_run=True) == left
        await PostgresStore.distribute(citus_uri, schema=schema)
        async with await Memories.open(citus_uri, **options) as memories:
            assert len(await memories.recall(scope, "what does Ada like?")) == 2

    async def test_row_security_and_distribution_exclude_each_other(citus_uri):
        """Row level security on a cluster raises a ConfigurationError."""
        with pytest.raises(ConfigurationError, match="Citus"):
            await open_store(citus_uri, rls=True)
