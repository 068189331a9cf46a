"""A job stays with the worker that has it, whatever holds that worker's event loop up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from kagent_memory.concurrency import new_loop
from kagent_memory.errors import ModelUnavailable
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope
from kagent_memory.stores.base import Job

SCOPE = Scope("acme", "ada", "desk")
LEASE_SECONDS = 2.0
BLOCKED_SECONDS = 5.0


class Blocking:
    """A provider that blocks the event loop, as none should."""

    name = "blocking"

    def __init__(self) -> None:
        self.calls = 0
        self.began = threading.Event()

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        self.calls += 1
        self.began.set()
        time.sleep(BLOCKED_SECONDS)
        return [Fact(text="Grace sings.")]


@pytest.fixture
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.ingestion.worker.LEASE_SECONDS", LEASE_SECONDS)


async def opened(uri: str, **options: Any) -> Memories:
    given = {"llm": False, "worker": False, "prune_every_hours": 0, **options}
    return await Memories.open(uri, **given)


def stealing(uri: str, blocking: Blocking, stolen: list[Job]) -> None:
    """Another process, as far as the database can tell: it takes whatever may be claimed."""

    async def steal() -> None:
        async with await opened(uri) as other:
            blocking.began.wait(120)
            until = time.monotonic() + BLOCKED_SECONDS - 0.5
            while time.monotonic() < until:
                job = await other.store.claim("other", now=datetime.now(UTC), lease_seconds=LEASE_SECONDS)
                if job is not None:
                    stolen.append(job)
                await asyncio.sleep(0.1)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(steal())


@pytest.mark.usefixtures("_short_leases")
async def test_no_other_worker_gets_a_job_whose_worker_is_held_up(store_uri: str):
    blocking, stolen = Blocking(), list[Job]()
    async with await opened(store_uri, summary=blocking) as memories:
        await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
        thief = threading.Thread(target=stealing, args=(store_uri, blocking, stolen))
        thief.start()
        assert await memories.work(until_idle=True) == 1
        await asyncio.to_thread(thief.join)
        assert (stolen, blocking.calls) == ([], 1)
        assert [memory.content for memory in (await memories.list(SCOPE)).memories] == ["Grace sings."]
    assert "kagent-memory-leases" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.parametrize("uri", ["libsql:///:memory:"])
async def test_what_is_in_memory_has_no_thread_beside_it(uri: str):
    async with await opened(uri) as memories:
        await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
        assert await memories.work(until_idle=True) == 1
        assert "kagent-memory-leases" not in [thread.name for thread in threading.enumerate()]


class Failing:
    """A provider that never has an answer."""

    name = "failing"

    async def facts(self, transcript: Any) -> Sequence[Fact]:
        raise ModelUnavailable("The model is away.")


async def test_a_job_that_fails_while_its_worker_is_stopped_is_given_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kagent_memory.memories.in_process.CLOSE_SECONDS", 0.0)
    memories = await opened(store_uri, summary=Failing(), worker=True)
    release, releasing = memories.store.release, asyncio.Event()

    async def slow(*args: Any, **options: Any) -> bool:
        releasing.set()
        await asyncio.sleep(0.7)  # longer than whoever closes waits before it cancels again
        return await release(*args, **options)

    monkeypatch.setattr(memories.store, "release", slow)
    await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
    await releasing.wait()
    await memories.close()
    async with await opened(store_uri) as later:
        assert [job.state for job in await later.jobs()] == ["queued"]


async def test_a_job_that_is_claimed_while_its_worker_is_stopped_is_given_back(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kagent_memory.memories.in_process.CLOSE_SECONDS", 0.0)
    memories = await opened(store_uri, summary=Failing(), worker=True)
    claim, claimed = memories.store.claim, asyncio.Event()

    async def slow(*args: Any, **options: Any) -> Job | None:
        job = await claim(*args, **options)
        if job is not None:
            claimed.set()
            await asyncio.sleep(0.7)  # the database has leased it, and its answer is on the way
        return job

    monkeypatch.setattr(memories.store, "claim", slow)
    await memories.remember(SCOPE, [Message(text="Grace sings.", event_id="e1")], "s")
    await claimed.wait()
    await memories.close()
    async with await opened(store_uri) as later:
        assert [job.state for job in await later.jobs()] == ["queued"]
