"""Pages as HTTP answers: what a form may hold, and what is shown when there is much."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Scope, new_id
from kagent_memory.server.jobs import SHOWN
from kagent_memory.stores.base import Job

from .ground import Clock

SCOPE = Scope("", "ada", "demo")


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    await client.get("/")
    return await client.post(path, data={"csrf": client.cookies["kagent_memory_csrf"], **fields})


@pytest.mark.parametrize("uri", ["http://[", "postgresql://[::1", "", "ftp://host", "memory.db"])
async def test_a_store_that_has_no_address_is_told_so_in_the_form(client: httpx.AsyncClient, uri: str):
    answer = await sent(client, "/connect", app="demo", uri=uri, ttl_days="15")
    assert answer.status_code == 400
    assert "address must start with" in answer.text


async def test_a_long_queue_does_not_hide_dead_letters(client: httpx.AsyncClient, memories: Memories, clock: Clock):
    def job(session: str) -> Job:
        now = clock()
        return Job(id=new_id(now), scope=SCOPE, kind="transcript", session_id=session, run_after=now, created_at=now)

    await memories.store.enqueue([job("late")])
    claimed: Any = await memories.store.claim("tests", now=clock(), lease_seconds=5)
    clock.forward(seconds=-60)
    await memories.store.release(claimed, run_after=clock(), error="it failed", dead=True)
    await memories.store.enqueue([job(f"queued-{number}") for number in range(SHOWN + 1)])
    text = (await client.get("/jobs")).text
    assert text.index("it failed") < text.index("queued-0")
    assert "Only the first" in text
