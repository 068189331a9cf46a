"""Auto-save: when it fires, through callback and plugin, and that it breaks no run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.memory import InMemoryMemoryService
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
    Scope,
    auto_save_session_to_memory_callback,
    enable_memory,
)
from kagent_memory.adk.autosave import Course, due
from kagent_memory.testing import ScriptedLlm

from .scripted import APP, USER, Chat, assistant, call, said, scripted

SCOPE = Scope("", USER, APP)


class Saves:
    """What a service was asked to save, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[bool, float | None, str | None]] = []
        real = KagentMemoryService.remember

        async def noted(service: Any, session: Any, **options: Any) -> bool:
            model = options["llm"]
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


async def contents(service: KagentMemoryService) -> set[str]:
    assert await service.drain() is True
    return {memory.content for memory in (await service.memories.list(SCOPE)).memories}


# -- the decision --


def turn(number: int, *extra: Event) -> list[Event]:
    return [
        Event(author="user", invocation_id=f"i{number}", content=said(f"turn {number}")),
        *extra,
    ]


def fired(course: Course, policy: AutoSave, number: int, events: list[Event]) -> bool:
    return due(policy, *course.step(f"i{number}", events))


def test_turns_before_a_restart_or_elsewhere_count() -> None:
    """Turns of another process count, those before a restart as seen."""
    events = [event for number in range(1, 8) for event in turn(number)]
    assert not fired(Course(), AutoSave(every_turns=5), 7, events)
    assert fired(Course(), AutoSave(every_turns=7), 7, events)
    course, policy = Course(), AutoSave(every_turns=3)
    assert not fired(course, policy, 1, events[:1])
    assert fired(course, policy, 7, events)
    assert not fired(course, policy, 7, events)


def test_tool_calls_count_but_memorys_own_do_not() -> None:
    """Calls of memory's own tools are no reason to save."""

    def calls(number: int, *names: str) -> Event:
        parts = [types.Part(function_call=types.FunctionCall(name=name, args={})) for name in names]
        return Event(
            author="a", invocation_id=f"i{number}", content=types.Content(role="model", parts=parts)
        )

    course, policy = Course(), AutoSave(every_turns=None, every_tool_calls=2)
    first = turn(1, calls(1, "load_memory", "save_memory", "f"))
    assert not fired(course, policy, 1, first)
    assert fired(course, policy, 2, [*first, *turn(2, calls(2, "g"))])


# -- through runners --


async def test_the_callback_saves_every_five_turns(
    service: KagentMemoryService, saves: Saves
) -> None:
    agent = assistant(scripted(), after_agent_callback=auto_save_session_to_memory_callback)
    chat = Chat(agent, service)
    for number in range(1, 7):
        await chat.say(f"I own {number} parrots")
    assert saves.fired == [False, False, False, False, True, False]
    assert {minutes for _, minutes, _ in saves.calls} == {15}
    assert {f"I own {number} parrots" for number in range(1, 6)} <= await contents(service)
    assert "I own 6 parrots" not in await contents(service)


async def test_the_tail_waits_in_the_queue_and_not_in_a_timer(
    service: KagentMemoryService, uri: str
) -> None:
    chat = Chat(enable_memory(assistant(scripted())), service)
    await chat.say("My parrot is called Grace")
    assert await contents(service) == set()
    (job,) = await service.memories.jobs()
    assert job.kind == "session_end"
    await service.close()
    async with KagentMemoryService(uri, llm=False) as later:
        await later.memories.end_session(SCOPE, chat.session_id)
        assert "My parrot is called Grace" in await contents(later)


async def test_the_plugin_saves_after_a_transfer(
    service: KagentMemoryService, saves: Saves
) -> None:
    """The plugin saves where ADK skips the root's callback because the root transferred."""
    helper = assistant(scripted(), name="helper", description="Helps.")
    root = assistant(
        scripted(*[call("transfer_to_agent", agent_name="helper")] * 2),
        name="root",
        sub_agents=[helper],
    )
    chat = Chat(
        root, service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=2), prefetch=None)]
    )
    await chat.say("My parrot is called Grace")
    await chat.say("And I live in Oslo")
    assert saves.fired == [False, True]
    assert {"My parrot is called Grace", "And I live in Oslo"} <= await contents(service)


async def test_callback_and_plugin_together_store_nothing_twice(
    service: KagentMemoryService,
) -> None:
    agent = enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=1))
    chat = Chat(agent, service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))])
    await chat.say("My parrot is called Grace")
    await service.drain()
    memories = [memory.content for memory in (await service.memories.list(SCOPE)).memories]
    assert sorted(memories) == sorted(set(memories))
    assert memories.count("My parrot is called Grace") == 1


async def test_truncated_sessions_are_saved_on_time(
    service: KagentMemoryService, saves: Saves
) -> None:
    config = RunConfig()
    if "get_session_config" in RunConfig.model_fields:
        config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    chat = Chat(
        assistant(scripted()), service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=3))]
    )
    for number in range(1, 7):
        await chat.say(f"I own {number} parrots", run_config=config)
    assert saves.fired == [False, False, True, False, False, True]


async def test_a_resumed_invocation_does_not_count_twice(
    service: KagentMemoryService, saves: Saves
) -> None:
    def approve() -> None:
        """Waits for a person."""

    model = scripted(call("approve"), "waiting", "thanks", "ok", "ok")
    agent = assistant(model, tools=[LongRunningFunctionTool(approve)])
    chat = Chat(
        agent, service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=2), prefetch=None)]
    )
    events = await chat.say("Please approve it")
    pending = next(one for event in events for one in event.get_function_calls())
    reply = types.Part(
        function_response=types.FunctionResponse(
            id=pending.id, name=pending.name, response={"ok": True}
        )
    )
    run = chat.runner.run_async(
        user_id=USER,
        session_id=chat.session_id,
        new_message=types.Content(role="user", parts=[reply]),
    )
    assert [event async for event in run]
    await chat.say("Second turn")
    assert saves.fired == [False, False, True]


async def test_the_agents_own_model_is_at_hand_for_extraction(uri: str, saves: Saves) -> None:
    async with KagentMemoryService(uri, worker=False) as service:
        chat = Chat(
            assistant(scripted()),
            service,
            plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))],
        )
        await chat.say("My parrot is called Grace")
        assert saves.calls == [(True, 15, "scripted")]
        assert {job.model for job in await service.memories.jobs()} == {"scripted"}


async def test_without_a_policy_nothing_is_saved(
    service: KagentMemoryService, saves: Saves
) -> None:
    agent = enable_memory(assistant(scripted()), auto_save=None)
    await Chat(agent, service, plugins=[MemoryPlugin(auto_save=None)]).say(
        "My parrot is called Grace"
    )
    assert saves.calls == []
    quiet = AutoSave(session_end=False, every_turns=9)
    await Chat(enable_memory(assistant(scripted()), auto_save=quiet), service).say(
        "My parrot is called Grace"
    )
    assert saves.calls == []


async def test_services_of_others_get_the_session_at_the_crossing() -> None:
    theirs = InMemoryMemoryService()
    chat = Chat(enable_memory(assistant(scripted()), auto_save=AutoSave(every_turns=2)), theirs)
    await chat.say("My parrot is called Grace")
    assert (await theirs.search_memory(app_name=APP, user_id=USER, query="parrot")).memories == []
    await chat.say("And I live in Oslo")
    assert (await theirs.search_memory(app_name=APP, user_id=USER, query="parrot")).memories


async def test_drain_waits_for_a_save_that_the_turn_did_not_wait_for(
    service: KagentMemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember, began, go_on = Memories.remember, asyncio.Event(), threading.Event()
    here = asyncio.get_running_loop()

    async def slow(self: Memories, *args: Any, **options: Any) -> str | None:
        here.call_soon_threadsafe(began.set)
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
    assert "My parrot is called Grace" in [
        one.content for one in (await service.memories.list(SCOPE)).memories
    ]


async def test_an_agent_tools_own_session_is_not_saved(
    service: KagentMemoryService, saves: Saves
) -> None:
    """The throw-away session of an AgentTool is never saved as the user's."""
    expert = assistant(scripted("42"), name="expert", description="Knows.")
    model = scripted(call("expert", request="Think of my parrot"), "done")
    agent = assistant(model, tools=[AgentTool(expert), LoadMemoryTool()])
    await Chat(agent, service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))]).say(
        "Ask the expert please"
    )
    assert saves.fired == [True]


async def test_closing_the_runner_drains_and_leaves_the_service_open(
    service: KagentMemoryService,
) -> None:
    chat = Chat(
        assistant(scripted()), service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=1))]
    )
    await chat.say("My parrot is called Grace")
    await chat.runner.close()
    found = await service.memories.list(SCOPE)
    assert "My parrot is called Grace" in {memory.content for memory in found.memories}


async def test_an_agents_echo_is_not_learnt(
    service: KagentMemoryService,
) -> None:
    """What memory handed over is not learnt again from the agent that repeats it."""
    known = {"Ada likes oolong tea best", "Ada's parrot is called Grace"}
    await service.memories.add(SCOPE, sorted(known))
    model = scripted(
        "Ada likes oolong tea best.",
        call("load_memory", query="parrot"),
        "Ada's parrot is called Grace",
        "Ada likes oolong tea best!",
    )
    asked = [
        "Which tea do I like best?",
        "What is my parrot called?",
        "Again please, and note that I moved to Oslo",
    ]
    plugins = [MemoryPlugin(auto_save=AutoSave(every_turns=1))]
    chat = Chat(assistant(model, tools=[LoadMemoryTool()]), service, plugins=plugins)
    for question in asked:
        await chat.say(question)
        await service.drain()
    assert await contents(service) == {*known, *asked}


async def test_what_is_rewound_is_never_learnt(
    service: KagentMemoryService,
) -> None:
    """A rewound turn is not learnt even when the inactivity timer already holds it."""
    chat = Chat(
        assistant(scripted()), service, plugins=[MemoryPlugin(auto_save=AutoSave(every_turns=9))]
    )
    for number in range(1, 4):
        await chat.say(f"I own {number} parrots")
    second = [event for event in (await chat.session()).events if event.author == "user"][1]
    await chat.runner.rewind_async(
        user_id=USER, session_id=chat.session_id, rewind_before_invocation_id=second.invocation_id
    )
    await chat.say("I own 4 cats")
    await service.memories.end_session(SCOPE, chat.session_id)
    assert {text for text in await contents(service) if "own" in text} == {
        "I own 1 parrots",
        "I own 4 cats",
    }
    assert await service.remember(await chat.session()) is False


async def compacting(service: KagentMemoryService, policy: AutoSave) -> Chat:
    config = EventsCompactionConfig(compaction_interval=2, overlap_size=0, summarizer=Summed())
    return Chat(
        assistant(scripted()),
        service,
        plugins=[MemoryPlugin(auto_save=policy, prefetch=None)],
        app_options={"events_compaction_config": config},
    )


@pytest.mark.parametrize("summary", [None, PassthroughSummary(), LlmSummary()])
async def test_a_compaction_is_saved_without_a_model_call(uri: str, summary: Any) -> None:
    """The last one too, only what it covers, and not again after a restart."""
    asked: list[str] = []

    def answer(prompt: str) -> Any:
        asked.append(prompt)
        return {"facts": []}

    policy = AutoSave(every_turns=None, compaction=True)
    async with KagentMemoryService(uri, llm=ScriptedLlm(answer), summary=summary) as service:
        chat = await compacting(service, policy)
        for text in ("My parrot is called Grace", "And I live in Oslo", "I am a pilot"):
            await chat.say(text)
        await shows(service, "A parrot in Oslo")
        await chat.say("I fly at night")
        await shows(service, "A parrot in Oslo", "A night flight")
        (timer,) = await service.memories.jobs()
        assert timer.kind == "session_end"
    async with KagentMemoryService(uri, llm=ScriptedLlm(answer), summary=summary) as service:
        chat.runner.memory_service = service
        await chat.say("Good night")
        assert await service.drain()
        await shows(service, "A parrot in Oslo", "A night flight")
    assert asked == []


async def shows(service: KagentMemoryService, *wanted: str) -> None:
    """Wait until these are all memories that there are."""
    for _ in range(400):
        now = {memory.content for memory in (await service.memories.list(SCOPE)).memories}
        if now == set(wanted):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(now)


async def test_a_last_compaction_stands_for_its_turns(
    service: KagentMemoryService,
) -> None:
    """A compaction made after the last turn stands for its turns when the session ends."""
    chat = await compacting(service, AutoSave(compaction=True))
    await chat.say("My parrot is called Grace")
    await chat.say("And I live in Oslo")
    session = await chat.session()
    assert [bool(event.actions.compaction) for event in session.events][-1]
    await service.end_session(session)
    assert await contents(service) == {"A parrot in Oslo"}


class Summed(BaseEventsSummarizer):
    """Sums the first range up, and those after it."""

    text = "A parrot in Oslo"

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event:
        content = types.Content(role="model", parts=[types.Part(text=self.text)])
        self.text = "A night flight"
        start, end = events[0].timestamp, events[-1].timestamp
        compaction = EventCompaction(
            start_timestamp=start, end_timestamp=end, compacted_content=content
        )
        return Event(
            author="user", invocation_id=Event.new_id(), actions=EventActions(compaction=compaction)
        )
