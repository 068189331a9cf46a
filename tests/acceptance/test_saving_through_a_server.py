"""Auto-save through our own server: what it cannot take in waits for a worker that can, and is
never called done.
"""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from adk.scripted import APP, SCOPE, Chat, assistant, contents, scripted
from server.ground import served

from kagent_memory import (
    AutoSave,
    KagentMemoryService,
    Memories,
    Scope,
    enable_memory,
)
from kagent_memory.memories import utc_now
from kagent_memory.records import Message
from kagent_memory.server.auth import Access
from kagent_memory.testing import ScriptedLlm

OFFERED = Access(models=frozenset({"scripted"}))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"libsql:///{tmp_path}/memory.db"


def facts(prompt: str) -> dict[str, Any]:
    found = re.findall(r"My parrot is called (\w+)", prompt)
    return {
        "facts": [{"text": f"The parrot is called {name}."} for name in found],
        "decisions": [],
        "summary": "",
    }


async def talked(service: KagentMemoryService, *names: str) -> Chat:
    agent = enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=1))
    chat = Chat(agent, service)
    for name in names:
        await chat.say(f"My parrot is called {name}")
    return chat


async def test_sessions_wait_for_a_worker_that_can_and_nothing_is_lost(
    uri: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server without the model cannot take in waits, and a later worker finds all of it."""
    monkeypatch.setattr("kagent_memory.memories.opened.CLOSE_SECONDS", 0.05)
    with served(partial(Memories.open, uri), OFFERED) as address:
        async with KagentMemoryService(address) as service:
            chat = await talked(service, "Grace", "Alan")
            await service.end_session(await chat.session(), llm=scripted())
            async with asyncio.timeout(60):
                while True:
                    jobs = await service.memories.jobs()
                    if "has no model of its own" in caplog.text and {job.state for job in jobs} == {
                        "queued"
                    }:
                        break
                    await asyncio.sleep(0.05)
            assert await service.drain(0) is False
            assert {job.model for job in jobs if job.kind != "consolidate"} == {"scripted"}
            assert all("scripted" in job.error or not job.error for job in jobs)
            assert await contents(service) == []
    assert "has no model of its own" in caplog.text
    later = utc_now() + timedelta(hours=1)
    async with await Memories.open(
        uri,
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


@pytest.mark.parametrize(
    "options", [{"llm": False}, {}], ids=["client without models", "server without models"]
)
async def test_turns_are_stored_where_models_are_not_wanted(
    uri: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Where client or server want no model, turns are stored as they were said."""
    with served(partial(Memories.open, uri, **({} if options else {"llm": False}))) as address:
        async with KagentMemoryService(address, **options) as service:
            await talked(service, "Grace")
            assert await service.drain(60) is True
            assert "My parrot is called Grace" in await contents(service)
    assert "has no model of its own" not in caplog.text


async def test_a_named_model_is_nobody_elses_object(uri: str) -> None:
    """A model that a remote caller names is never the object that another caller brought."""
    with served(partial(Memories.open, uri, worker=False), OFFERED) as address:
        async with KagentMemoryService(address) as service:
            await talked(service, "Grace")
    brought = ScriptedLlm(facts, name="scripted")
    async with await Memories.open(uri, worker=False) as memories:
        await memories.remember(
            Scope("", "bob", APP), [Message(text="Hello.", event_id="e")], "s", llm=brought
        )
        await memories.work(until_idle=True)
        assert len(brought.prompts) == 1
        assert "Grace" not in brought.prompts[0]
        assert await memories.drain(0) is False
