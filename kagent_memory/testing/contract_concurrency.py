"""Many at once: writers, takers, counters and prunes."""

from __future__ import annotations

import asyncio
import random

from ..errors import Conflict
from .fixtures import DAY, SECOND, ContractPart, ScopedStore, a_memory, adding, is_refused


class ConcurrencyContract(ContractPart):
    """Nothing is lost, doubled or deadlocked."""

    async def test_writers_to_one_scope_lose_nothing(self, home: ScopedStore) -> None:
        """Contents, positions and versions of forty batches are all there, and what all of them add
        is added once.
        """
        texts = [f"text {number}" for number in range(40)]

        async def write(some: list[str]) -> list[str | None]:
            return [
                (await home.add(a_memory(text, session_id="s"), a_memory("the same")))[1]
                for text in some
            ]

        ids = await asyncio.gather(*(write(texts[start::8]) for start in range(8)))
        assert len({id for some in ids for id in some}) == 1
        memories = await home.listed(limit=99)
        assert sorted(memory.content for memory in memories) == sorted([*texts, "the same"])
        places = [memory.position for memory in memories if memory.position is not None]
        assert (sorted(places), await home.version()) == (list(range(40)), 40)

    async def test_of_many_takers_of_one_event_one_wins(self, home: ScopedStore) -> None:
        """The others get a Conflict and write nothing."""
        batches = (
            home.apply(*adding(a_memory(f"taker {n}")), taken=[("s", "e")]) for n in range(8)
        )
        results = await asyncio.gather(*batches, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 7
        assert len(await home.contents()) == 1

    async def test_deliveries_at_once_all_count(self, home: ScopedStore) -> None:
        """Deliveries count whatever memories they share, in any order; unknown ones are skipped."""
        ids = [
            memory.id for memory in await home.write(*(f"memory {number}" for number in range(15)))
        ]
        chosen = [random.Random(seed).sample(ids, 10) for seed in range(20)]  # noqa: S311
        later = home.now + DAY
        deliver = home.store.memories.deliver
        await asyncio.gather(
            *(
                deliver(home.scope, retrieved=[*ten, "gone"], delivered=[*ten, "gone"], now=later)
                for ten in chosen
            )
        )
        for id in ids:
            usage, times = (await home.get(id)).usage, sum(id in ten for ten in chosen)
            assert (usage.retrieved, usage.delivered, usage.delivered_total) == (
                times,
                times,
                times,
            )
            assert usage.last_delivered_at == (later if times else None)

    async def test_reads_and_writes_run_together(self, home: ScopedStore) -> None:
        """Searches, deliveries, writes and prunes lose nothing of each other."""
        ids = [
            memory.id for memory in await home.write(*(f"zebra {number}" for number in range(10)))
        ]

        async def search() -> None:
            for _ in range(5):
                assert len((await home.text("zebra")).matches) >= 10
                await home.deliver(*ids)

        async def write(writer: int) -> None:
            for number in range(5):
                await home.add(a_memory(f"zebra {writer} {number} new", ttl_days=1))
                await home.store.memories.prune(now=home.now, popular_after=10)

        await asyncio.gather(*(search() for _ in range(6)), *(write(writer) for writer in range(3)))
        assert (await home.get(ids[0])).usage.delivered == 30
        assert len(await home.contents(limit=99)) == 25

    async def test_an_embedding_space_for_many_is_made_once(self, home: ScopedStore) -> None:
        """All get the same one."""
        assert len(set(await asyncio.gather(*(home.space(3) for _ in range(6))))) == 1
        assert len(await home.store.memories.spaces.all()) == 1

    async def test_prunes_at_once_do_every_memory_once(self, home: ScopedStore) -> None:
        """The deleted and the extended are counted by one of them each."""
        memories = await home.write(*(f"memory {number}" for number in range(60)), ttl_days=1)
        popular = [memory.id for memory in memories[:20]]
        await home.deliver(*popular)
        later = home.at(home.now + 2 * DAY)
        pruned = await asyncio.gather(
            *(home.store.memories.prune(now=later.now, popular_after=1) for _ in range(4))
        )
        assert (sum(one.deleted for one in pruned), sum(one.extended for one in pruned)) == (40, 20)
        assert {memory.id for memory in await later.listed(limit=99)} == set(popular)

    async def test_evictions_at_once_leave_as_many_as_one(self, home: ScopedStore) -> None:
        """Evictions count the remaining memories under the lock."""
        ids = [
            memory.id for memory in await home.write(*(f"memory {number}" for number in range(40)))
        ]
        orders = (ids, ids[::-1], ids[20:] + ids[:20], ids)
        now = home.now + SECOND
        if await is_refused(home.store.memories.evict(home.scope, [], keep=99, now=now)):
            return
        gone = await asyncio.gather(
            *(home.store.memories.evict(home.scope, order, keep=25, now=now) for order in orders)
        )
        assert sorted(len(some) for some in gone) == [0, 0, 0, 15]
        assert len(await home.contents(limit=99)) == 25
