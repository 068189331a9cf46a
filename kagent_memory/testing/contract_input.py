"""A closed store, and a caller that gives up."""

from __future__ import annotations

import asyncio

import pytest

from ..errors import StoreError
from ..stores.values import Delivery
from .fixtures import NOW, ContractPart, ScopedStore, a_job, a_memory, adding


class InputContract(ContractPart):
    """One typed error, and nothing half done."""

    async def test_use_after_close_is_a_store_error(self, home: ScopedStore) -> None:
        """Of every verb; closing twice is harmless, and leaving `async with` closes."""
        await home.write("before")
        async with home.store as store:
            assert store is home.store
        await store.close()
        scope, job = home.scope, a_job(home.scope)
        calls = (
            home.add(a_memory("late")),
            home.forget(everything=True),
            store.memories.count([Delivery(scope=scope, delivered={"x": 1}, at=NOW)]),
            home.deliver("x"),
            store.memories.feedback(scope, "x", success=True),
            home.visible("x"),
            home.contents(),
            home.text("x"),
            home.features("x"),
            home.taken("s", "x"),
            store.memories.history(scope, "x"),
            store.memories.group(scope, "x"),
            home.version(),
            home.stats(),
            store.memories.spaces.all(),
            home.space(),
            home.enqueue(),
            home.try_claim(),
            store.queue.renew(job, lease_seconds=9),
            store.queue.release(job, run_after=NOW, error=""),
            home.jobs(),
            store.queue.waiting(scope, "embed", "k"),
            store.queue.pending(now=NOW),
            store.queue.retry("x", now=NOW),
            store.queue.drop("x"),
            store.queue.lease("x", "me", seconds=9),
            store.memories.prune(now=NOW, popular_after=1),
            store.memories.crowded(above=0, now=NOW),
            store.scopes(),
        )
        for call in calls:
            with pytest.raises(StoreError):
                await call

    @pytest.mark.parametrize("delay", [0, 0.001, 0.008])
    async def test_a_cancelled_write_is_whole_or_not_at_all(
        self, home: ScopedStore, delay: float
    ) -> None:
        """Whenever its caller gives up, and the store goes on."""
        for attempt in range(5):
            memories = [a_memory(f"{attempt}-{number}") for number in range(100)]
            task = asyncio.create_task(home.apply(*adding(*memories)))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await home.write(f"after {attempt}")
            seen = await home.contents(limit=1000)
            assert sum(content.startswith(f"{attempt}-") for content in seen) in (0, 100)
            assert f"after {attempt}" in seen

    async def test_cancelled_reads_leave_the_store_usable(self, home: ScopedStore) -> None:
        """Sixty searches and lists that nobody waits for do no harm."""
        await home.write(*(f"zebra {number}" for number in range(100)))
        for _ in range(30):
            searching, listing = (
                asyncio.create_task(home.text("zebra")),
                asyncio.create_task(home.contents()),
            )
            await asyncio.sleep(0)
            searching.cancel()
            listing.cancel()
            await asyncio.gather(searching, listing, return_exceptions=True)
        assert len((await home.text("zebra")).matches) == 99
