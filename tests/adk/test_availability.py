"""A turn tells a slow call from a database that answers nothing."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from kagent_memory.adk import loop_thread
from kagent_memory.adk.loop_thread import Availability


async def late(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@pytest.mark.parametrize("opened", [True, False])
async def test_a_slow_call_is_waited_for(opened: bool, monkeypatch: pytest.MonkeyPatch):
    """A slow call is waited for while the database answers pings, or is being opened."""
    monkeypatch.setattr(loop_thread, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(loop_thread, "PING_SECONDS", 0.1)
    ping = Future[object]() if opened else None
    if ping:
        asyncio.get_running_loop().call_later(0.15, ping.set_result, None)
    assert await Availability(lambda: ping).guard(late(0.3)) == "done"
