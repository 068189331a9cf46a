"""Off the record: what is said in such a run is written nowhere, at once or later."""

from __future__ import annotations

from typing import Any

import pytest
from acceptance.test_forgotten_for_good import disk
from google.adk.agents.run_config import RunConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.session import Session

from kagent_memory import AutoSave, KagentMemoryService, MemoryPlugin, enable_memory
from kagent_memory.adk.sessions import recordable

from .scripted import (
    APP,
    SCOPE,
    USER,
    Chat,
    assistant,
    call,
    contents,
    responses,
    scripted,
    session_of,
    texts,
    user_message,
)

CANARY = "quokkamarmalade"
EVERY_TURN = AutoSave(every_turns=1)


@pytest.fixture(params=["uri", "postgres_uri"])
def stored_uri(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def marked(mode: str) -> RunConfig:
    return RunConfig(custom_metadata={"memory": mode})


def chat_of(agent: Any, service: Any, policy: AutoSave | None = EVERY_TURN) -> Chat:
    return Chat(
        enable_memory(agent, auto_save=policy), service, plugins=[MemoryPlugin(auto_save=policy)]
    )


@pytest.mark.parametrize("mode", ["off", "read"])
async def test_nothing_of_a_run_off_the_record_is_on_disk(stored_uri: str, mode: str):
    """No byte of such a run is stored or queued, by it, by a later turn or by the session's end."""
    model = scripted(
        "fine", call("save_memory", content=f"The user keeps {CANARY}"), f"A {CANARY}, noted", "ok"
    )
    async with KagentMemoryService(stored_uri, llm=False) as service:
        chat = chat_of(assistant(model), service)
        await chat.say("My parrot is called Grace")
        await chat.say(f"My secret is {CANARY}", run_config=marked(mode))
        assert CANARY not in disk(stored_uri)()
        await chat.say("I live in Oslo")
        await service.end_session(await chat.session())
        await service.add_session_to_memory(await chat.session())
        events = (await chat.session()).events
        await service.add_events_to_memory(
            app_name=APP, user_id=USER, events=events, session_id="again"
        )
        assert await service.drain()
        stored = set(await contents(service))
    assert {"My parrot is called Grace", "I live in Oslo"} <= stored
    assert CANARY not in disk(stored_uri)()


async def test_off_reads_nothing_and_read_reads(service: KagentMemoryService):
    """Off hands nothing to the model; read prefetches and answers searches."""
    await service.memories.add(SCOPE, ["The user's parrot is called Grace"])
    for mode, reads in (("off", False), ("read", True)):
        model = scripted(call("load_memory", query="parrot called"), "ok")
        await chat_of(assistant(model), service).say(
            "What is my parrot called?", run_config=marked(mode)
        )
        assert any("Grace" in text for text in texts(model.requests[0])) is reads
        answer = responses(model.requests[1])[0]
        assert ("Grace" in str(answer)) is reads
        assert ("error" in answer) is not reads


async def test_the_sessions_state_keeps_it_off_the_record(service: KagentMemoryService, uri: str):
    """Everything said while the session's state says "off" stays off the record, also after the
    state changes.
    """
    chat = chat_of(assistant(scripted()), service)
    await chat.say("My parrot is called Grace")
    await set_state(chat, "off")
    await chat.say(f"My secret is {CANARY}")
    await set_state(chat, None)
    await chat.say("I live in Oslo")
    assert await service.drain()
    stored = set(await contents(service))
    assert {"My parrot is called Grace", "I live in Oslo"} <= stored
    assert CANARY not in disk(uri)()


async def set_state(chat: Chat, value: str | None) -> None:
    event = Event(
        author="system", invocation_id="state", actions=EventActions(state_delta={"memory": value})
    )
    if value is None:
        event.invocation_id = "state again"
    await chat.sessions.append_event(await chat.session(), event)


def test_a_session_that_began_off_the_record_stays_so():
    """A state that stood from the beginning covers all events up to its first change."""
    first = Event(author="user", invocation_id="i1", content=user_message("one"))
    back = Event(
        author="user", invocation_id="i2", actions=EventActions(state_delta={"memory": "on"})
    )
    assert recordable([first], {"memory": "off"}) == []
    assert recordable([first, back], {"memory": "on"}) == [back]
    assert recordable([first], {"memory": ["a user's own value"]}) == [first]


async def test_a_resumed_run_stays_off_the_record(service: KagentMemoryService):
    """A run off the record that is resumed later stays so, however much of its session is ingested,
    and the session's end is waited for all the same.
    """
    session = session_of("I live in Oslo", CANARY, "I fly", "I sail", CANARY)
    first, hidden, *others, resumed = session.events
    hidden.custom_metadata, resumed.invocation_id = {"memory": "off"}, hidden.invocation_id
    session.events = [first]
    await grown(service, session, [hidden])
    await service.remember(session, save=False, end_after_minutes=9)
    assert [job.kind for job in await service.memories.jobs()] == ["session_end"]
    for events in (others, [resumed]):
        await grown(service, session, events)
    assert set(await contents(service)) == {"I live in Oslo", "I fly", "I sail"}


async def test_a_state_that_stays_on_hides_nothing(service: KagentMemoryService):
    """A session whose state says "on" again and again is learnt as a whole."""
    session = session_of("I live in Oslo", "I fly", "I sail")
    for event in session.events[::2]:
        event.actions.state_delta = {"memory": "on"}
    new, session.events = session.events[1:], session.events[:1]
    await grown(service, session, new)
    assert set(await contents(service)) == {"I live in Oslo", "I fly", "I sail"}


async def grown(service: KagentMemoryService, session: Session, new: list[Event]) -> None:
    """Add a session until memory knows that it is ingested, and once more with new events."""
    for events in ([], [], new):
        session.events += events
        await service.add_session_to_memory(session)
        assert await service.drain()


@pytest.mark.parametrize(
    "policy",
    [
        None,
        AutoSave(session_end=False, every_turns=9),
        AutoSave(every_turns=1, enabled=False),
    ],
    ids=["none", "early", "off"],
)
async def test_without_a_policy_that_holds_nothing_is_saved(
    service: KagentMemoryService, uri: str, policy: AutoSave | None
):
    """Nothing is written or queued without a policy, before it holds, or where it is off."""
    await chat_of(assistant(scripted()), service, policy).say(f"My secret is {CANARY}")
    assert list(await service.memories.jobs()) == []
    assert CANARY not in disk(uri)()
