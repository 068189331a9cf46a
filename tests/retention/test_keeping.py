"""What a scope keeps: the prune with its cap, by importance, once, by whoever comes first; and
feedback, end to end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Fact, Memories, Scope
from kagent_memory.errors import StoreError
from kagent_memory.records import Memory, Usage
from kagent_memory.retention import prune
from kagent_memory.retention.lifecycle import to_memory
from kagent_memory.retention.prune import least_important
from kagent_memory.retrieval.ranking.importance import ImportanceWeights
from kagent_memory.stores.base import Pruned
from kagent_memory.testing import FrozenClock, HashEmbedder

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ADA, BOB = Scope("", "ada", "app"), Scope("", "bob", "app")
HOBBIES = (
    "Ada sails",
    "Bob skis in Davos",
    "The gateway restarts nightly",
    "Rent is due on Monday",
    "Grace paints",
)


async def opened(uri: str, **options: Any) -> Memories:
    return await Memories.open(
        uri, **{"llm": False, "worker": False, "clock": FrozenClock(NOW), "ttl_days": 0, **options}
    )


async def texts(memories: Memories, scope: Scope = ADA) -> list[str]:
    return [
        memory.content
        for memory in (await memories.list(scope, order="oldest", limit=1000)).memories
    ]


def aged(text: str, days: float = 0, usage: Usage = Usage(), **values: Any) -> Memory:
    made = to_memory(Fact(text, **values), now=NOW - days * DAY, ttl_days=0)
    return replace(made, usage=usage)


def chosen(memories: Sequence[Memory], count: int, **options: Any) -> list[str]:
    return [
        one.content
        for one in least_important(memories, count, **{"now": NOW, "likeness": {}, **options})
    ]


# -- the choice ---------------------------------------------------------------------------------


def test_the_least_important_go_first_and_pinned_ones_never():
    """The old the unused and the misleading go first and pinned ones never."""
    memories = [
        aged("new"),
        aged("old", 60),
        aged("old and pinned", 90, pinned=True),
        aged("old and used", 60, Usage(delivered_total=50)),
        aged("old and wrong", 60, Usage(failures=8)),
        aged("old and severe", 60, is_error=True, importance=1.0),
    ]
    assert chosen(memories, 9) == ["old and wrong", "old", "new", "old and used", "old and severe"]
    by_age = ImportanceWeights(frequency=0, success=0, error=0, uniqueness=0)
    assert chosen(memories, 1, weights=by_age) == ["old"]


# -- the prune ----------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", [None, HashEmbedder(32)], ids=["words", "vectors"])
async def test_the_prune_evicts_from_scopes_that_hold_too_many(
    store_uri: str, embedder: HashEmbedder | None
) -> None:
    """The prune evicts the least important of each scope that holds too many."""
    async with await opened(store_uri, embedding=embedder, max_memories=3) as memories:
        ids = await memories.add(
            ADA, [*HOBBIES[:4], Fact("The spare key is with Grace", pinned=True)]
        )
        await memories.add(BOB, list(HOBBIES[:3]))
        for id in ids[:2]:
            await memories.feedback(ADA, id, success=True)
        assert await memories.prune(dry_run=True) == Pruned(evicted=2)
        assert len(await texts(memories)) == 5
        assert await memories.prune() == Pruned(evicted=2)
        assert await texts(memories) == [*HOBBIES[:2], "The spare key is with Grace"]
        assert len(await texts(memories, BOB)) == 3
        assert await memories.prune() == Pruned()
        assert len(await memories.add(ADA, [HOBBIES[3]])) == 1
        assert HOBBIES[3] in await texts(memories)


@pytest.mark.parametrize("embedder", [None, HashEmbedder(64)], ids=["words", "vectors"])
async def test_what_is_said_twice_is_evicted_first(
    store_uri: str, embedder: HashEmbedder | None
) -> None:
    """What another memory says too is evicted before what is said once."""
    async with await opened(store_uri, embedding=embedder, max_memories=4) as memories:
        await memories.add(ADA, [*HOBBIES[:4], "The gateway restarts nightly, always"])
        assert await memories.prune() == Pruned(evicted=1)
        left = await texts(memories)
        assert len([text for text in left if "gateway" in text]) == 1


async def test_a_scope_far_over_its_bound_is_brought_down_at_once(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "EXAMINED", 5)
    monkeypatch.setattr(prune, "PAGE", 16)
    mostly_success = ImportanceWeights(uniqueness=0.01)
    async with await opened(
        store_uri, max_memories=10, importance_weights=mostly_success
    ) as memories:
        ids = await memories.add(
            ADA, [f"Note number {number} of ward {number * 7}" for number in range(60)]
        )
        kept = ids[40:50]
        for id in kept:
            await memories.feedback(ADA, id, success=True)
        assert await memories.prune() == Pruned(evicted=50)
        assert {memory.id for memory in (await memories.list(ADA)).memories} == set(kept)


async def test_one_of_two_processes_prunes_in_the_background(store_uri: str) -> None:
    async with await opened(store_uri) as memories:
        await memories.add(ADA, list(HOBBIES))
    workers = [await opened(store_uri, max_memories=3, worker=True) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            while len(await texts(workers[0])) > 3:  # noqa: ASYNC110 a prune that ran is no event of ours
                await asyncio.sleep(0.02)
        await workers[0].add(ADA, ["Ada skates"])
        await asyncio.sleep(0.1)
        # the lease outlives the run: the next one is due in a day
        assert len(await texts(workers[1])) == 4
    finally:
        for memories in workers:
            await memories.close()


# -- feedback -----------------------------------------------------------------------------------


# -- deliveries ---------------------------------------------------------------------------------


async def totals(memories: Memories, *scopes: Scope) -> Counter[str]:
    found: Counter[str] = Counter()
    for scope in scopes:
        rows = (await memories.list(scope, limit=1000)).memories
        found.update(
            {
                memory.id: memory.usage.delivered_total
                for memory in rows
                if memory.usage.delivered_total
            }
        )
    return found


async def test_no_delivery_is_lost_beside_searches_and_prunes(store_uri: str) -> None:
    """No delivery is lost however many search at once and whatever the prune does."""
    scopes = [Scope("acme", f"user {number}", "app") for number in range(8)]
    handed: Counter[str] = Counter()
    left = 32

    async def client(memories: Memories, number: int) -> None:
        nonlocal left
        for turn in range(25):
            scope = scopes[(number + turn) % len(scopes)]
            query = f"Which bird number {turn % 7} sings in ward {number % 5}?"
            ids = [hit.memory.id for hit in await memories.recall(scope, query, limit=1 + turn % 5)]
            handed.update(ids)
            if turn % 5 == 0:
                memories.parts.deliveries.count(scope, retrieved=ids, delivered=ids)
                handed.update(ids)
        left -= 1

    async with await opened(store_uri, popular_after=3) as memories:
        for scope in scopes:
            await memories.add(
                scope, [f"Bird number {bird} sings in ward {bird % 5}" for bird in range(20)]
            )
        clients = [asyncio.create_task(client(memories, number)) for number in range(32)]
        while left and not any(task.done() and task.exception() for task in clients):
            await memories.prune()
            await asyncio.sleep(0.05)
        await asyncio.gather(*clients)
    async with await opened(store_uri) as again:
        assert await totals(again, *scopes) == handed


async def test_a_late_delivery_extends_a_memory_before_the_prune(
    store_uri: str,
) -> None:
    """What was delivered by the end of its time is extended however soon the prune comes."""
    clock = FrozenClock(NOW)
    async with await opened(store_uri, clock=clock, ttl_days=1, popular_after=3) as memories:
        popular, _ = await memories.add(ADA, ["Ada rows on Mondays", "Ada paints kites"])
        for _ in range(3):
            assert [hit.memory.id for hit in await memories.recall(ADA, "Mondays", limit=1)] == [
                popular
            ]
        clock.now += 2 * DAY
        assert await memories.prune() == Pruned(deleted=1, extended=1)
        kept = await memories.get(ADA, popular)
        assert (kept.usage.delivered, kept.usage.delivered_total) == (0, 3)
        assert kept.usage.last_delivered_at == NOW


@pytest.mark.parametrize("outage", ["refuses", "hangs for a while"])
async def test_deliveries_outlast_an_outage_of_the_database(
    outage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Deliveries outlast a database that takes none for a while."""
    async with await opened("libsql:///:memory:") as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        inner, tried = memories.store.memories.count, 0

        async def count(deliveries: Any) -> None:
            nonlocal tried
            tried += 1
            if tried <= 2 and outage == "refuses":
                raise StoreError("The database is away.")
            if tried == 1:
                await asyncio.sleep(0.3)
            await inner(deliveries)

        object.__setattr__(memories.store.memories, "count", count)
        for turn in range(40):
            await memories.recall(ADA, "Mondays")
            await asyncio.sleep(0.01 * (turn % 3))
        assert await memories.drain(60)
        assert (await memories.get(ADA, id)).usage.delivered_total == 40
        assert ("could not be counted yet" in caplog.text) is (outage == "refuses")


async def test_who_drains_does_not_wait_for_more_deliveries_to_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kagent_memory.retention.deliveries.GATHER_SECONDS", 3600.0)
    async with await opened("libsql:///:memory:") as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        for handed in (1, 2):
            await memories.recall(ADA, "Mondays")
            assert (await memories.get(ADA, id)).usage.delivered_total == handed - 1
            assert await memories.drain(60)
            assert (await memories.get(ADA, id)).usage.delivered_total == handed
