"""Behind a pooler that gives every transaction another server: the contract, and nobody is served
another's.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from queue_contract import QueueContract
from relay import at, pgbouncer

from kagent_memory.errors import KagentMemoryError, StoreError
from kagent_memory.records import Scope, new_id
from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.sql import migrations
from kagent_memory.testing.contract import (
    ApplyContract,
    ConcurrencyContract,
    IsolationContract,
    RoundTripContract,
)
from kagent_memory.testing.fixtures import NOW, a_job, a_memory, adding

SERVERS = 4  # of the pooler, for each database


class BehindAPooler:
    @pytest.fixture(autouse=True)
    def _database(self, emptied_uri, pooler_port):
        self.uri = at(emptied_uri, pooler_port)

    async def open_store(self):
        return await open_store(self.uri)


class TestBehindAPooler(
    BehindAPooler,
    IsolationContract,
    RoundTripContract,
    ApplyContract,
    ConcurrencyContract,
    QueueContract,
):
    """What another server for each transaction could change; test_contract.py runs the whole,
    slowly.
    """


async def busy_life(store: MemoryStore, mark: str, turns: int, chance: random.Random) -> int:
    """Writes and reads of one store, each answer looked at: whatever comes back must bear the
    store's own mark.
    """
    # the same in every store: only the schema tells them apart
    scope = Scope("t", "the same user", "app")
    space_number = (await store.memories.spaces.add("g", 4, None)).number
    looked = 0
    for turn in range(turns):
        memory = a_memory(
            f"{mark} zebra {turn} {chance.random()}", session_id=mark, metadata={"of": mark}
        )
        row = np.asarray([1, turn, 1, 1], np.float32)
        batch = Batch(
            changes=adding(memory, explicit=True),
            vectors={memory.id: row},
            space_number=space_number,
            jobs=[a_job(scope, "embed", key=mark)],
        )
        applied = await store.apply(scope, batch, now=NOW)
        assert applied.version == turn + 1
        listed = (await store.memories.list(scope, limit=1000, now=NOW)).memories
        assert len(listed) == turn + 1
        assert {one.metadata["of"] for one in listed} == {mark}
        matches = (await store.memories.view(scope, now=NOW).text(["zebra"], limit=1000)).matches
        assert set(matches) == {one.id for one in listed}
        [near] = await store.memories.view(scope, now=NOW).nearest(space_number, [row], limit=1000)
        assert {id for id, _ in near} == set(matches)
        assert {job.key for job in await store.queue.jobs()} == {mark}
        await store.memories.deliver(scope, retrieved=[memory.id], delivered=[memory.id], now=NOW)
        looked += len(listed) + len(near) + 2
    return looked


async def state_of_servers(uri: str) -> list[dict[str, str]]:
    """What is left in each of the pooler's servers: transactions held at the same time are on
    different ones.
    """
    connections = [
        await psycopg.AsyncConnection.connect(uri, prepare_threshold=None) for _ in range(SERVERS)
    ]
    try:
        found: list[dict[str, str]] = []
        for connection in connections:  # each leaves its transaction open
            cursor = await connection.execute(
                "SELECT pg_backend_pid(), current_setting('search_path'), "
                "current_setting('statement_timeout'), "
                "current_setting('jit'), (SELECT count(*) FROM pg_prepared_statements)"
            )
            row = await cursor.fetchone()
            assert row is not None
            names = ("pid", "search_path", "statement_timeout", "jit", "prepared")
            found.append(dict(zip(names, map(str, row), strict=True)))
        return found
    finally:
        for connection in connections:
            await connection.close()


async def test_two_schemas_behind_a_pooler_never_see_each_other(pooled_uri):
    """Two schemas under a mixed load never see each other and leave nothing behind."""
    before = await state_of_servers(pooled_uri)
    marks = [("left", "kagent_memory"), ("right", "other"), ("third", "Odd Name")]
    stores = [await open_store(pooled_uri, schema=schema, pool_size=6) for _, schema in marks]
    try:
        lives = [
            busy_life(store, mark, 25, random.Random(mark))
            for store, (mark, _) in zip(stores, marks, strict=True)
        ]
        assert sum(await asyncio.gather(*lives)) > 1000
    finally:
        for store in stores:
            await store.close()
    after = await state_of_servers(pooled_uri)
    assert len({one["pid"] for one in after}) == SERVERS
    plain = {name: value for name, value in before[0].items() if name != "pid"}
    assert plain["prepared"] == "0"
    assert [{name: value for name, value in one.items() if name != "pid"} for one in after] == [
        plain
    ] * SERVERS


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
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
            "current_database() "
            "AND pid <> pg_backend_pid()"
        )
    scope, said = Scope("t", "u", "a"), datetime(2026, 3, 1, 23, 30, 0, 123456, tzinfo=UTC)
    async with await open_store(pooled_uri) as store:
        memory = a_memory("late", happened_at=said)
        await store.apply(scope, Batch(changes=adding(memory)), now=said)
        kept = (await store.memories.get(scope, [memory.id], now=said))[memory.id]
    assert kept.happened_at == said
    assert kept.happened_at.utcoffset() == timedelta(0)
    assert kept.happened_at.date() == said.date()


async def test_cancelled_callers_behind_a_pooler_hold_no_server(pooled_uri):
    """Callers that are cancelled leave nothing half done and no server held."""
    scope, chance = Scope("t", "u", "a"), random.Random(11)
    async with await open_store(pooled_uri, pool_size=3) as store:
        for _ in range(120):
            batch = Batch(changes=adding(*(a_memory(f"{chance.random()}") for _ in range(50))))
            calls = (
                lambda batch=batch: store.apply(scope, batch, now=NOW),
                lambda: store.memories.view(scope, now=NOW).text(["zebra"], limit=9),
                lambda: store.memories.list(scope, limit=500, now=NOW),
            )
            task = asyncio.ensure_future(chance.choice(calls)())
            await asyncio.sleep(chance.random() * 0.02)
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.done()
        assert len((await store.memories.list(scope, limit=10_000, now=NOW)).memories) % 50 == 0
        async with asyncio.timeout(60):
            await asyncio.gather(*(store.memories.version(scope) for _ in range(50)))
    async with asyncio.timeout(60):
        # none is held by a transaction that nobody ends
        assert len(await state_of_servers(pooled_uri)) == SERVERS


async def test_a_killed_pooler_loses_nothing_acknowledged(postgres_uri, tmp_path_factory):
    """A pooler that is killed and started again loses nothing acknowledged."""
    folder = tmp_path_factory.mktemp("pgbouncer")
    scope, kept, failures, stop = (
        Scope("t", "u", "a"),
        list[str](),
        list[KagentMemoryError](),
        asyncio.Event(),
    )
    with pgbouncer(postgres_uri, Path(folder)) as pooler:
        async with await open_store(pooler.uri, pool_size=5) as store:

            async def writer() -> None:
                while not stop.is_set():
                    memory = a_memory(new_id())
                    try:
                        await store.apply(scope, Batch(changes=adding(memory)), now=NOW)
                        kept.append(memory.id)
                    except StoreError as error:
                        failures.append(error)
                        await asyncio.sleep(0.05)

            writers = [asyncio.create_task(writer()) for _ in range(5)]
            async with asyncio.timeout(180):
                for _ in range(3):
                    written, failed = len(kept), len(failures)
                    while len(kept) < written + 10:  # noqa: ASYNC110 acknowledged writes are no event of ours
                        await asyncio.sleep(0.02)
                    await asyncio.to_thread(pooler.stop)
                    while len(failures) == failed:  # noqa: ASYNC110 nor are those that fail
                        await asyncio.sleep(0.02)
                    await asyncio.to_thread(pooler.start)
                written = len(kept)
                while len(kept) < written + 10:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            stop.set()
            await asyncio.gather(*writers)
            assert set(kept) <= set(await store.memories.get(scope, kept, now=NOW))
