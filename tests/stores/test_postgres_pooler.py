"""Behind a pooler that gives every transaction another server: the contract, and nobody is served
another's.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from queue_contract import QueueContract
from relay import at, execute

from kagent_memory.records import Scope
from kagent_memory.stores import open_store
from kagent_memory.stores.sql import migrations
from kagent_memory.stores.values import Batch
from kagent_memory.testing.contract import (
    ApplyContract,
    ConcurrencyContract,
)
from kagent_memory.testing.fixtures import NOW, a_job, a_memory, adding, vector

SERVERS = 4  # of the pooler, for each database


class BehindAPooler:
    @pytest.fixture(autouse=True)
    def _database(self, postgres_uri, pooler_port):
        self.uri = at(postgres_uri, pooler_port)

    async def open_store(self):
        return await open_store(self.uri)


class TestBehindAPooler(
    BehindAPooler,
    ApplyContract,
    ConcurrencyContract,
    QueueContract,
):
    """What another server for each transaction could change; test_contract.py runs the whole,
    slowly.
    """


async def busy_life(uri: str, schema: str) -> None:
    """Write to and read from a store of one's own; whatever comes back must bear its mark."""
    # the same in every store: only the schema tells them apart
    scope = Scope("t", "the same user", "app")
    async with await open_store(uri, schema=schema, pool_size=6) as store:
        space = (await store.memories.spaces.add("g", 4, None)).number
        for turn in range(25):
            memory = a_memory(f"zebra {turn} {schema}")
            row = vector(1, turn, 1, 1)
            values: Any = {"vectors": {memory.id: row}, "space_number": space}
            await store.apply(
                scope, Batch(changes=adding(memory, explicit=True), **values), now=NOW
            )
            await store.queue.enqueue([a_job(scope, "embed", key=schema)])
            listed = (await store.memories.list(scope, limit=1000, now=NOW)).memories
            assert {memory.content for memory in listed} == {
                f"zebra {n} {schema}" for n in range(turn + 1)
            }
            [ranking] = await (await store.memories.view(scope, now=NOW)).nearest(
                space, [row], limit=1000
            )
            assert {memory.id for memory in listed} == {id for id, _ in ranking}
            assert {job.key for job in await store.queue.jobs()} == {schema}


async def state_of_servers(uri: str) -> dict[int, Any]:
    """Return what is left in each of the pooler's servers, by process: transactions held at the
    same time are on different ones.
    """
    states: dict[int, Any] = {}
    async with AsyncExitStack() as stack:
        for _ in range(SERVERS):
            opening = psycopg.AsyncConnection.connect(uri, prepare_threshold=None)
            connection = await stack.enter_async_context(await opening)
            cursor = await connection.execute(
                "SELECT pg_backend_pid(), current_setting('search_path'), current_setting('jit'), "
                "current_setting('statement_timeout'), count(*) FROM pg_prepared_statements"
            )
            [[pid, *state]] = await cursor.fetchall()
            states[pid] = state
    return states


async def test_two_schemas_behind_a_pooler_never_see_each_other(pooled_uri):
    """Stores of several schemas under a mixed load never see each other and leave nothing
    behind.
    """
    plain, *_ = (await state_of_servers(pooled_uri)).values()
    await asyncio.gather(
        *(busy_life(pooled_uri, schema) for schema in ("kagent_memory", "other", "Odd Name"))
    )
    assert plain[-1] == 0
    assert [*(await state_of_servers(pooled_uri)).values()] == [plain] * SERVERS


async def test_several_that_open_at_once_migrate_a_schema_once(direct_or_pooled_uri):
    """Several that open a new schema, straight or through the pooler, migrate it once."""
    uri = direct_or_pooled_uri
    stores = await asyncio.gather(*(open_store(uri, schema="fresh") for _ in range(5)))
    with psycopg.connect(uri, prepare_threshold=None) as connection:
        [(rows, numbers)] = connection.execute(
            "SELECT count(*), count(DISTINCT number) FROM fresh.schema_migration"
        )
    assert rows == numbers == len(migrations("postgres"))
    for store in stores:
        assert await store.memories.version(Scope("t", "u", "a")) == 0
        await store.close()


async def test_times_come_back_in_utc_whatever_the_servers_zone_is(pooled_uri, postgres_uri):
    """Times are in UTC where no session can set its zone."""
    name = conninfo_to_dict(postgres_uri)["dbname"]
    execute(
        postgres_uri,
        f"ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )
    scope, moment = Scope("t", "u", "a"), datetime(2026, 3, 1, 23, 30, 0, 123456, tzinfo=UTC)
    async with await open_store(pooled_uri) as store:
        memory = a_memory("late", happened_at=moment)
        await store.apply(scope, Batch(changes=adding(memory)), now=moment)
        stored = (await store.memories.get(scope, [memory.id], now=moment))[memory.id].happened_at
    assert stored is not None
    assert (stored, stored.utcoffset()) == (moment, timedelta(0))
