"""A turn tells a slow call from a database that answers nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from kagent_memory.adk import loop_thread
from kagent_memory.adk.loop_thread import Availability


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_thread, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(loop_thread, "PING_SECONDS", 0.1)
    monkeypatch.setattr(loop_thread, "AWAY_SECONDS", 0.01)


class Pings:
    """Pings that are answered when a test says so."""

    def __init__(self, *, opened: bool = True) -> None:
        self.opened = opened
        self.asked: list[Future[object]] = []

    def __call__(self) -> Future[object] | None:
        if not self.opened:
            return None
        self.asked.append(Future())
        return self.asked[-1]


async def late(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@pytest.mark.parametrize("opened", [True, False])
async def test_a_slow_call_is_waited_for(
    opened: bool,
):
    """A slow call is waited for while the database answers pings, or is being opened."""
    pings = Pings(opened=opened)
    asyncio.get_running_loop().call_later(
        0.15, lambda: [ping.set_result(None) for ping in pings.asked]
    )
    assert await Availability(pings).guard(late(0.3)) == "done"
