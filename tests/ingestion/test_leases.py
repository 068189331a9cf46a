"""A job stays with the worker that has it, whatever holds that worker's event loop up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kagent_memory.errors import ModelUnavailable
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope

SCOPE = Scope("acme", "ada", "desk")
BLOCKED_SECONDS = 1.0


class Blocking:
    """A provider that blocks the event loop, as none should."""

    name = "blocking"

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        time.sleep(BLOCKED_SECONDS)
        return [Fact(text="Grace sings.")]


async def opened(uri: str, **options: Any) -> Memories:
    given = {"llm": False, "worker": False, "prune_every_hours": 0, **options}
    return await Memories.open(uri, **given)


async def test_a_held_up_worker_keeps_its_job_in_the_end(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """Of two workers whose loops are held up for longer than a lease, one is done, and once."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.LEASE_SECONDS", BLOCKED_SECONDS / 4)

    async def work() -> int:
        async with await opened(store_uri, summary=Blocking()) as memories:
            async with asyncio.timeout(60):
                done = 0
                while await memories.jobs():
                    done += await memories.work(until_idle=True)
                    await asyncio.sleep(0.05)
            return done

    async with await opened(store_uri) as memories:
        await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
        workers = (asyncio.to_thread(asyncio.run, work()) for _ in range(2))
        assert sum(await asyncio.gather(*workers)) == 1
        assert [memory.content for memory in (await memories.list(SCOPE)).memories] == [
            "Grace sings."
        ]


class Failing:
    """A provider that never has an answer."""

    name = "failing"

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        raise ModelUnavailable("The model is away.")


@pytest.mark.parametrize("verb", ["claim", "release"])
async def test_a_job_at_hand_at_the_stop_is_given_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch, verb: str
):
    """Whether a worker is stopped while it claims a job, or while it gives up a failed one."""
    monkeypatch.setattr("kagent_memory.memories.opened.CLOSE_SECONDS", 0.0)
    memories = await opened(store_uri, summary=Failing(), worker=True)
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
    await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
    await reached.wait()
    await memories.close()
    async with await opened(store_uri) as later:
        assert [job.state for job in await later.jobs()] == ["queued"]
