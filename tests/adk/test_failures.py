"""Whatever a memory service throws, an agent's run goes on; and ADK's own context reaches all five
methods.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from google.adk.agents.context import Context
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from kagent_memory import (
    AutoSave,
    ConfigurationError,
    ForgetMemoryTool,
    KagentMemoryService,
    LoadMemoryTool,
    MemoryPlugin,
    PrefetchMemoryTool,
    PreloadMemoryTool,
    RecallMemoryTool,
    SaveMemoryTool,
    enable_memory,
)

from .scripted import APP, USER, Chat, assistant, call, responses, scripted


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception) -> KagentMemoryService:
    """A service that throws this whatever it is asked."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr("kagent_memory.remote.open_memories", fail)
    return KagentMemoryService("libsql:///:memory:", llm=False)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("secret words"),
        KeyError("secret words"),
        OSError(),
        TimeoutError(),
        NotImplementedError(),
    ],
)
async def test_no_failure_of_memory_reaches_the_run_or_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = [
        SaveMemoryTool(),
        LoadMemoryTool(),
        RecallMemoryTool(),
        ForgetMemoryTool(),
        PrefetchMemoryTool(),
    ]
    model = scripted(
        call("save_memory", content="x"),
        call("load_memory", query="x"),
        call("recall_memory", query="x"),
        call("forget_memory", query="x"),
        "done",
    )
    agent = enable_memory(
        assistant(model), tools=[*tools, PreloadMemoryTool()], auto_save=AutoSave(every_turns=1)
    )
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        chat = Chat(
            agent,
            broken(monkeypatch, error),
            plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
        )
        events = await chat.say("What do you know about me?")
    assert events[-1].content.parts[0].text == "done"
    assert responses(model.requests[-1]) == [{"error": "memory unavailable"}] * 4
    assert "auto-save" in caplog.text
    assert "prefetch_memory" in caplog.text
    assert "secret words" not in caplog.text


async def test_the_log_tells_the_operator_what_to_change(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = scripted(call("load_memory", query="tea"), "done")
    wrong = ConfigurationError("The URI postgresql://ada:hunter2pass@db/x is none; write another.")
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        chat = Chat(
            enable_memory(assistant(model), auto_save=AutoSave(every_turns=1)),
            broken(monkeypatch, wrong),
        )
        await chat.say("Which tea do I like?")
    assert responses(model.requests[-1]) == [{"error": "memory unavailable"}]
    for what in ("prefetch_memory", "load_memory", "auto-save"):
        assert (
            f"{what}: memory unavailable (ConfigurationError): The URI postgresql://" in caplog.text
        )
    assert "is none; write another." in caplog.text
    assert "hunter2pass" not in caplog.text


async def test_adks_own_context_reaches_the_service(service: KagentMemoryService) -> None:
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="Ada prefers dark mode")]))
    seen: list[Any] = []

    async def use(tool_context: Context) -> str:
        """Uses memory as any tool of ADK may."""
        await tool_context.add_memory(
            memories=[entry], custom_metadata={"session_id": tool_context.session.id}
        )
        await tool_context.add_events_to_memory(events=tool_context.session.events[:1])
        await tool_context.add_session_to_memory()
        found = (await tool_context.search_memory("dark mode")).memories
        seen.append(found[0].content.parts[0].text)
        await service.delete_memory(app_name=APP, user_id=USER, memory_id=found[0].id)
        seen.append((await tool_context.search_memory("dark mode")).memories)
        return "ok"

    await Chat(assistant(scripted(call("use"), "done"), tools=[use]), service).say(
        "My parrot is called Grace"
    )
    assert seen == ["Ada prefers dark mode", []]
    await service.drain()
    stored = (await service.memories.list(service.scope(APP, USER))).memories
    assert [memory.content for memory in stored].count("My parrot is called Grace") == 1


async def test_draining_an_unreachable_store_is_false_and_no_error() -> None:
    dead = KagentMemoryService("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1", llm=False)
    assert await dead.drain(0.5) is False
    await dead.close()
