"""What the PostgreSQL store promises beside the contract."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Scope, new_id
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.postgres.session import encoded, statement
from kagent_memory.stores.sql.scope_lists import SCOPES_OF
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_memory, adding


def bound(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encoded(name, value) for name, value in values.items()}


SCOPE = Scope("t", "ada", "a")


async def _fill(store: MemoryStore, scope: Scope, rows: np.ndarray, space_number: int) -> list[str]:
    memories = [a_memory(f"{scope.user} {number}") for number in range(len(rows))]
    vectors = {memory.id: row for memory, row in zip(memories, rows, strict=True)}
    changes = adding(*memories, explicit=True)
    await store.apply(
        scope, Batch(changes=changes, vectors=vectors, space_number=space_number), now=NOW
    )
    return [memory.id for memory in memories]


@pytest.mark.parametrize("dimensions", [8, 1536, 4000])
async def test_the_vector_search_is_exact_within_the_scope(postgres_uri, dimensions):
    """The vector search walks the scopes part of one key and no approximate index."""
    scope = Scope("t", "u", "a")
    async with await open_store(postgres_uri) as store:
        space_number = (await store.memories.spaces.add("g", dimensions, None)).number
        rows = np.random.default_rng(1).normal(size=(40, dimensions)).astype(np.float32)
        await _fill(store, scope, rows, space_number)
        with psycopg.connect(
            postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public"
        ) as connection:
            register_vector(connection)
            connection.execute(
                f"CREATE INDEX tempting ON memory_vector_{space_number} USING hnsw (embedding "
                "halfvec_cosine_ops)"
            )
            connection.execute("VACUUM ANALYZE")
            connection.execute("SET enable_seqscan = off")
            some = [new_id()]
            values = {
                **bound({"scope_id": scope.id, "limit": 5, "among": some, "hidden": some}),
                "vectors": [HalfVector(rows[0])],
            }
            for name in ("search_vector", "search_vector_among"):
                plan = connection.execute(
                    "EXPLAIN " + statement(name, space_number), values
                ).fetchall()
                text = "\n".join(line for (line,) in plan)
                assert f"memory_vector_{space_number}_pkey" in text
                assert "tempting" not in text


async def test_memories_are_read_by_their_keys_under_a_generic_plan(postgres_uri):
    """Memories are read each by its own key by a plan that is kept where most scopes are small."""

    async def fill(user: str, count: int) -> None:
        memories = (a_memory(f"{user} {number}") for number in range(count))
        changes = adding(*memories, explicit=True)
        await store.apply(Scope("t", user, "a"), Batch(changes=changes), now=NOW)

    async with await open_store(postgres_uri) as store:
        await asyncio.gather(
            fill("much", 300), *(fill(f"little {number}", 1) for number in range(150))
        )
    with psycopg.connect(
        postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public"
    ) as connection:
        connection.execute("ANALYZE")
        values = bound({"scope_id": Scope("t", "much", "a").id, "now": NOW, "superseded": False})
        values = {
            **values,
            "ids": [new_id()],
            "hashes": [b"x"],
            "version": 1,
            "erased": 1,
            "mark": None,
            "salt": b"x",
        }
        own = "pkey", "id"
        for name, keys in {
            "met_memories": (own, ("identity", "content_hash")),
            **dict.fromkeys(("stored_memories", "visible_memories", "unchanged_memories"), (own,)),
        }.items():
            text, names = statement(name), dict[str, str]()
            for one in re.findall(r"%\((\w+)\)s", text):
                names.setdefault(one, f"${len(names) + 1}")
            plan = connection.execute("EXPLAIN (GENERIC_PLAN) " + text % names).fetchall()
            for index, key in keys:
                wanted = (
                    rf"using memory_{index} on .*\n"
                    rf".*Index Cond: .*scope_id = \S+\) AND \({key} = wanted(_1)?\.{key}\)"
                )
                assert re.search(wanted, "\n".join(line for (line,) in plan)), plan
            connection.execute("DEALLOCATE ALL")
            for _ in range(8):
                connection.execute(text, {one: values[one] for one in names}, prepare=True)
            counted = (
                "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%wanted%'"
            )
            [(kept,)] = connection.execute(counted, prepare=False).fetchall()
            assert kept == 3, name


async def test_a_view_changed_by_another_release_is_no_trouble(postgres_uri):
    """Who goes on while another release changes a view notices nothing."""
    memory = a_memory("green tea")
    async with await open_store(postgres_uri, pool_size=1) as store:
        for turn in range(2):
            await store.apply(SCOPE, Batch(changes=adding(memory)), now=NOW)
            assert len((await store.memories.list(SCOPE, now=NOW)).memories) == 1
            with psycopg.connect(postgres_uri, autocommit=True) as connection:
                connection.execute("SET search_path = kagent_memory, public")
                [shown] = (
                    connection.execute("SELECT pg_get_viewdef('remembered'::regclass)").fetchone()
                    or ()
                )
                wider = shown.replace("FROM", f", {turn} AS later_{turn} FROM", 1)
                connection.execute(f"CREATE OR REPLACE VIEW remembered AS {wider}".encode())
        assert (await store.memories.get(SCOPE, [memory.id], now=NOW))[
            memory.id
        ].content == "green tea"
        assert await store.memories.version(SCOPE) == 2


async def test_a_space_wider_than_pgvector_keeps_is_refused(postgres_uri):
    """A space wider than pgvector keeps is refused whole and says what to do."""
    async with await open_store(postgres_uri) as store:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="set dimensions=16000 or less"):
                await store.memories.spaces.add("giant", 16_001, None)
            assert list(await store.memories.spaces.all()) == []
    embedder = HashEmbedder(20_000)
    async with await Memories.open(postgres_uri, embedding=embedder, worker=False) as memories:
        with pytest.raises(ConfigurationError, match="up to 16,000 dimensions"):
            await memories.add(Scope("t", "u", "a"), ["Ada likes oolong."])
        assert "16,000" in (await memories.check())["embedding"]


@pytest.mark.parametrize("name", SCOPES_OF.values())
async def test_a_page_of_scopes_is_read_from_an_index(postgres_uri, name):
    """A page of scopes enters an index where it begins under a plan that knows no names."""
    async with await open_store(postgres_uri) as store:
        await store.apply(SCOPE, Batch(changes=adding(a_memory("tea"))), now=NOW)
    with psycopg.connect(
        postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public"
    ) as connection:
        connection.execute(
            "INSERT INTO scope (scope_id, tenant, user_id, app, version, salt)"
            " SELECT gen_random_uuid(), 't' || n % 99, 'u' || n, 'a' || n % 9, 1, '' "
            "FROM generate_series(1, 20000) AS n"
        )
        connection.execute("ANALYZE")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        text, kinds = re.subn(r"%\(\w+\)s(::text)?", "{}", statement(name))
        connection.execute(
            f"PREPARE page AS {text.format(*(f'${number + 1}' for number in range(kinds)))}"
        )
        values = ["'5'"] * kinds
        plan = "\n".join(
            row for (row,) in connection.execute(f"EXPLAIN EXECUTE page ({', '.join(values)})")
        )
    assert re.search(r"Index (Only )?Scan using scope_order", plan), plan
    assert "Sort" not in plan
    assert "hashed" not in plan


async def test_a_migration_table_of_somebody_else_is_not_ours(postgres_uri):
    """A ledger of somebody else in the schema of pgvector is not ours."""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("DROP SCHEMA kagent_memory CASCADE")
        connection.execute("CREATE TABLE public.schema_migration (version text)")
    for count in (1, 2):
        async with await open_store(postgres_uri) as store:
            await store.apply(SCOPE, Batch(changes=adding(a_memory(f"{count}"))), now=NOW)
            assert len((await store.memories.list(SCOPE, now=NOW)).memories) == count


async def test_several_stores_agree_on_new_embedding_spaces(postgres_uri):
    """Several that add embedders at once agree on their embedding spaces."""
    stores = [await open_store(postgres_uri) for _ in range(3)]
    names = ["one", "two"] * 3
    made = await asyncio.gather(
        *(stores[place % 3].memories.spaces.add(name, 4, None) for place, name in enumerate(names))
    )
    assert {one.number for one in made} == {1, 2}
    assert len({(one.name, one.number) for one in made}) == 2
    for store in stores:
        await store.close()


async def test_counting_beside_forgetting_leaves_no_counters(postgres_uri):
    """Who counts while a memory is forgotten leaves no counters of it."""
    scope = Scope("t", "u", "a")
    async with (
        await open_store(postgres_uri) as store,
        await psycopg.AsyncConnection.connect(postgres_uri) as counting,
    ):
        memories = [a_memory(f"m {number}") for number in range(3)]
        await store.apply(scope, Batch(changes=adding(*memories)), now=NOW)
        ids = [memory.id for memory in memories]
        await counting.execute("SET search_path = kagent_memory, public")
        counted = {
            "scope_id": scope.id,
            "ids": ids,
            "retrieved": [1] * 3,
            "delivered": [1] * 3,
            "successes": [0] * 3,
            "failures": [0] * 3,
            "now": NOW,
        }
        await counting.execute(statement("count_usage"), bound(counted))
        forgetting = asyncio.create_task(store.forget(scope, ids=ids, now=NOW))
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND "
            "wait_event_type = 'Lock'"
        )
        async with await psycopg.AsyncConnection.connect(postgres_uri, autocommit=True) as looking:
            while (
                not forgetting.done() and await (await looking.execute(waiting)).fetchone() is None
            ):
                await asyncio.wait([forgetting], timeout=0.01)
        await counting.commit()
        assert sorted(await forgetting) == sorted(ids)
        assert not await store.memories.orphans(scope)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (
            lambda uri: uri.replace("kagent_memory_test", "nowhere"),
            ConfigurationError,
            "create that database",
        ),
        (lambda uri: uri.replace("postgres:@", "nobody:@"), ConfigurationError, "check the user"),
        (lambda uri: uri + "&nonsense=1", ConfigurationError, "Invalid PostgreSQL URI"),
        (lambda uri: "postgresql://postgres@127.0.0.1:9/x", StoreError, "memory unavailable"),
        (lambda uri: "pgserver:///", ConfigurationError, "Write pgserver:///relative/dir"),
    ],
)
async def test_each_failed_connection_says_what_to_do(postgres_uri, change, kind, says):
    """Each way not to get in is one error that says what to do."""
    with pytest.raises(kind, match=says):
        await open_store(change(postgres_uri))


async def test_a_user_without_rights_is_told_which(postgres_server, postgres_uri):
    """A user without rights is told about the extension or the right."""
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest LOGIN")
        try:
            with pytest.raises(ConfigurationError, match="lacks a privilege"):
                await open_store(postgres_uri.replace("postgres:@", "guest:@"), schema="other")
            connection.execute("DROP SCHEMA kagent_memory CASCADE")
            connection.execute("DROP EXTENSION vector")
            with pytest.raises(ConfigurationError, match="CREATE EXTENSION vector"):
                await open_store(postgres_uri.replace("postgres:@", "guest:@"))
        finally:
            connection.execute("DROP ROLE guest")
