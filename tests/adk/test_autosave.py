"""Auto-save: when it fires, through callback and plugin, and that it breaks no run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.genai import types

from kagent_memory import (
    AutoSave,
    KagentMemoryService,
    LlmSummary,
    LoadMemoryTool,
    Memories,
    MemoryPlugin,
    PassthroughSummary,
    auto_save_session_to_memory_callback,
    enable_memory,
    tenant,
)
from kagent_memory.testing import ScriptedLlm

from .scripted import SCOPE, USER, Chat, assistant, call, contents, scripted, talk
from .test_off_record import set_state


class Saves:
    """What a service was asked to save, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[bool, float | None, str | None]] = []
        self.events: list[int] = []
        real = KagentMemoryService.remember

        async def noted(service: Any, session: Any, **options: Any) -> bool:
            model = options["llm"]
            self.events.append(len(session.events))
            self.calls.append(
                (options["save"], options["end_after_minutes"], model and model.model)
            )
            return await real(service, session, **options)

        monkeypatch.setattr(KagentMemoryService, "remember", noted)

    @property
    def fired(self) -> list[bool]:
        return [save for save, _, _ in self.calls]


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> Saves:
    return Saves(monkeypatch)


def saving(every_turns: int | None, **options: Any) -> MemoryPlugin:
    return MemoryPlugin(auto_save=AutoSave(every_turns=every_turns, **options), prefetch=None)


async def drained(service: KagentMemoryService) -> list[str]:
    assert await service.drain() is True
    return await contents(service)


# -- turns and calls --


async def test_turns_of_another_process_count(uri: str, saves: Saves):
    """Turns before a restart count towards a threshold, and were saved there."""
    chat = Chat(assistant(scripted()), None, plugins=[saving(2)])
    for number in range(1, 6):
        async with KagentMemoryService(uri, llm=False) as chat.runner.memory_service:
            await chat.say(f"I own {number} parrots")
    assert saves.fired == [False, True, False, True, False]


async def test_tool_calls_count_but_memorys_own_do_not(service: KagentMemoryService, saves: Saves):
    """Calls of memory's own tools are no reason to save."""

    def weigh() -> str:
        """Weighs the parrot."""
        return "400 g"

    calls = [call("load_memory", query="parrot"), call("weigh")], "ok", call("weigh")
    plugins = [saving(None, every_tool_calls=2)]
    chat = talk(service, *calls, tools=[LoadMemoryTool(), weigh], plugins=plugins)
    for _ in range(2):
        await chat.say("How heavy is my parrot?")
    assert saves.fired == [False, True]


async def test_the_callback_saves_every_five_turns(service: KagentMemoryService, saves: Saves):
    """By default a session is saved at every fifth turn, and each turn arms its timer."""
    agent = assistant(scripted(), after_agent_callback=auto_save_session_to_memory_callback)
    chat = Chat(agent, service)
    for number in range(1, 7):
        await chat.say(f"I own {number} parrots")
    assert saves.fired == [False, False, False, False, True, False]
    assert {minutes for _, minutes, _ in saves.calls} == {15}
    stored = await drained(service)
    assert {f"I own {number} parrots" for number in range(1, 6)} <= set(stored)
    assert "I own 6 parrots" not in stored


async def test_the_tail_waits_in_the_queue(service: KagentMemoryService, saves: Saves, uri: str):
    """A turn hands over its own events, however long the session has become and nothing was saved;
    they are durable: another process ends the session.
    """
    chat = talk(service, plugins=[saving(None)])
    texts = {f"I own {number} parrots" for number in range(4)}
    for text in sorted(texts):
        await chat.say(text)
    assert saves.events == [2, 2, 2, 2]
    assert await drained(service) == []
    assert [job.kind for job in await service.memories.jobs()] == ["session_end"]
    await service.close()
    async with KagentMemoryService(uri, llm=False) as later:
        await later.memories.end_session(SCOPE, chat.session_id)
        assert texts <= set(await drained(later))


async def test_the_plugin_saves_after_a_transfer(service: KagentMemoryService, saves: Saves):
    """The plugin saves where ADK skips the root's callback because the root transferred."""
    helper = assistant(scripted(), name="helper", description="Helps.")
    root = assistant(
        scripted(*[call("transfer_to_agent", agent_name="helper")] * 2),
        name="root",
        sub_agents=[helper],
    )
    chat = Chat(root, service, plugins=[saving(2)])
    await chat.say("My parrot is called Grace")
    await chat.say("And I live in Oslo")
    assert saves.fired == [False, True]
    assert {"My parrot is called Grace", "And I live in Oslo"} <= set(await drained(service))


async def test_callback_and_plugin_store_nothing_twice(service: KagentMemoryService):
    """An agent with the callback in an app with the plugin stores each turn once, and the runner's
    end drains the queue and leaves the service open.
    """
    agent = enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=1))
    chat = Chat(agent, service, plugins=[saving(1)])
    await chat.say("My parrot is called Grace")
    await chat.runner.close()
    stored = await contents(service)
    assert sorted(stored) == sorted(set(stored))
    assert "My parrot is called Grace" in stored


async def test_truncated_sessions_are_saved_on_time(service: KagentMemoryService, saves: Saves):
    """Turns count also where ADK loads only a session's last events."""
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    chat = talk(service, plugins=[saving(3)])
    for number in range(1, 7):
        await chat.say(f"I own {number} parrots", run_config=config)
    assert saves.fired == [False, False, True, False, False, True]


async def test_a_resumed_invocation_does_not_count_twice(
    service: KagentMemoryService, saves: Saves
):
    """A turn that waited for a person and went on is one turn."""

    def approve() -> None:
        """Waits for a person."""

    tools = [LongRunningFunctionTool(approve)]
    chat = talk(service, call("approve"), "waiting", "ok", tools=tools, plugins=[saving(2)])
    events = await chat.say("Please approve it")
    pending = next(call for event in events for call in event.get_function_calls())
    answer = types.FunctionResponse(id=pending.id, name=pending.name, response={"ok": True})
    content = types.Content(role="user", parts=[types.Part(function_response=answer)])
    resumed = chat.runner.run_async(user_id=USER, session_id=chat.session_id, new_message=content)
    assert [event async for event in resumed]
    await chat.say("Second turn")
    assert saves.fired == [False, False, True]


async def test_the_agents_own_model_is_at_hand(uri: str, saves: Saves):
    """A session is queued with the model of its agent, for a service without one."""
    async with KagentMemoryService(uri, worker=False) as service:
        await talk(service, plugins=[saving(1)]).say("I am Ada")
        assert saves.calls == [(True, 15, "scripted")]
        assert {job.model for job in await service.memories.jobs()} == {"scripted"}


async def test_drain_waits_for_a_save_in_the_background(
    service: KagentMemoryService, monkeypatch: pytest.MonkeyPatch
):
    """A save that the turn did not wait for is finished, and drain waits for it."""
    remember, began, go_on = Memories.remember, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    async def slow(self: Memories, *args: Any, **options: Any) -> str | None:
        loop.call_soon_threadsafe(began.set)
        await asyncio.to_thread(go_on.wait, 30)
        return await remember(self, *args, **options)

    monkeypatch.setattr(Memories, "remember", slow)
    monkeypatch.setattr("kagent_memory.adk.autosave.SAVE_SECONDS", 0.05)
    policy = AutoSave(every_turns=1)
    chat = Chat(enable_memory(assistant(scripted("hello")), auto_save=policy), service)
    await chat.say("My parrot is called Grace")
    await began.wait()
    assert await service.drain(0.05) is False
    go_on.set()
    assert await service.drain(60) is True
    assert "My parrot is called Grace" in await contents(service)


async def test_an_agent_tools_own_session_is_not_saved(service: KagentMemoryService, saves: Saves):
    """The throw-away session of an AgentTool is never saved as the user's."""
    expert = assistant(scripted("42"), name="expert", description="Knows.")
    model = scripted(call("expert", request="Think of my parrot"), "done")
    agent = assistant(model, tools=[AgentTool(expert), LoadMemoryTool()])
    await Chat(agent, service, plugins=[saving(1)]).say("Ask the expert please")
    assert saves.fired == [True]


async def test_an_agents_echo_is_not_learnt(service: KagentMemoryService):
    """What memory handed over is not learnt again from the agent that repeats it."""
    facts = ["Ada likes oolong tea best", "Ada's parrot is called Grace"]
    await service.memories.add(SCOPE, facts)
    model = scripted(
        "Ada likes oolong tea best.",
        call("load_memory", query="parrot"),
        "Ada's parrot is called Grace",
        "Ada likes oolong tea best!",
    )
    questions = [
        "Which tea do I like best?",
        "What is my parrot called?",
        "Again please, and note that I moved to Oslo",
    ]
    plugins = [MemoryPlugin(auto_save=AutoSave(every_turns=1))]
    chat = Chat(assistant(model, tools=[LoadMemoryTool()]), service, plugins=plugins)
    for question in questions:
        await chat.say(question)
        await service.drain()
    assert set(await contents(service)) == {*facts, *questions}


async def test_what_is_rewound_is_never_learnt(service: KagentMemoryService):
    """A rewound turn is not learnt even when the inactivity timer already holds it."""
    chat = talk(service, plugins=[saving(9)])
    for number in range(1, 4):
        await chat.say(f"I own {number} parrots")
    second = [event for event in (await chat.session()).events if event.author == "user"][1]
    await chat.runner.rewind_async(
        user_id=USER, session_id=chat.session_id, rewind_before_invocation_id=second.invocation_id
    )
    await chat.say("I own 4 cats")
    await service.memories.end_session(SCOPE, chat.session_id)
    stored = {text for text in await drained(service) if "own" in text}
    assert stored == {"I own 1 parrots", "I own 4 cats"}
    assert await service.remember(await chat.session()) is False


# -- compaction --


class Summed(BaseEventsSummarizer):
    """Sums the first range up, and those after it."""

    text = "A parrot in Oslo"

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=self.text)])
        self.text = "A night flight"
        compaction = EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[-1].timestamp,
            compacted_content=content,
        )
        return Event(
            author="user", invocation_id=Event.new_id(), actions=EventActions(compaction=compaction)
        )


def compacting(service: KagentMemoryService, **policy: Any) -> Chat:
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=0, summarizer=Summed())
    return Chat(
        assistant(scripted()),
        service,
        plugins=[saving(None, compaction=True, **policy)],
        app_options={"events_compaction_config": config},
    )


@pytest.mark.parametrize("summary", [None, PassthroughSummary, LlmSummary])
async def test_a_compaction_is_saved_without_a_model(uri: str, summary: Callable[[], Any] | None):
    """A compaction is saved when ADK makes it, the last one too, and not again after a restart."""
    llm = ScriptedLlm(lambda _: pytest.fail("the model was asked"))
    options: dict[str, Any] = {"llm": llm, "summary": summary and summary()}
    async with KagentMemoryService(uri, **options) as service:
        chat = compacting(service)
        for text in ("My parrot is called Grace", "And I live in Oslo", "I am a pilot"):
            await chat.say(text)
        assert await drained(service) == ["A parrot in Oslo"]
        (timer,) = await service.memories.jobs()
        assert timer.kind == "session_end"
        await chat.say("I fly at night")
        assert await drained(service) == ["A parrot in Oslo", "A night flight"]
    async with KagentMemoryService(uri, **options) as service:
        chat.runner.memory_service = service
        await chat.say("Good night")
        assert await drained(service) == ["A parrot in Oslo", "A night flight"]


@pytest.mark.parametrize("last", ["drain", "close", "loop", "time"])
def test_a_last_compaction_outlives_its_run(uri: str, last: str, monkeypatch: pytest.MonkeyPatch):
    """The last compaction is kept, for the run's tenant, where the service is drained or closed or
    the loop ends soon after the run, and after some time without any of these.
    """
    service = KagentMemoryService(uri, llm=False)
    scope = replace(SCOPE, tenant="acme")
    if last == "time":
        monkeypatch.setattr("kagent_memory.adk.autosave.COMPACTION_CHECK_SECONDS", [0.01] * 1000)

    async def conversation() -> None:
        chat = compacting(service)
        with tenant("acme"):
            await chat.say("My parrot is called Grace")
            await chat.say("And I live in Oslo")
        if last == "drain":
            assert await service.drain() is True
        if last == "close":
            await service.close()
        for _ in range(500 if last == "time" else 0):
            if await contents(service, scope):
                break
            await asyncio.sleep(0.02)

    with service:
        asyncio.run(conversation())
    with KagentMemoryService(uri, llm=False) as later:
        assert later.sync.drain(30)
        page = later.sync.list(scope)
        assert [memory.content for memory in page.memories] == ["A parrot in Oslo"]


async def test_a_compaction_of_hidden_turns_is_not_saved(service: KagentMemoryService):
    """A summary of turns off the record stays out, though the state changed before and after."""
    chat = talk(service, plugins=[saving(None, compaction=True)])
    await chat.say("I am a pilot")
    await set_state(chat, "off")
    hidden = await chat.say("My parrot lives in Oslo")
    await set_state(chat, None)
    summary = await Summed().maybe_summarize_events(events=hidden)
    await chat.sessions.append_event(await chat.session(), summary)
    await chat.say("I fly at night")
    assert await drained(service) == []


async def test_a_last_compaction_stands_for_its_turns(service: KagentMemoryService):
    """A compaction made after the last turn stands for its turns when the session ends."""
    chat = compacting(service)
    await chat.say("My parrot is called Grace")
    await chat.say("And I live in Oslo")
    session = await chat.session()
    assert session.events[-1].actions.compaction
    await service.end_session(session)
    assert await drained(service) == ["A parrot in Oslo"]
