"""Stores on a Citus cluster: what is refused without one, and the whole contract where there is
one.

Run it with KAGENT_MEMORY_TEST_CITUS=postgresql://…, a database of its own on the coordinator of a
cluster."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from conftest import CITUS

from kagent_memory import Memories, doctor
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Scope
from kagent_memory.stores import distribute_store, open_store
from kagent_memory.stores.postgres import schema as schemas
from kagent_memory.testing import StoreContract


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_database_without_citus_is_one_error(postgres_uri, words, capsys):
    """A database without citus is one error that says what to do."""
    assert main(["migrate", "--distribute", *words, "--uri", postgres_uri]) == 5
    said = capsys.readouterr().err
    assert "CREATE EXTENSION citus" in said.replace("\n", " ")
    assert said.count("\n") == 1


def test_a_file_is_not_distributed(tmp_path, capsys):
    """Only PostgreSQL is distributed, and no file is made."""
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
    """What no database takes is refused before one is asked."""
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

    def test_tables_that_come_later_are_distributed_too(citus_uri):
        """A new embedding space's table is spread as it is made."""

        async def make() -> None:
            async with await open_store(citus_uri) as store:
                await store.memories.spaces.add("late", 8, None)

        asyncio.run(make())
        with psycopg.connect(citus_uri) as connection:
            found = connection.execute(
                "SELECT logicalrelid::text FROM pg_dist_partition"
            ).fetchall()
        assert any("memory_vector_" in name for (name,) in found)
        left = asyncio.run(
            distribute_store(citus_uri, schema="kagent_memory", shards=8, dry_run=True)
        )
        assert left == {}

    def test_an_empty_database_is_distributed_at_once(citus_uri):
        """A dry run names all tables before there are any; the run makes and spreads them."""
        with psycopg.connect(citus_uri, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS empty CASCADE")
            try:
                named = asyncio.run(
                    distribute_store(citus_uri, schema="empty", shards=4, dry_run=True)
                )
                assert named["memory"] == "by scope"
                assert (
                    asyncio.run(
                        distribute_store(citus_uri, schema="empty", shards=4, dry_run=False)
                    )
                    == named
                )
                assert not asyncio.run(
                    distribute_store(citus_uri, schema="empty", shards=4, dry_run=True)
                )
            finally:
                connection.execute("DROP SCHEMA IF EXISTS empty CASCADE")

    @pytest.mark.parametrize("distributed", [False, True])
    async def test_the_doctor_names_nodes_and_local_tables(citus_uri, distributed):
        """The doctor names the nodes of a cluster, and the tables that are on the coordinator."""
        schema = "kagent_memory" if distributed else "told"
        try:
            async with await Memories.open(
                citus_uri, worker=False, postgres_schema=schema
            ) as memories:
                answers = await memories.check()
            findings = {one.part: one for one in doctor.of_server("The server", answers)}
            assert findings["cluster"].state == ("ok" if distributed else "note")
            assert answers["nodes"].count(":") == 3
            assert ("memory_revision" in findings["cluster"].text) is not distributed
        finally:
            with psycopg.connect(citus_uri, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS told CASCADE")

    async def test_a_node_that_is_down_is_an_error_and_heals(citus_uri):
        """A dead node fails its own scopes alone, until it is back."""
        scopes = [Scope("acme", f"user {number}", "notes") for number in range(12)]
        async with await Memories.open(citus_uri, worker=False) as memories:
            for scope in scopes:
                await memories.add(scope, [f"{scope.user} likes tea"])
            with psycopg.connect(citus_uri, autocommit=True) as connection:
                [(node, host, port)] = connection.execute(
                    "SELECT nodeid, nodename, nodeport FROM pg_dist_node WHERE noderole = "
                    "'primary' AND groupid > 0"
                    " ORDER BY nodeid LIMIT 1"
                ).fetchall()
                # where nothing listens
                connection.execute("SELECT citus_update_node(%s, %s, 9)", (node, host))
                try:
                    outcomes = [await outcome(memories, scope) for scope in scopes]
                finally:
                    connection.execute("SELECT citus_update_node(%s, %s, %s)", (node, host, port))
                    connection.execute("SELECT start_metadata_sync_to_all_nodes()")
            assert set(outcomes) == {1, StoreError}  # those of the other node go on
            assert [await outcome(memories, scope) for scope in scopes] == [1] * len(scopes)
            for scope in scopes:
                await memories.add(scope, ["coffee, too"])
                assert len((await memories.list(scope)).memories) == 2

    async def outcome(memories: Memories, scope: Scope) -> int | type[StoreError]:
        try:
            return len((await memories.list(scope)).memories)
        except StoreError:
            return StoreError

    async def test_a_distribution_that_is_cut_off_goes_on_where_it_stopped(citus_uri, monkeypatch):
        """A distribution that lost its connection is finished by the next."""
        schema, scope = "cut_off", Scope("acme", "ada", "notes")
        with psycopg.connect(citus_uri, autocommit=True) as connection:
            connection.execute("DROP SCHEMA IF EXISTS cut_off CASCADE")
            try:
                async with await Memories.open(
                    citus_uri, worker=False, postgres_schema=schema
                ) as memories:
                    await memories.add(scope, ["Ada likes tea", "Ada likes coffee"])
                before = await distribute_store(citus_uri, schema=schema, shards=4, dry_run=True)
                # in its transaction, and between it and what follows
                for cut in ("_distribute", "_drop_local_rows"):
                    with monkeypatch.context() as patch:
                        patch.setattr(schemas, cut, cut_off(cut))
                        with pytest.raises(StoreError):
                            await distribute_store(
                                citus_uri, schema=schema, shards=4, dry_run=False
                            )
                    left = await distribute_store(citus_uri, schema=schema, shards=4, dry_run=True)
                    assert left == (before if cut == "_distribute" else {})
                    async with await Memories.open(
                        citus_uri, worker=False, postgres_schema=schema
                    ) as memories:
                        assert len((await memories.list(scope)).memories) == 2
                await distribute_store(citus_uri, schema=schema, shards=4, dry_run=False)
                async with await Memories.open(
                    citus_uri, worker=False, postgres_schema=schema
                ) as memories:
                    assert len(await memories.recall(scope, "what does Ada like?")) == 2
            finally:
                connection.execute("DROP SCHEMA IF EXISTS cut_off CASCADE")

    def cut_off(step):
        """Does the step, and loses the connection before its transaction ends."""
        whole = getattr(schemas, step)

        async def cut(connection, *arguments, **options):
            await whole(connection, *arguments, **options)
            with psycopg.connect(CITUS, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(%s::int)", (connection.info.backend_pid,)
                )
            await connection.execute("SELECT 1")

        return cut

    def test_row_security_and_distribution_exclude_each_other(citus_uri):
        """Row security on a cluster is a configuration error."""

        async def secure() -> None:
            await open_store(citus_uri, rls=True)

        with pytest.raises(ConfigurationError, match="Citus"):
            asyncio.run(secure())
