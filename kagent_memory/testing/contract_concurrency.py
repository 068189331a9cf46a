"""Many at once: writers, takers, counters, claimers, and starters."""

from __future__ import annotations

import asyncio
import random

from ..errors import Conflict
from ..stores.base import Batch, Job, Store
from .fixtures import DAY, NOW, ContractPart, a_job, a_memory, a_scope, add, add_texts, adding, contents, the


async def claim_all(store: Store, owner: str) -> list[Job]:
    """Claims until there is nothing left to claim."""
    claimed: list[Job] = []
    while job := await store.claim(owner, now=NOW, lease_seconds=30):
        claimed.append(job)
    return claimed


class ConcurrencyContract(ContractPart):
    """Nothing is lost, doubled or deadlocked."""

    async def test_writers_to_one_scope_lose_nothing(self, store: Store) -> None:
        scope = a_scope()

        async def write(writer: int) -> None:
            for number in range(5):
                await add(store, scope, a_memory(f"{writer}-{number}", session_id="s"))

        await asyncio.gather(*(write(writer) for writer in range(8)))
        memories = (await store.list(scope, limit=99, now=NOW)).memories
        assert {memory.content for memory in memories} == {f"{w}-{n}" for w in range(8) for n in range(5)}
        assert sorted(memory.position or 0 for memory in memories) == list(range(40))
        assert await store.version(scope) == 40

    async def test_the_same_fact_added_by_many_is_one_memory(self, store: Store) -> None:
        scope = a_scope()
        ids = await asyncio.gather(*(add(store, scope, a_memory("the same")) for _ in range(10)))
        assert len(set(ids)) == 1
        assert await contents(store, scope) == ["the same"]

    async def test_of_many_takers_of_one_event_one_wins(self, store: Store) -> None:
        scope = a_scope()
        batches = [Batch(changes=adding(a_memory(f"taker {n}")), taken=[("s", "e")]) for n in range(8)]
        results = await asyncio.gather(
            *(store.apply(scope, batch, now=NOW) for batch in batches), return_exceptions=True
        )
        assert sum(isinstance(result, Conflict) for result in results) == 7
        assert len(await contents(store, scope)) == 1

    async def test_of_many_plans_on_one_version_one_wins(self, store: Store) -> None:
        scope = a_scope()
        await add(store, scope, a_memory("before"))
        batches = [Batch(changes=adding(a_memory(f"plan {n}")), expected_version=1) for n in range(8)]
        results = await asyncio.gather(
            *(store.apply(scope, batch, now=NOW) for batch in batches), return_exceptions=True
        )
        assert sum(isinstance(result, Conflict) for result in results) == 7
        assert (await store.version(scope), len(await contents(store, scope))) == (2, 2)

    async def test_overlapping_deliveries_count_every_one(self, store: Store) -> None:
        scope = a_scope()
        ids = list(await add_texts(store, scope, *(f"memory {number}" for number in range(15))))
        chosen = [random.Random(seed).sample(ids, 10) for seed in range(20)]  # noqa: S311
        later = NOW + DAY
        await asyncio.gather(
            *(store.deliver(scope, retrieved=[*ten, "gone"], delivered=[*ten, "gone"], now=later) for ten in chosen)
        )
        for id in ids:
            usage = (await the(store, scope, id)).usage
            times = sum(id in ten for ten in chosen)
            assert (usage.retrieved, usage.delivered, usage.delivered_total) == (times, times, times)
            assert usage.last_delivered_at == (later if times else None)

    async def test_reads_writes_deliveries_and_prunes_run_together(self, store: Store) -> None:
        scope = a_scope()
        ids = await add_texts(store, scope, *(f"zebra {number}" for number in range(10)))

        async def search() -> None:
            for _ in range(5):
                found = await store.view(scope, now=NOW).text(["zebra"], limit=99)
                await store.deliver(scope, retrieved=list(found.matches), delivered=list(ids), now=NOW)

        async def write(writer: int) -> None:
            for number in range(5):
                await add(store, scope, a_memory(f"zebra {writer} {number} new", ttl_days=1))
                await store.prune(now=NOW, popular_after=10)

        await asyncio.gather(*(search() for _ in range(6)), *(write(writer) for writer in range(3)))
        assert (await the(store, scope, ids[0])).usage.delivered == 30
        assert len(await contents(store, scope, limit=99)) == 25

    async def test_many_claimers_take_every_job_once(self, store: Store) -> None:
        jobs = [a_job(a_scope()) for _ in range(20)]
        await store.enqueue(jobs)
        claimed = await asyncio.gather(*(claim_all(store, f"worker {n}") for n in range(5)))
        rest = await claim_all(store, "last")
        ids = [job.id for some in (*claimed, rest) for job in some]
        assert sorted(ids) == sorted(job.id for job in jobs)

    async def test_an_embedding_space_asked_for_by_many_is_made_once(self, store: Store) -> None:
        made = await asyncio.gather(*(store.add_embedding_space("hash", 3, None) for _ in range(6)))
        assert len({space.number for space in made}) == 1
        assert len(await store.embedding_spaces()) == 1

    async def test_two_prunes_at_once_do_every_memory_once(self, store: Store) -> None:
        scope = a_scope()
        memories = [a_memory(f"memory {number}", ttl_days=1) for number in range(60)]
        await add(store, scope, *memories)
        popular = [memory.id for memory in memories[:20]]
        await store.deliver(scope, retrieved=[], delivered=popular, now=NOW)
        later = NOW + 2 * DAY
        pruned = await asyncio.gather(*(store.prune(now=later, popular_after=1) for _ in range(4)))
        assert sum(one.deleted for one in pruned) == 40
        assert sum(one.extended for one in pruned) == 20
        assert {m.id for m in (await store.list(scope, limit=99, now=later)).memories} == set(popular)

    async def test_evictions_at_once_leave_as_many_as_one_would(self, store: Store) -> None:
        scope = a_scope()
        ids = await add_texts(store, scope, *(f"memory {number}" for number in range(40)))
        orders = (ids, ids[::-1], ids[20:] + ids[:20], ids)
        gone = await asyncio.gather(*(store.evict(scope, order, keep=25, now=NOW) for order in orders))
        assert sorted(len(some) for some in gone) == [0, 0, 0, 15]
        assert len(await contents(store, scope, limit=99)) == 25

    async def test_of_many_who_want_a_lease_one_gets_it(self, store: Store) -> None:
        got = await asyncio.gather(*(store.lease("prune", f"worker {n}", seconds=30) for n in range(8)))
        assert sorted(got) == [False] * 7 + [True]
