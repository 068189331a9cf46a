"""Workers whose clocks differ: a job is worked on once, whoever's clock is ahead or jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory import Memories
from kagent_memory.records import Message, Scope

SESSIONS = 6


class SlowModel:
    """States one fact a session, after a while, and counts how often it was asked about each."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked: list[str] = []

    async def complete(self, prompt: str, *, schema: type[Any]) -> Any:
        number = prompt.rpartition("locker number ")[2].partition(" ")[0]
        self.asked.append(number)
        await asyncio.sleep(self.seconds)
        return schema.model_validate(
            {"facts": [{"text": f"Locker {number} opens with K-{number}00."}], "decisions": []}
        )


class Clock:
    """The time, off by some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.seconds)


async def taken_in_once(memories: Sequence[Memories], model: SlowModel) -> None:
    scope = Scope("t", "u", "a")
    scopes = [Scope("t", f"u{number}", "a") for number in range(SESSIONS)]
    for number, scope in enumerate(scopes):
        said = Message(
            text=f"Note that locker number {number} opens with K-{number}00.", event_id=f"e{number}"
        )
        await memories[0].remember(scope, [said], f"s{number}")
    async with asyncio.timeout(180):
        while [job for job in await memories[0].jobs() if job.kind == "transcript"]:  # noqa: ASYNC110 no event of ours
            await asyncio.sleep(0.05)
    assert sorted(model.asked) == [str(number) for number in range(SESSIONS)]
    for number, scope in enumerate(scopes):
        page = await memories[0].list(scope)
        assert [memory.content for memory in page.memories] == [
            f"Locker {number} opens with K-{number}00."
        ]


@pytest.mark.parametrize("skews", [(-60, 0, 60), (0, 86_400)], ids=str)
async def test_a_clock_that_is_ahead_takes_no_job_away(store_uri, skews, monkeypatch):
    """No job is taken from a worker by one whose clock is ahead."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.LEASE_SECONDS", 2)
    model = SlowModel(2.5)  # longer than a lease that nobody renews
    async with AsyncExitStack() as stack:
        memories = [
            await stack.enter_async_context(
                await Memories.open(store_uri, llm=model, clock=Clock(seconds), consolidate_after=0)
            )
            for seconds in sorted(skews, key=abs)
        ]
        await taken_in_once(memories, model)
