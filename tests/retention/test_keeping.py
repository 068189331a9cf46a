"""What a scope keeps: the prune with its cap, by importance, once, by whoever comes first; and feedback, end to end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Fact, Memories, Scope
from kagent_memory.concurrency import cancel_and_wait
from kagent_memory.errors import NotFound, StoreError
from kagent_memory.memories import Pruned
from kagent_memory.records import Memory, Usage
from kagent_memory.retention import prune
from kagent_memory.retention.lifecycle import to_memory
from kagent_memory.retention.prune import least_important
from kagent_memory.retrieval.ranking import RankSettings
from kagent_memory.retrieval.ranking.importance import ImportanceWeights
from kagent_memory.testing import HashEmbedder

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ADA, BOB = Scope("", "ada", "app"), Scope("", "bob", "app")
HOBBIES = ("Ada sails", "Bob skis in Davos", "The gateway restarts nightly", "Rent is due on Monday", "Grace paints")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


async def opened(uri: str, **options: Any) -> Memories:
    return await Memories.open(uri, **{"llm": False, "worker": False, "clock": Clock(), "ttl_days": 0, **options})


async def texts(memories: Memories, scope: Scope = ADA) -> list[str]:
    return [memory.content for memory in (await memories.list(scope, order="oldest", limit=1000)).memories]


def aged(text: str, days: float = 0, usage: Usage = Usage(), **values: Any) -> Memory:
    made = to_memory(Fact(text, **values), now=NOW - days * DAY, ttl_days=0)
    return replace(made, usage=usage)


def chosen(memories: Sequence[Memory], count: int, **options: Any) -> list[str]:
    return [one.content for one in least_important(memories, count, **{"now": NOW, "likeness": {}, **options})]


# -- the choice ---------------------------------------------------------------------------------


def test_the_old_the_unused_and_the_misleading_go_first_and_pinned_ones_never():
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


def test_of_twins_one_stays_before_what_is_unique_goes():
    one, twin, lone = aged("twin", 2), aged("its twin", 1), aged("lone", 2.5)
    likeness = {one.id: {twin.id: 1.0, lone.id: 0.1}, twin.id: {one.id: 1.0}, lone.id: {one.id: 0.1}}
    assert chosen([one, twin, lone], 2, likeness=likeness) == ["twin", "lone"]


# -- the prune ----------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", [None, HashEmbedder(32)], ids=["words", "vectors"])
async def test_the_prune_evicts_the_least_important_of_each_scope_that_holds_too_many(
    store_uri: str, embedder: HashEmbedder | None
) -> None:
    async with await opened(store_uri, embedding=embedder, max_memories=3) as memories:
        ids = await memories.add(ADA, [*HOBBIES[:4], Fact("The spare key is with Grace", pinned=True)])
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
async def test_what_another_memory_says_too_is_evicted_before_what_is_said_once(
    store_uri: str, embedder: HashEmbedder | None
) -> None:
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
    async with await opened(store_uri, max_memories=10, importance_weights=mostly_success) as memories:
        ids = await memories.add(ADA, [f"Note number {number} of ward {number * 7}" for number in range(60)])
        kept = ids[40:50]
        for id in kept:
            await memories.feedback(ADA, id, success=True)
        assert await memories.prune() == Pruned(evicted=50)
        assert {memory.id for memory in (await memories.list(ADA)).memories} == set(kept)


async def test_pinned_memories_stay_however_many_they_are(store_uri: str) -> None:
    async with await opened(store_uri, max_memories=1) as memories:
        await memories.add(ADA, [Fact(text, pinned=True) for text in HOBBIES])
        assert await memories.prune() == Pruned()
        assert len(await texts(memories)) == len(HOBBIES)


async def test_without_a_bound_nothing_is_evicted_and_what_expired_is_counted_apart(store_uri: str) -> None:
    clock = Clock()
    async with await opened(store_uri, clock=clock, ttl_days=15) as memories:
        await memories.add(ADA, [*HOBBIES[:2], Fact(HOBBIES[2], ttl_days=0)])
        clock.now = NOW + 16 * DAY
        assert await memories.prune(dry_run=True) == Pruned(deleted=2)
        assert await memories.prune() == Pruned(deleted=2)
        assert await texts(memories) == [HOBBIES[2]]


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
        assert len(await texts(workers[1])) == 4  # the lease outlives the run: the next one is due in a day
    finally:
        for memories in workers:
            await memories.close()


# -- feedback -----------------------------------------------------------------------------------


async def test_feedback_counts_and_moves_a_memory_in_a_ranking_that_asks_for_it(store_uri: str) -> None:
    plain = RankSettings()
    for weights, judged in ((plain, False), (replace(plain, feedback=0.5), True), (replace(plain, standing=0.5), True)):
        async with await opened(store_uri, rank=weights) as memories:
            bad, good = await memories.add(ADA, ["The best harbour is Bergen", "The best harbour is Oslo"])
            if weights is plain:
                first = [hit.memory.id for hit in await memories.recall(ADA, "best harbour", deliver=False)]
                for verdict in (True, True, False):
                    await memories.feedback(ADA, first[1], success=verdict)
                await memories.feedback(ADA, first[0], success=False)
            usage = (await memories.get(ADA, first[1])).usage
            assert (usage.successes, usage.failures) == (2, 1)
            found = [hit.memory.id for hit in await memories.recall(ADA, "best harbour", deliver=False)]
            assert found == (first[::-1] if judged else first)
            assert {bad, good} == set(first)
            with pytest.raises(NotFound):
                await memories.feedback(BOB, bad, success=True)


async def test_a_task_that_swallows_a_cancellation_is_ended_all_the_same() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(cancel_and_wait(task), 60)
    assert task.cancelled()


# -- deliveries ---------------------------------------------------------------------------------


async def totals(memories: Memories, *scopes: Scope) -> Counter[str]:
    found: Counter[str] = Counter()
    for scope in scopes:
        rows = (await memories.list(scope, limit=1000)).memories
        found.update({memory.id: memory.usage.delivered_total for memory in rows if memory.usage.delivered_total})
    return found


@pytest.mark.parametrize("ending", ["close", "drain"])
async def test_no_delivery_is_lost_however_many_search_at_once_and_whatever_the_prune_does(
    store_uri: str, ending: str
) -> None:
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
                memories.delivered(scope, ids)
                handed.update(ids)
        left -= 1

    async with await opened(store_uri, popular_after=3) as memories:
        for scope in scopes:
            await memories.add(scope, [f"Bird number {bird} sings in ward {bird % 5}" for bird in range(20)])
        clients = [asyncio.create_task(client(memories, number)) for number in range(32)]
        while left and not any(task.done() and task.exception() for task in clients):
            await memories.prune()
            await asyncio.sleep(0.05)
        await asyncio.gather(*clients)
        if ending == "drain":
            assert await memories.drain(60)
            assert await totals(memories, *scopes) == handed
    async with await opened(store_uri) as again:
        assert await totals(again, *scopes) == handed


async def test_what_was_delivered_by_the_end_of_its_time_is_extended_however_soon_the_prune_comes(
    store_uri: str,
) -> None:
    clock = Clock()
    async with await opened(store_uri, clock=clock, ttl_days=1, popular_after=3) as memories:
        popular, _ = await memories.add(ADA, ["Ada rows on Mondays", "Ada paints kites"])
        for _ in range(3):
            assert [hit.memory.id for hit in await memories.recall(ADA, "Mondays", limit=1)] == [popular]
        clock.now += 2 * DAY
        assert await memories.prune() == Pruned(deleted=1, extended=1)
        kept = await memories.get(ADA, popular)
        assert (kept.usage.delivered, kept.usage.delivered_total) == (0, 3)
        assert kept.usage.last_delivered_at == NOW


@pytest.mark.parametrize("outage", ["refuses", "hangs for a while"])
async def test_deliveries_outlast_a_database_that_takes_none_for_a_while(
    store_uri: str, outage: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with await opened(store_uri) as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        inner, tried = memories.store.count, 0

        async def count(deliveries: Any) -> None:
            nonlocal tried
            tried += 1
            if tried <= 2 and outage == "refuses":
                raise StoreError("The database is away.")
            if tried == 1:
                await asyncio.sleep(0.3)
            await inner(deliveries)

        object.__setattr__(memories.store, "count", count)
        for turn in range(40):
            await memories.recall(ADA, "Mondays")
            await asyncio.sleep(0.01 * (turn % 3))
        assert await memories.drain(60)
        assert (await memories.get(ADA, id)).usage.delivered_total == 40
        assert ("could not be counted yet" in caplog.text) is (outage == "refuses")


async def test_who_drains_does_not_wait_for_more_deliveries_to_come(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kagent_memory.retention.deliveries.GATHER_SECONDS", 3600.0)
    async with await opened(store_uri) as memories:
        [id] = await memories.add(ADA, ["Ada rows on Mondays"])
        for handed in (1, 2):
            await memories.recall(ADA, "Mondays")
            assert (await memories.get(ADA, id)).usage.delivered_total == handed - 1
            assert await memories.drain(60)
            assert (await memories.get(ADA, id)).usage.delivered_total == handed


async def test_deliveries_of_thousands_of_users_are_written_before_the_end(store_uri: str) -> None:
    scopes = [Scope("acme", f"user {number}", "app") for number in range(1500)]
    async with await opened(store_uri) as memories:
        ids = [(await memories.add(scope, ["It rains"]))[0] for scope in scopes[:3]]
        for scope, id in zip(scopes, ids, strict=False):
            for _ in range(500):
                memories.delivered(scope, [id])
        for scope in scopes[3:]:  # who have no such memory: nothing is counted, and nothing breaks
            memories.delivered(scope, [ids[0], "no id"])
    async with await opened(store_uri) as again:
        assert await totals(again, *scopes[:3]) == dict.fromkeys(ids, 500)
        assert await totals(again, *scopes[3:9]) == {}
