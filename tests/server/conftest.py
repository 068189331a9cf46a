from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.testing import FrozenClock

from .ground import START, client_of


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(START)


@pytest.fixture
async def memories(clock: FrozenClock) -> AsyncIterator[Memories]:
    async with await Memories.open("libsql:///:memory:", clock=clock, worker=False) as opened:
        yield opened


@pytest.fixture
async def client(memories: Memories, clock: FrozenClock) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(memories, clock) as client:
        yield client
