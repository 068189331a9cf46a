"""What the PostgreSQL store promises beside the contract."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Change, Memory, Message, Scope, new_id
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.postgres.session import encoded, statement
from kagent_memory.stores.sql import migrations
from kagent_memory.stores.sql.maintenance import SCOPES_OF
from kagent_memory.testing import HashEmbedder


def bound(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encoded(name, value) for name, value in values.items()}


NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPE = Scope("t", "ada", "a")


def _memory(text: str, **values: Any) -> Memory:
    return Memory(id=new_id(), content=text, created_at=NOW, updated_at=NOW, **values)


async def _fill(store: MemoryStore, scope: Scope, rows: np.ndarray, space_number: int) -> list[str]:
    memories = [_memory(f"{scope.user} {number}") for number in range(len(rows))]
    vectors = {memory.id: row for memory, row in zip(memories, rows, strict=True)}
    changes = [Change(kind="add", memory=memory, explicit=True) for memory in memories]
    await store.apply(scope, Batch(changes=changes, vectors=vectors, space_number=space_number), now=NOW)
    return [memory.id for memory in memories]


@pytest.mark.parametrize("dimensions", [8, 1536, 4000])
async def test_the_vector_search_walks_the_scopes_part_of_one_key_and_no_approximate_index(postgres_uri, dimensions):
    scope = Scope("t", "u", "a")
    async with await open_store(postgres_uri) as store:
        space_number = (await store.add_embedding_space("g", dimensions, None)).number
        rows = np.random.default_rng(1).normal(size=(40, dimensions)).astype(np.float32)
        await _fill(store, scope, rows, space_number)
        with psycopg.connect(postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public") as connection:
            register_vector(connection)
            connection.execute(
                f"CREATE INDEX tempting ON memory_vector_{space_number} USING hnsw (embedding halfvec_cosine_ops)"
            )
            connection.execute("VACUUM ANALYZE")
            connection.execute("SET enable_seqscan = off")
            for among in (None, [new_id()]):
                values = {**bound({"scope_id": scope.id, "limit": 5, "among": among}), "vectors": [HalfVector(rows[0])]}
                plan = connection.execute("EXPLAIN " + statement("search_vector", space_number), values).fetchall()
                text = "\n".join(line for (line,) in plan)
                assert f"memory_vector_{space_number}_pkey" in text
                assert "tempting" not in text


async def test_memories_are_read_each_by_its_own_key_by_a_plan_that_is_kept_where_most_scopes_are_small(postgres_uri):
    async def fill(user: str, count: int) -> None:
        memories = (_memory(f"{user} {number}") for number in range(count))
        changes = [Change(kind="add", memory=memory, explicit=True) for memory in memories]
        await store.apply(Scope("t", user, "a"), Batch(changes=changes), now=NOW)

    async with await open_store(postgres_uri) as store:
        await asyncio.gather(fill("much", 300), *(fill(f"little {number}", 1) for number in range(150)))
    with psycopg.connect(postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public") as connection:
        connection.execute("ANALYZE")
        values = bound({"scope_id": Scope("t", "much", "a").id, "now": NOW, "superseded": False})
        values = {**values, "ids": [new_id()], "hashes": [b"x"], "version": 1, "erased": 1, "salt": b"x"}
        for name in ("equal_memories", "stored_memories", "visible_memories", "unchanged_memories"):
            index, key = ("identity", "content_hash") if name == "equal_memories" else ("pkey", "id")
            text, names = statement(name), dict[str, str]()
            for one in re.findall(r"%\((\w+)\)s", text):
                names.setdefault(one, f"${len(names) + 1}")
            plan = connection.execute("EXPLAIN (GENERIC_PLAN) " + text % names).fetchall()
            wanted = rf"using memory_{index} on .*\n.*Index Cond: .*scope_id = \S+\) AND \({key} = wanted\.{key}\)"
            assert re.search(wanted, "\n".join(line for (line,) in plan)), plan
            connection.execute("DEALLOCATE ALL")
            for _ in range(8):
                connection.execute(text, {one: values[one] for one in names}, prepare=True)
            counted = "SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%wanted%'"
            [(kept,)] = connection.execute(counted, prepare=False).fetchall()
            assert kept == 3, name


async def test_who_goes_on_while_another_release_changes_a_view_notices_nothing(postgres_uri):
    memory = _memory("green tea")
    async with await open_store(postgres_uri, pool_size=1) as store:
        for turn in range(2):
            await store.apply(SCOPE, Batch(changes=[Change(kind="add", memory=memory)]), now=NOW)
            assert len((await store.list(SCOPE, now=NOW)).memories) == 1
            with psycopg.connect(postgres_uri, autocommit=True) as connection:
                connection.execute("SET search_path = kagent_memory, public")
                [shown] = connection.execute("SELECT pg_get_viewdef('remembered'::regclass)").fetchone() or ()
                wider = shown.replace("FROM", f", {turn} AS later_{turn} FROM", 1)
                connection.execute(f"CREATE OR REPLACE VIEW remembered AS {wider}".encode())
        assert (await store.get(SCOPE, [memory.id], now=NOW))[memory.id].content == "green tea"
        assert await store.version(SCOPE) == 2


async def test_a_space_wider_than_pgvector_keeps_is_refused_whole_and_says_what_to_do(postgres_uri):
    async with await open_store(postgres_uri) as store:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="set dimensions=16000 or less"):
                await store.add_embedding_space("giant", 16_001, None)
            assert list(await store.embedding_spaces()) == []
    embedder = HashEmbedder(20_000)
    async with await Memories.open(postgres_uri, embedding=embedder, worker=False) as memories:
        with pytest.raises(ConfigurationError, match="up to 16,000 dimensions"):
            await memories.add(Scope("t", "u", "a"), ["Ada likes oolong."])
        assert "16,000" in (await memories.check())["embedding"]


@pytest.mark.parametrize("dimensions", [1536, 3072, 4096])
async def test_memories_of_wide_embedders_are_saved_in_sessions_and_recalled(store_uri, dimensions):
    scope = Scope("t", "u", "a")
    async with await Memories.open(store_uri, embedding=HashEmbedder(dimensions), llm=False) as memories:
        await memories.add(scope, ["The spare key is with Grace."])
        await memories.remember(scope, [Message(text="The gateway restarts nightly.", event_id="e1")], "s")
        assert await memories.drain(60)
        found = await memories.recall(scope, "Where is the spare key?", explain=True)
        assert found.mode == "hybrid"
        assert found.hits[0].memory.content == "The spare key is with Grace."
        assert (await memories.check())["embedding"] == "ok"
        assert not await memories.jobs(state="dead")


async def test_two_that_open_at_once_migrate_once_and_both_work(postgres_uri):
    stores = await asyncio.gather(*(open_store(postgres_uri, schema="fresh") for _ in range(4)))
    with psycopg.connect(postgres_uri) as connection:
        [(rows, numbers)] = connection.execute("SELECT count(*), count(DISTINCT number) FROM fresh.schema_migration")
    assert rows == numbers == len(migrations("postgres"))
    for store in stores:
        assert await store.version(Scope("t", "u", "a")) == 0
        await store.close()


@pytest.mark.parametrize("name", SCOPES_OF.values())
async def test_a_page_of_scopes_enters_an_index_where_it_begins_under_a_plan_that_knows_no_names(postgres_uri, name):
    async with await open_store(postgres_uri) as store:
        await store.apply(SCOPE, Batch(changes=[Change(kind="add", memory=_memory("tea"))]), now=NOW)
    with psycopg.connect(postgres_uri, autocommit=True, options="-csearch_path=kagent_memory,public") as connection:
        connection.execute(
            "INSERT INTO scope (scope_id, tenant, user_id, app, version, salt)"
            " SELECT gen_random_uuid(), 't' || n % 99, 'u' || n, 'a' || n % 9, 1, '' "
            "FROM generate_series(1, 20000) AS n"
        )
        connection.execute("ANALYZE")
        connection.execute("SET plan_cache_mode = force_generic_plan")
        text, kinds = re.subn(r"%\(\w+\)s(::text)?", "{}", statement(name))
        connection.execute(f"PREPARE page AS {text.format(*(f'${number + 1}' for number in range(kinds)))}")
        values = ["'5'"] * kinds
        plan = "\n".join(row for (row,) in connection.execute(f"EXPLAIN EXECUTE page ({', '.join(values)})"))
    assert re.search(r"Index (Only )?Scan using scope_order", plan), plan
    assert "Sort" not in plan
    assert "hashed" not in plan


async def test_a_ledger_of_somebody_else_in_the_schema_of_pgvector_is_not_ours(postgres_uri):
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute("DROP SCHEMA kagent_memory CASCADE")
        connection.execute("CREATE TABLE public.schema_migration (version text)")
    for count in (1, 2):
        async with await open_store(postgres_uri) as store:
            await store.apply(SCOPE, Batch(changes=[Change(kind="add", memory=_memory(f"{count}"))]), now=NOW)
            assert len((await store.list(SCOPE, now=NOW)).memories) == count


async def test_several_that_add_embedders_at_once_agree_on_their_embedding_spaces(postgres_uri):
    stores = [await open_store(postgres_uri) for _ in range(3)]
    names = ["one", "two"] * 3
    made = await asyncio.gather(
        *(stores[place % 3].add_embedding_space(name, 4, None) for place, name in enumerate(names))
    )
    assert {one.number for one in made} == {1, 2}
    assert len({(one.name, one.number) for one in made}) == 2
    for store in stores:
        await store.close()


async def test_a_connection_goes_on_working_after_it_made_a_vector_table(postgres_uri):
    async with await open_store(postgres_uri, pool_size=1) as store:
        for name in ("one", "two", "three"):
            await store.add_embedding_space(name, 4, None)
            assert [await store.embedding_spaces() for _ in range(3)][-1][-1].name == name


async def test_who_counts_while_a_memory_is_forgotten_leaves_no_counters_of_it(postgres_uri):
    scope = Scope("t", "u", "a")
    async with await open_store(postgres_uri) as store, await psycopg.AsyncConnection.connect(postgres_uri) as counting:
        memories = [_memory(f"m {number}") for number in range(3)]
        await store.apply(scope, Batch(changes=[Change(kind="add", memory=one) for one in memories]), now=NOW)
        ids = [memory.id for memory in memories]
        await counting.execute("SET search_path = kagent_memory, public")
        counted = {"scope_id": scope.id, "ids": ids, "retrieved": [1] * 3, "delivered": [1] * 3, "now": NOW}
        await counting.execute(statement("count_usage"), bound(counted))
        forgetting = asyncio.create_task(store.forget(scope, ids=ids, now=NOW))
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        async with await psycopg.AsyncConnection.connect(postgres_uri, autocommit=True) as looking:
            while not forgetting.done() and await (await looking.execute(waiting)).fetchone() is None:
                await asyncio.wait([forgetting], timeout=0.01)
        await counting.commit()
        assert sorted(await forgetting) == sorted(ids)
        assert not await store.orphans(scope)


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (lambda uri: uri.replace("kagent_memory_test", "nowhere"), ConfigurationError, "create that database"),
        (lambda uri: uri.replace("postgres:@", "nobody:@"), ConfigurationError, "check the user"),
        (lambda uri: uri + "&nonsense=1", ConfigurationError, "Invalid PostgreSQL URI"),
        (lambda uri: "postgresql://postgres@127.0.0.1:9/x", StoreError, "memory unavailable"),
        (lambda uri: "pgserver:///", ConfigurationError, "Write pgserver:///relative/dir"),
    ],
)
async def test_each_way_not_to_get_in_is_one_error_that_says_what_to_do(postgres_uri, change, kind, says):
    with pytest.raises(kind, match=says):
        await open_store(change(postgres_uri))


async def test_a_user_without_rights_is_told_about_the_extension_or_the_right(postgres_server, postgres_uri):
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


async def test_writes_that_are_cancelled_at_any_moment_never_hang_the_store(postgres_uri):
    store, scope = await open_store(postgres_uri, pool_size=3), Scope("", "hasty", "desk")
    ids = [new_id() for _ in range(20)]
    memories = [Memory(id=id, content=f"note {id}", created_at=NOW, updated_at=NOW) for id in ids]
    await store.apply(scope, Batch(changes=[Change(kind="add", memory=memory) for memory in memories]), now=NOW)
    for step in range(60):
        task = asyncio.ensure_future(store.deliver(scope, retrieved=ids, delivered=ids, now=NOW))
        await asyncio.sleep(step / 20_000)
        task.cancel()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 60)
    assert await asyncio.wait_for(store.version(scope), 60) == 1
    await asyncio.wait_for(store.close(), 60)
