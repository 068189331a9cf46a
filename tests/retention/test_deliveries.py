"""Deliveries are counted together, in few writes, and none is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import psycopg
import pytest
from memories.opening import ADA, START, later, opened

from kagent_memory import Memories, Scope
from kagent_memory.errors import StoreError
from kagent_memory.retention.deliveries import GATHER_SECONDS
from kagent_memory.stores.values import Pruned

RECALLS = int(3 * GATHER_SECONDS)


async def test_recalls_within_a_minute_write_little_of_the_log(postgres_uri: str):
    """Recalls within a minute are counted in one write, of less than 1 KB of WAL a recall."""
    async with await opened(postgres_uri) as memories:
        ids = await memories.add(ADA, [f"Locker {n} is near gate {n % 9}." for n in range(50)])
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            log = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
            [(before,)] = connection.execute(log)
            for number in range(RECALLS):
                await memories.recall(ADA, f"locker {number % 50}")
            await memories.drain()
            [(after,)] = connection.execute(log)
        assert (after - before) / RECALLS < 1_000
        assert (await memories.get(ADA, ids[7])).usage.delivered >= RECALLS // 50


async def test_no_delivery_is_lost_beside_searches_and_prunes(store_uri: str):
    """No delivery is lost during concurrent searches and prunes."""
    scopes = [Scope("acme", f"user {number}", "app") for number in range(3)]
    handed: Counter[str] = Counter()
    rounds = 6

    async def client(memories: Memories, number: int) -> None:
        nonlocal rounds
        for turn in range(8):
            scope = scopes[(number + turn) % len(scopes)]
            query = f"Which bird number {turn % 7} sings in ward {number % 5}?"
            hits = await memories.recall(scope, query, limit=1 + turn % 5)
            handed.update(hit.memory.id for hit in hits)
        rounds -= 1

    async with await opened(store_uri, popular_after=3) as memories:
        for scope in scopes:
            await memories.add(scope, [f"Bird number {n} sings in ward {n % 5}" for n in range(20)])
        clients = [asyncio.create_task(client(memories, number)) for number in range(6)]
        while rounds and not any(task.done() and task.exception() for task in clients):
            await memories.prune()
            await asyncio.sleep(0.05)
        await asyncio.gather(*clients)
    async with await opened(store_uri) as again:
        totals: Counter[str] = Counter()
        for scope in scopes:
            rows = (await again.list(scope)).memories
            totals.update({memory.id: memory.usage.delivered_total for memory in rows})
        assert totals == handed


async def test_a_late_delivery_extends_a_memory_before_the_prune(store_uri: str):
    """A delivery before the expiry extends a memory, even if it is counted only just before the
    prune.
    """
    async with await opened(store_uri, ttl_days=1, popular_after=3) as memories:
        popular, _ = await memories.add(ADA, ["Ada rows on Mondays", "Ada paints kites"])
        for _ in range(3):
            [hit] = await memories.recall(ADA, "Mondays", limit=1)
            assert hit.memory.id == popular
        later(memories, days=2)
        assert await memories.prune() == Pruned(deleted=1, extended=1)
        usage = (await memories.get(ADA, popular)).usage
        assert (usage.delivered, usage.delivered_total) == (0, 3)
        assert usage.last_delivered_at == START


async def test_deliveries_outlast_a_database_that_hangs(monkeypatch: pytest.MonkeyPatch):
    """Deliveries survive a database that hangs for a while, and a drain that ends before."""
    async with await opened() as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        inner, pauses = memories.store.memories.count, [0.3]

        async def count(deliveries: Any) -> None:
            await asyncio.sleep(pauses.pop() if pauses else 0)
            await inner(deliveries)

        monkeypatch.setattr(memories.store.memories, "count", count)
        for turn in range(40):
            await memories.recall(ADA, "Mondays")
            await asyncio.sleep(0.01 * (turn % 3))
        assert not await memories.drain(0.1)
        assert await memories.drain(60)
        assert (await memories.get(ADA, id)).usage.delivered_total == 40


async def test_what_an_outage_holds_up_is_counted_after_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """During an outage a drain reports it and deliveries wait; afterwards they are counted."""
    monkeypatch.setattr("kagent_memory.retention.deliveries.GATHER_SECONDS", 0.05)
    async with await opened() as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])

        async def away(_: Any) -> None:
            raise StoreError("The database is away.")

        with monkeypatch.context() as patched:
            patched.setattr(memories.store.memories, "count", away)
            await memories.recall(ADA, "Mondays")
            assert not await memories.drain(1)
            await asyncio.sleep(0.2)
            assert 1 <= caplog.text.count("could not be counted yet") <= 6
        await asyncio.sleep(1)
        assert (await memories.get(ADA, id)).usage.delivered_total == 1


async def test_who_drains_does_not_wait_for_more_deliveries_to_come(
    monkeypatch: pytest.MonkeyPatch,
):
    """A drain writes pending deliveries at once, not at the end of their minute."""
    monkeypatch.setattr("kagent_memory.retention.deliveries.GATHER_SECONDS", 3600.0)
    async with await opened() as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        for handed in (1, 2):
            await memories.recall(ADA, "Mondays")
            assert (await memories.get(ADA, id)).usage.delivered_total == handed - 1
            assert await memories.drain(60)
            assert (await memories.get(ADA, id)).usage.delivered_total == handed


async def test_a_caller_who_hangs_up_loses_no_delivery(monkeypatch: pytest.MonkeyPatch):
    """Deliveries left unwritten by a cancelled export are written later."""
    monkeypatch.setattr("kagent_memory.retention.deliveries.SCOPES_AT_ONCE", 1)
    async with await opened() as memories:
        scopes = [Scope("acme", f"user {number}", "app") for number in range(3)]
        for scope in scopes:
            await memories.add(scope, ["Ada rows on Mondays"])
            await memories.recall(scope, "Mondays")
        inner, begun = memories.store.memories.count, asyncio.Event()

        async def count(deliveries: Any) -> None:
            await inner(deliveries)
            begun.set()
            await asyncio.sleep(600)

        with monkeypatch.context() as patched:
            patched.setattr(memories.store.memories, "count", count)
            exporting = asyncio.ensure_future(anext(memories.export()))
            await begun.wait()
            exporting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exporting
        assert await memories.drain(60)
        assert [(await memories.stats(scope)).delivered_total for scope in scopes] == [1, 1, 1]
