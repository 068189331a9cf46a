from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from kagent_memory.memories import Memories

from .ground import Clock, client_of


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memories(clock: Clock) -> AsyncIterator[Memories]:
    async with await Memories.open("libsql:///:memory:", clock=clock, worker=False) as opened:
        yield opened


@pytest.fixture
async def client(memories: Memories, clock: Clock) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(memories, clock) as client:
        yield client
