"""`Memories.open(pool=…)`: the application's own connections, used and given back as they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from memories.opening import ADA, GRACE, opened
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from relay import execute

from kagent_memory import (
    ConfigurationError,
    Fact,
    KagentMemoryService,
    Memories,
    Message,
    StoreError,
)
from kagent_memory.memories import utc_now
from kagent_memory.testing import HashEmbedder

STATE = """SELECT current_setting('search_path') AS path, current_setting('TimeZone') AS zone,
current_setting('statement_timeout') AS patience, current_setting('role') AS role"""


def pool_of(uri: str, **options: Any) -> AsyncConnectionPool[Any]:
    values: dict[str, Any] = {
        "min_size": 1,
        "max_size": 3,
        "kwargs": {"row_factory": dict_row},
        **options,
    }
    return AsyncConnectionPool(uri, open=False, **values)


@pytest.fixture
async def pool(postgres_uri: str) -> AsyncIterator[AsyncConnectionPool[Any]]:
    async with pool_of(postgres_uri) as opened:
        yield opened


async def state(pool: AsyncConnectionPool[Any]) -> dict[str, Any]:
    async with pool.connection() as connection:
        assert connection.autocommit is False
        [row] = await (await connection.execute(STATE)).fetchall()
        return row


async def test_memories_work_on_the_callers_pool(pool: AsyncConnectionPool[Any]):
    """The caller's pool serves verbs and the worker, and stays open and as it was."""
    before = await state(pool)
    async with await Memories.open(pool=pool, embedding=HashEmbedder(64), llm=False) as memories:
        later = utc_now() + timedelta(days=2)
        [id] = await memories.add(ADA, [Fact("The spare key is with Grace", happened_at=later)])
        recall = await memories.recall(ADA, "Where is the spare key?")
        assert [(hit.memory.id, hit.memory.happened_at) for hit in recall] == [(id, later)]
        assert recall.mode == "hybrid"
        await memories.remember(ADA, [Message(text="I moved to Lisbon", event_id="e1")], "s")
        assert await memories.drain(60)
        assert (await memories.stats(ADA)).visible == 2
        assert not [finding for finding in await memories.check() if finding.state == "bad"]
        assert "acme" not in memories.location
    assert not pool.closed
    assert await state(pool) == before
    # all of them were given back
    assert pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"]


async def test_failed_and_cancelled_calls_leave_no_transaction(
    pool: AsyncConnectionPool[Any], postgres_uri: str
):
    """Failed and cancelled calls leave no transaction behind."""
    idle = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state ~ 'idle in'"
    async with await opened(None, pool=pool) as memories:
        for pause in (0.0, 0.001, 0.003, 0.01):
            notes = [f"note {pause} {n}" for n in range(40)]
            tasks = [asyncio.create_task(memories.add(ADA, notes)) for _ in range(4)]
            await asyncio.sleep(pause)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(execute, postgres_uri, "ALTER TABLE memory RENAME TO away")
        for _ in range(4):
            with pytest.raises(StoreError):
                await memories.add(ADA, ["lost"])
        assert not execute(postgres_uri, idle)


async def test_a_pool_that_is_used_up_closed_or_gone_is_a_store_error(postgres_uri: str):
    """A lent pool without a connection to give is a StoreError."""
    async with pool_of(postgres_uri, max_size=1) as pool:
        await pool.wait(60)
        pool.timeout = 1.0
        async with await opened(None, pool=pool) as memories:
            async with pool.connection():
                with pytest.raises(StoreError):
                    await memories.add(ADA, ["x"])
            await memories.add(ADA, ["x"])
            await pool.close()
            with pytest.raises(StoreError):
                await memories.add(ADA, ["x"])
        with pytest.raises(StoreError):
            await opened(None, pool=pool)


async def test_a_callers_pool_takes_a_schema_and_row_security(pool: AsyncConnectionPool[Any]):
    """A schema of ones own and row security on the callers pool."""
    async with await opened(None, pool=pool, postgres_schema="of_mine", rls=True) as memories:
        [id] = await memories.add(ADA, ["guarded"])
        assert [hit.memory.id for hit in await memories.recall(ADA, "guarded")] == [id]
        assert not await memories.recall(GRACE, "guarded")
    assert (await state(pool))["role"] == "none"


async def test_a_pool_of_a_function_is_closed_with_the_memories(postgres_uri: str):
    """A function makes a pool on the service's own loop, which is closed with the memories."""
    pools: list[AsyncConnectionPool[Any]] = []

    async def make() -> AsyncConnectionPool[Any]:
        pools.append(pool_of(postgres_uri))
        await pools[-1].open()
        return pools[-1]

    async with KagentMemoryService(llm=False, pool=make) as service:
        await service.memories.add(ADA, ["The tea is green"])
        assert len(await service.memories.recall(ADA, "tea")) == 1
    assert [pool.closed for pool in pools] == [True]


async def test_what_is_no_pool_of_this_loop_is_a_clear_error(
    pool: AsyncConnectionPool[Any], postgres_uri: str
):
    """Only an AsyncConnectionPool of this event loop is taken as one."""
    with pytest.raises(ConfigurationError, match=r"pass a function .* or use Memories\.open"):
        KagentMemoryService(pool=pool)
    for unfit in (7, "postgresql://x", object(), lambda: None):
        with pytest.raises(ConfigurationError, match="AsyncConnectionPool"):
            await opened(None, pool=unfit)
    with (
        psycopg.connect(postgres_uri) as connection,
        pytest.raises(ConfigurationError, match="AsyncConnectionPool"),
    ):
        await opened(None, pool=connection)
    with pytest.raises(ConfigurationError, match="connections to PostgreSQL"):
        await opened("libsql:///:memory:", pool=pool)


async def test_outdated_statements_cost_no_connection(postgres_uri: str):
    """Statements that the server knows no more are prepared anew on the caller's connection."""
    async with pool_of(postgres_uri, max_size=1) as pool:
        before = await backend(pool)
        async with await opened(None, pool=pool) as memories:
            [id] = await memories.add(ADA, ["Ada likes tea"])
            for _ in range(6):
                assert await memories.get(ADA, id)
            async with pool.connection() as connection:
                await connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
            assert (await memories.get(ADA, id)).content == "Ada likes tea"
        assert await backend(pool) == before


async def backend(pool: AsyncConnectionPool[Any]) -> int:
    async with pool.connection() as connection:
        return connection.info.backend_pid
