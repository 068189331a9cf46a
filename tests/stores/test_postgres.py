"""Promises of the PostgreSQL store beside the contract."""

from __future__ import annotations

import asyncio
import re
import tracemalloc
from typing import Any

import psycopg
import pytest
from memories.opening import ADA, opened
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from relay import execute

from kagent_memory.concurrency import LONG, run_in_thread, turn
from kagent_memory.errors import ConfigurationError
from kagent_memory.records import Scope, new_id
from kagent_memory.stores import open_store
from kagent_memory.stores.planning import prepared
from kagent_memory.stores.postgres.connection import PostgresSession, Target, Traits
from kagent_memory.stores.sql import queries, statement
from kagent_memory.stores.values import USES, Batch, Erasure
from kagent_memory.testing import HashEmbedder
from kagent_memory.testing.fixtures import NOW, a_memory, adding


def generic_plan(uri: str, name: str) -> str:
    """Return the plan of a named statement for whatever values."""
    text, names = statement("postgres", name)[0], dict[str, str]()
    for one in re.findall(r"%\((\w+)\)s", text):
        names.setdefault(one, f"${len(names) + 1}")
    execute(uri, "ANALYZE")
    return "\n".join(line for (line,) in execute(uri, f"EXPLAIN (GENERIC_PLAN) {text % names}"))


@pytest.mark.parametrize("dimensions", [8, 4000])
async def test_the_vector_search_is_exact_within_the_scope(postgres_uri, dimensions):
    """The vector search walks the scope's part of one key and no approximate index."""
    async with await open_store(postgres_uri) as store:
        number = (await store.memories.spaces.add("g", dimensions, None)).number
    tempting = f"memory_vector_{number} USING hnsw (embedding halfvec_cosine_ops)"
    execute(postgres_uri, f"CREATE INDEX tempting ON {tempting}")
    options = "-csearch_path=kagent_memory,public -cenable_seqscan=off"
    with psycopg.connect(postgres_uri, options=options) as connection:
        register_vector(connection)
        values: dict[str, Any] = {"scope_id": ADA.id.hex(), "limit": 5}
        values["hidden"] = [new_id() for _ in range(5000)]
        values["vectors"] = [HalfVector([1.0] * dimensions)]
        text = statement("postgres", "search_vector", number)[0]
        plan = str(connection.execute(f"EXPLAIN {text}", values).fetchall())
        assert f"memory_vector_{number}_pkey" in plan
        assert "hashed SubPlan" in plan
        assert "tempting" not in plan


async def test_memories_are_read_by_their_keys_under_a_generic_plan(postgres_uri):
    """Memories are read each by its own key, also by a plan that knows no values."""

    async def fill(user: str, count: int) -> None:
        changes = adding(*(a_memory(f"{user} {number}") for number in range(count)), explicit=True)
        await store.apply(Scope("t", user, "a"), Batch(changes=changes), now=NOW)

    async with await open_store(postgres_uri) as store:
        await asyncio.gather(fill("much", 300), *(fill(f"little {n}", 1) for n in range(150)))
    own, hashed = ("pkey", "id"), ("identity", "content_hash")
    for name in ("met_memories", "stored_memories", "visible_memories", "unchanged_memories"):
        plan = generic_plan(postgres_uri, name)
        for index, key in (own, hashed) if name == "met_memories" else (own,):
            wanted = (
                rf"using memory_{index} on .*\n"
                rf".*Index Cond: .*scope_id = \S+\) AND \({key} = wanted(_1)?\.{key}\)"
            )
            assert re.search(wanted, plan), plan


async def test_large_memories_are_sent_a_few_at_a_time(postgres_uri):
    """A batch of large memories takes little more memory to write than one of them."""
    memories = [a_memory(f"{number}{'x' * 2**20}") for number in range(20)]
    batch = prepared(Batch(changes=adding(*memories)), None)
    async with await open_store(postgres_uri) as store:
        tracemalloc.start()
        await store.apply(ADA, batch, now=NOW)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 10 * 2**20


async def test_a_transaction_waits_for_no_turn(postgres_uri):
    """While it works in a thread, others wait for its connection and for what it locks."""

    async def work(_):
        return await run_in_thread(LONG, int)

    async with await open_store(postgres_uri) as store:
        database: Any = store.memories.database  # type: ignore[attr-defined]
        turn.set(asyncio.Semaphore(1))
        async with turn.get(), asyncio.timeout(5):
            assert await database.run(work, None, write=True) == 0


async def test_a_space_wider_than_pgvector_keeps_is_refused(postgres_uri):
    """A space wider than pgvector keeps is refused whole and says what to do."""
    async with await opened(postgres_uri, embedding=HashEmbedder(16_001)) as memories:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="set dimensions=16000 or less"):
                await memories.add(ADA, ["Ada likes oolong."])
            assert list(await memories.store.memories.spaces.all()) == []
        assert "16,000" in str(await memories.check())


async def test_a_page_of_scopes_is_read_from_an_index(postgres_uri):
    """A page of scopes enters an index where it begins under a plan that knows no names."""
    async with await open_store(postgres_uri) as store:
        await store.apply(ADA, Batch(changes=adding(a_memory("tea"))), now=NOW)
    execute(
        postgres_uri,
        "INSERT INTO scope (scope_id, tenant, user_id, app, version, salt)"
        " SELECT gen_random_uuid(), 't' || n % 99, 'u' || n, 'a' || n % 9, 1, '' "
        "FROM generate_series(1, 20000) AS n",
    )
    for name in queries("postgres"):
        if name.startswith("scopes"):
            plan = generic_plan(postgres_uri, name)
            assert re.search(r"Index (Only )?Scan (using|on) scope_order", plan), plan
            # those of a user are few
            assert name == "scopes_tenant_user" or not re.search("Sort|hashed", plan), plan


async def test_neither_passwords_nor_memories_stand_in_a_repr():
    """The repr of a session, as in logs and debuggers, holds no password and nothing of a
    memory.
    """
    target = Target(conninfo="postgresql://ada:pass77@db", schema="s", statement_seconds=1.0)
    connection: Any = None
    traits = Traits(
        target=target,
        pooled=False,
        lent=False,
        row_security=False,
        path=None,
        halfvec=None,
        halfvec_array=0,
    )
    session = PostgresSession(connection, traits, None, None, False)
    await session.send([("tokens", {"digest": "pass77"})])
    assert "pass77" not in f"{target!r} {traits!r} {session!r}"


async def test_a_migration_table_of_somebody_else_is_not_ours(postgres_uri):
    """A ledger of somebody else in the schema of pgvector is not ours."""
    execute(
        postgres_uri,
        "DROP SCHEMA kagent_memory CASCADE",
        "CREATE TABLE public.schema_migration (version text)",
    )
    for count in (1, 2):
        async with await open_store(postgres_uri) as store:
            await store.apply(ADA, Batch(changes=adding(a_memory(f"{count}"))), now=NOW)
            assert len((await store.memories.list(ADA, now=NOW)).memories) == count


async def test_counting_and_dropping_do_not_stop_forgetting(postgres_uri):
    """Counting while a memory is forgotten leaves no counters of it, and an embedding space that is
    dropped meanwhile is left out.
    """
    async with (
        await open_store(postgres_uri) as store,
        await psycopg.AsyncConnection.connect(postgres_uri) as counting,
    ):
        memories = [a_memory(f"m {number}") for number in range(3)]
        await store.apply(ADA, Batch(changes=adding(*memories)), now=NOW)
        await store.memories.spaces.add("dropped", 8, None)
        ids = [memory.id for memory in memories]
        await counting.execute("SET search_path = kagent_memory, public")
        counts: dict[str, Any] = dict.fromkeys(USES, [1] * 3)
        await counting.execute(
            statement("postgres", "count_usage")[0],
            {"scope_id": ADA.id.hex(), "ids": ids, "now": NOW, **counts},
        )
        await counting.execute("UPDATE embedder SET state = 'dropped'")
        await counting.execute("DROP TABLE memory_vector_1")
        forgetting = asyncio.create_task(store.forget(ADA, Erasure(ids=ids, now=NOW)))
        while not forgetting.done() and not execute(  # noqa: ASYNC110
            postgres_uri,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND "
            "wait_event_type = 'Lock'",
        ):
            await asyncio.sleep(0.01)
        await counting.commit()
        assert sorted(await forgetting) == sorted(ids)
        assert not execute(postgres_uri, "SELECT 1 FROM kagent_memory.memory_stats")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda uri: uri.replace("kagent_memory_test", "nowhere"), "database in the URI"),
        (lambda uri: uri.replace("postgres:@", "nobody:@"), "check host, user"),
        (lambda uri: uri + "&nonsense=1", "Invalid PostgreSQL URI"),
        (lambda uri: "pgserver:///", "Write pgserver:///relative/dir"),
    ],
)
async def test_each_failed_connection_says_what_to_do(postgres_uri, change, says):
    """Each way not to get in is one error that says what to do."""
    with pytest.raises(ConfigurationError, match=says):
        await open_store(change(postgres_uri))


async def test_a_user_without_rights_is_told_which(postgres_uri):
    """A user without rights is told about the extension or the right."""
    guest = postgres_uri.replace("postgres:@", "guest:@")
    execute(postgres_uri, "CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(ConfigurationError, match="lacks a privilege"):
            await open_store(guest, schema="other")
        execute(postgres_uri, "DROP SCHEMA kagent_memory CASCADE", "DROP EXTENSION vector")
        with pytest.raises(ConfigurationError, match="CREATE EXTENSION vector"):
            await open_store(guest)
    finally:
        execute(postgres_uri, "DROP ROLE guest")
