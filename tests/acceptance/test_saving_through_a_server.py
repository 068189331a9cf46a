"""Auto-save through our own server: jobs that it cannot process wait for a worker that can."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from adk.scripted import SCOPE, Chat, assistant, contents, scripted
from server.ground import served

from kagent_memory import (
    AutoSave,
    KagentMemoryService,
    Memories,
    enable_memory,
)
from kagent_memory.memories import utc_now
from kagent_memory.server.auth import Access
from kagent_memory.testing import ScriptedLlm

OFFERED = Access(models=frozenset({"scripted"}))


def facts(prompt: str) -> dict[str, Any]:
    names = re.findall(r"My parrot is called (\w+)", prompt)
    return {
        "facts": [{"text": f"The parrot is called {name}."} for name in names],
        "decisions": [],
        "summary": "",
    }


async def test_sessions_wait_for_a_worker_that_can_and_nothing_is_lost(
    file_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """Sessions that a server cannot process without the model wait, and a later worker processes
    them all.
    """
    monkeypatch.setattr("kagent_memory.memories.maintenance.CLOSE_SECONDS", 0.05)
    with served(partial(Memories.open, file_uri), OFFERED) as address:
        async with KagentMemoryService(address) as service:
            agent = enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=1))
            chat = Chat(agent, service)
            for name in ("Grace", "Alan"):
                await chat.say(f"My parrot is called {name}")
            await service.end_session(await chat.session(), llm=scripted())
            async with asyncio.timeout(60):
                while True:
                    jobs = await service.memories.jobs()
                    if {job.state for job in jobs} == {"queued"}:
                        break
                    await asyncio.sleep(0.05)
            assert await service.drain(0) is False
            assert {job.model for job in jobs if job.kind != "consolidate"} == {"scripted"}
            assert all("scripted" in job.error or not job.error for job in jobs)
            assert await contents(service) == []
    later = utc_now() + timedelta(hours=1)
    async with await Memories.open(
        file_uri,
        worker=False,
        resolve_llm=lambda name: ScriptedLlm(facts, name=name),
        clock=lambda: later,
    ) as able:
        for job in await able.jobs():
            assert job.state == "queued"
        await able.work(until_idle=True)
        assert await able.drain(0)
        learnt = {memory.content for memory in (await able.list(SCOPE)).memories}
        assert learnt == {"The parrot is called Grace.", "The parrot is called Alan."}
