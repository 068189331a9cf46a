"""A job stays with its worker through any delay of that worker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kagent_memory.errors import ModelUnavailable
from kagent_memory.memories import Memories
from kagent_memory.records import Fact

from .ground import SCOPE, a_message, contents, opened

SONG = a_message("Grace sings.", "e1")
LEASE = "kagent_memory.ingestion.worker.LEASE_SECONDS"
HELD_SECONDS = 1.0


class Slow:
    """A provider that takes longer than a lease, and may block the event loop, which none should
    do.
    """

    name = "slow"

    def __init__(self, blocks: bool) -> None:
        self.blocks, self.calls = blocks, 0

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        self.calls += 1
        if self.blocks:
            time.sleep(HELD_SECONDS)
        else:
            await asyncio.sleep(3 * HELD_SECONDS)
        return [Fact(text="Grace sings.")]


async def test_a_held_up_worker_keeps_its_job_in_the_end(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """Two workers with loops blocked for longer than a lease finish a job exactly once."""
    monkeypatch.setattr(LEASE, HELD_SECONDS / 4)

    async def work() -> int:
        async with opened(store_uri, llm=False, summary=Slow(blocks=True)) as memories:
            async with asyncio.timeout(60):
                count = 0
                while await memories.jobs():
                    count += await memories.work(until_idle=True)
                    await asyncio.sleep(0.05)
            return count

    async with opened(store_uri, llm=False, summary=Slow(blocks=True)) as memories:
        await memories.remember(SCOPE, [SONG], "s")
        workers = (asyncio.to_thread(asyncio.run, work()) for _ in range(2))
        assert sum(await asyncio.gather(*workers)) == 1
        assert await contents(memories) == ["Grace sings."]


async def test_a_long_job_is_not_taken_from_its_worker(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """A lease is renewed while its job runs, so that no other worker runs the job too."""
    monkeypatch.setattr(LEASE, HELD_SECONDS / 2)
    slow = Slow(blocks=False)
    options: dict[str, Any] = {"llm": False, "summary": slow, "worker": True}
    async with opened(store_uri, **options) as memories, opened(store_uri, **options):
        await memories.remember(SCOPE, [SONG], "s")
        assert await memories.drain(60)
    assert slow.calls == 1


class Failing:
    """A provider that always fails."""

    name = "failing"

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        raise ModelUnavailable("The model is away.")


@pytest.mark.parametrize("verb", ["claim", "release"])
async def test_a_job_at_hand_at_the_stop_is_given_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, verb: str
):
    """A worker stopped while it claims a job or releases a failed one gives the job back."""
    monkeypatch.setattr("kagent_memory.memories.maintenance.CLOSE_SECONDS", 0.0)
    memories = await Memories.open(store_uri, llm=False, summary=Failing())
    inner, reached = getattr(memories.store.queue, verb), asyncio.Event()

    async def pause() -> None:
        reached.set()
        await asyncio.sleep(0.7)  # longer than whoever closes waits before it cancels again

    async def slow(*args: Any, **options: Any) -> Any:
        if verb == "release":
            await pause()
        answer = await inner(*args, **options)
        if verb == "claim" and answer is not None:
            await pause()
        return answer

    monkeypatch.setattr(memories.store.queue, verb, slow)
    await memories.remember(SCOPE, [SONG], "s")
    await reached.wait()
    await memories.close()
    async with opened(store_uri) as later:
        assert [job.state for job in await later.jobs()] == ["queued"]
