"""Outages: transient failures are retried for as long as they last, and nothing is lost."""

from __future__ import annotations

import errno
import socket
from datetime import timedelta
from typing import Any

import httpx
import pytest

from kagent_memory.errors import ConfigurationError, ModelError, ModelUnavailable
from kagent_memory.ingestion.worker import MAX_PAUSE_SECONDS, pause_seconds
from kagent_memory.memories import Memories
from kagent_memory.models.failures import transient
from kagent_memory.testing import FrozenClock, HashEmbedder

from .ground import SCOPE, Replying, a_message, contents, opened, raised, stated, taken_in

FACT = [a_message("Fact: The spare key is with Grace.", "e1")]


class Status(Exception):
    """A client error with its status in one of the places that clients use."""

    def __init__(self, place: str, status: Any) -> None:
        super().__init__("overloaded")
        setattr(self, place, status)


PASSES: list[Exception] = [
    TimeoutError(),
    ConnectionResetError("reset"),
    socket.gaierror(-3, "Temporary failure in name resolution"),
    OSError(errno.ENETUNREACH, "Network is unreachable"),
    httpx.ReadTimeout("slow"),
    httpx.HTTPStatusError(
        "503", request=httpx.Request("POST", "http://m"), response=httpx.Response(503)
    ),
    *(Status("status_code", status) for status in (408, 409, 425, 429, 500, 529, "503")),
    Status("code", 503),
    Status("status", 429),
    ModelUnavailable("away"),
    raised(ModelError("no luck"), ConnectionError()),
    raised(RuntimeError("no luck"), raised(ValueError("x"), TimeoutError())),
    ExceptionGroup("several", [ValueError("x"), ConnectionError()]),
]
LASTS: list[Exception] = [
    ModelError("refused"),
    ValueError("x"),
    FileNotFoundError(errno.ENOENT, "no model file"),
    *(Status("status_code", status) for status in (400, 401, 403, 404, 422)),
    Status("code", "context_length_exceeded"),
]


@pytest.mark.parametrize("error", [*PASSES, *LASTS], ids=repr)
def test_what_may_pass_is_told_from_what_lasts(error: Exception):
    """Time-outs, lost connections and overloads are transient, wherever in an error they are."""
    assert transient(error) is (error in PASSES)


async def tried(memories: Memories, clock: FrozenClock, *, hours: float) -> int:
    """Work through these hours of the clock; return the number of attempts."""
    end, tries = clock.now + timedelta(hours=hours), 0
    while clock.now < end:
        before = sum(job.attempts for job in await memories.jobs())
        await memories.work(until_idle=True)
        tries += sum(job.attempts for job in await memories.jobs()) - before
        clock.advance(seconds=60)
    return tries


@pytest.mark.parametrize("wraps", [False, True], ids=["extract", "embed"])
async def test_a_configuration_error_is_a_dead_letter_at_once(wraps: bool):
    """An embedder of the wrong width, or a model that cannot be called, waits for its operator."""
    clock = FrozenClock()
    wrong: dict[str, Any] = {"embedding": HashEmbedder(8), "dimensions": 16} if wraps else {}
    llm = Replying(stated if wraps else ConfigurationError("The model has no such deployment."))
    async with opened(llm=llm, clock=clock, **wrong) as memories:
        await taken_in(memories, FACT)
        (dead,) = await memories.jobs(state="dead")
        assert dead.attempts == 1
        assert not await memories.jobs(state="queued")


@pytest.mark.parametrize("hours", [3, pytest.param(24, marks=pytest.mark.slow)])
async def test_an_outage_of_hours_loses_nothing_and_its_age_is_seen(store_uri: str, hours: int):
    """An outage of hours loses nothing, is seen by its age and is tried at a bounded rate."""
    clock, llm = FrozenClock(), Replying(ConnectionRefusedError("down"))
    options = {"llm": llm, "clock": clock}
    async with opened(store_uri, **options) as memories:
        await memories.remember(SCOPE, FACT, "s", end_after_minutes=15)
        begun = clock.now
        tries = await tried(memories, clock, hours=hours)
        assert 2 * hours * 4 * 0.9 < tries < 2 * (hours * 8 + 12), (
            "every 15 minutes at the longest, and not much more often"
        )
        stats = await memories.stats(SCOPE)
        assert (stats.jobs, stats.oldest_job_at) == ({"queued": 2}, begun)
        assert not await memories.drain(0)
        [looked_at] = [finding for finding in await memories.check() if finding.part == "queue"]
        assert (looked_at.state, f"{hours}.0 h" in looked_at.text) == ("note", True)
    llm.reply = stated
    async with opened(store_uri, **options) as restarted:
        clock.advance(seconds=MAX_PAUSE_SECONDS)
        await restarted.work(until_idle=True)
        assert await contents(restarted) == ["The spare key is with Grace."]
        assert (await restarted.stats(SCOPE)).oldest_job_at is None
        assert await restarted.drain(60) is True


async def test_failures_of_an_outage_do_not_count(monkeypatch: pytest.MonkeyPatch):
    """Failures before and after an outage count and those of it do not."""
    monkeypatch.setattr("kagent_memory.ingestion.worker.MAX_FAILURES", 3)
    clock, llm = FrozenClock(), Replying("no answer")
    async with opened(llm=llm, clock=clock) as memories:
        await taken_in(memories, FACT)
        llm.reply = TimeoutError()
        await tried(memories, clock, hours=5)
        (job,) = await memories.jobs()
        assert (job.state, job.failures) == ("queued", 1)
        llm.reply = "no answer"
        await tried(memories, clock, hours=1)
        (dead,) = await memories.jobs(state="dead")
        assert dead.failures == 3
        await memories.retry_job(dead.id)
        (again,) = await memories.jobs()
        assert (again.state, again.attempts, again.failures) == ("queued", 0, 0)


def test_a_failed_job_waits_twice_as_long_each_time():
    """A failed job waits twice as long each time within its jitter up to a quarter of an hour."""
    for failures, whole in ((1, 2.0), (2, 4.0), (9, 512.0), (10, 900.0), (10**9, 900.0)):
        drawn = [pause_seconds(failures) for _ in range(200)]
        assert whole * 0.75 <= min(drawn) < whole * 0.8
        assert whole * 0.95 < max(drawn) <= whole
