"""KagentMemoryService against ADK's contract: on both stores, over HTTP, and from many loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.session import Session
from google.genai import types

from kagent_memory import (
    ConfigurationError,
    InvalidInput,
    KagentMemoryService,
    LoadMemoryTool,
    MemorySettings,
    NotFound,
    SaveMemoryTool,
    Scope,
    StoreError,
)

from .scripted import APP, USER, assistant, call, responses, said, scripted

WHOSE = {"app_name": APP, "user_id": USER}


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


def session_of(*turns: str, id: str = "s1") -> Session:
    events = [
        Event(
            author="user",
            invocation_id=f"i{number}",
            content=said(text),
            timestamp=1_700_000_000 + number,
        )
        for number, text in enumerate(turns)
    ]
    return Session(id=id, app_name=APP, user_id=USER, events=events)


async def found(service: KagentMemoryService, query: str, **whose: str) -> list[str]:
    answer = await service.search_memory(**{**WHOSE, **whose}, query=query)
    return [memory.content.parts[0].text for memory in answer.memories]


# -- the five methods, on both stores and over HTTP --


async def test_an_added_memory_comes_back_as_it_was_given(
    each_service: KagentMemoryService,
) -> None:
    given = entry(
        "Ada prefers dark mode",
        author="ada",
        timestamp="2026-01-05T09:30:00Z",
        custom_metadata={"project": "x", "nested": {"a": [1, None, "ü"]}, "user_id": "eve"},
    )
    await each_service.add_memory(
        **WHOSE, memories=[given], custom_metadata={"ttl_days": 3, "color": "red"}
    )
    (memory,) = (await each_service.search_memory(**WHOSE, query="dark mode")).memories
    assert memory.id
    assert memory.author == "ada"
    assert memory.content.parts[0].text == "Ada prefers dark mode"
    assert datetime.fromisoformat(memory.timestamp) == datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
    expected = {"project": "x", "nested": {"a": [1, None, "ü"]}, "user_id": "eve", "color": "red"}
    assert memory.custom_metadata == expected
    assert (
        await each_service.memories.get(each_service.scope(**_named(WHOSE)), memory.id)
    ).ttl_days == 3


def _named(whose: dict[str, str]) -> dict[str, str]:
    return {"app_name": whose["app_name"], "user_id": whose["user_id"]}


async def test_understood_keys_set_the_memory_and_the_entrys_win(
    each_service: KagentMemoryService,
) -> None:
    call_wide = {
        "type": "procedural",
        "topics": ["ops"],
        "tags": ["call"],
        "importance": 0.9,
        "ttl_days": 3,
    }
    own = {
        "type": "episodic",
        "tags": "own",
        "pinned": True,
        "origin": "import",
        "ttl": "90000s",
        "session_id": "s9",
    }
    await each_service.add_memory(
        **WHOSE,
        memories=[entry("Deploy with make", custom_metadata=own)],
        custom_metadata=call_wide,
    )
    (memory,) = (await each_service.memories.list(each_service.scope(APP, USER))).memories
    assert (memory.type, memory.topics, memory.tags, memory.importance) == (
        "episodic",
        ("ops",),
        ("own",),
        0.9,
    )
    assert (memory.pinned, memory.origin, memory.ttl_days, memory.session_id) == (
        True,
        "import",
        2,
        "s9",
    )
    assert memory.metadata == {}


async def test_a_session_added_again_adds_nothing(
    each_service: KagentMemoryService,
) -> None:
    """A session is searchable after the drain; adding it again adds nothing."""
    session = session_of("My parrot is called Grace", "The billing service goes live on Thursday")
    await each_service.add_session_to_memory(session)
    assert await each_service.drain() is True
    assert "My parrot is called Grace" in (await found(each_service, "parrot"))[0]
    await each_service.add_session_to_memory(session)
    await each_service.add_events_to_memory(**WHOSE, events=session.events[:1], session_id="s1")
    assert await each_service.drain() is True
    assert len((await each_service.memories.list(each_service.scope(APP, USER))).memories) == 2


async def test_events_take_fields_from_metadata(
    each_service: KagentMemoryService,
) -> None:
    """Metadata of events sets the same fields as that of single memories."""
    session = session_of("My parrot is called Grace", "The billing service goes live on Thursday")
    given = {
        "session_id": "s7",
        "ttl": "86400s",
        "tags": ["pets"],
        "type": "procedural",
        "importance": 0.9,
        "desk": 4,
    }
    await each_service.add_events_to_memory(**WHOSE, events=session.events, custom_metadata=given)
    assert await each_service.drain() is True
    scope = each_service.scope(APP, USER)
    for memory in (await each_service.memories.list(scope)).memories:
        assert (memory.session_id, memory.ttl_days, memory.tags) == ("s7", 1, ("pets",))
        assert (memory.type, memory.importance, memory.metadata) == ("procedural", 0.9, {"desk": 4})
    assert (await found(each_service, "parrot")) != []
    for wrong in ({"ttl": "soon"}, {"type": "song"}, {"tags": [1]}, {"importance": 2}):
        with pytest.raises(InvalidInput):
            await each_service.add_events_to_memory(
                **WHOSE, events=session.events, custom_metadata=wrong
            )


async def test_a_deleted_memory_stays_deleted(
    each_service: KagentMemoryService,
) -> None:
    """A deleted memory does not come back with its session."""
    session = session_of("My parrot is called Grace", "I live in Oslo")
    await each_service.add_session_to_memory(session)
    await each_service.drain()
    (memory,) = [
        one
        for one in (await each_service.search_memory(**WHOSE, query="parrot")).memories
        if "parrot" in str(one)
    ]
    await each_service.delete_memory(**WHOSE, memory_id=memory.id)
    await each_service.add_session_to_memory(session)
    await each_service.drain()
    texts = [
        one.content
        for one in (await each_service.memories.list(each_service.scope(APP, USER))).memories
    ]
    assert texts == ["I live in Oslo"]


async def test_deleting_an_unknown_id_is_an_error(
    each_service: KagentMemoryService,
) -> None:
    """Deleting without an id deletes nothing; an unknown id is an error."""
    await each_service.add_memory(**WHOSE, memories=[entry("Ada prefers dark mode")])
    (memory,) = (await each_service.search_memory(**WHOSE, query="dark")).memories
    await each_service.delete_memory(**WHOSE)
    await each_service.delete_memory(**WHOSE, memory_id=None)
    with pytest.raises(NotFound):
        await each_service.delete_memory(**WHOSE, memory_id="00000000-0000-7000-8000-000000000000")
    with pytest.raises(NotFound):
        await each_service.delete_memory(app_name=APP, user_id="eve", memory_id=memory.id)
    assert await found(each_service, "dark") == ["Ada prefers dark mode"]


async def test_users_and_apps_never_see_each_other(each_service: KagentMemoryService) -> None:
    await each_service.add_memory(**WHOSE, memories=[entry("Ada prefers dark mode")])
    assert await found(each_service, "dark mode", user_id="eve") == []
    assert await found(each_service, "dark mode", app_name="other") == []
    assert await found(each_service, "dark mode", user_id=f"{USER} ", app_name=APP) == []


# -- what cannot be stored --


@pytest.mark.parametrize("each_uri", ["libsql"], indirect=True)
@pytest.mark.parametrize(
    ("given", "metadata"),
    [
        (
            MemoryEntry(
                content=types.Content(
                    parts=[types.Part.from_bytes(data=b"x", mime_type="image/png")]
                )
            ),
            {},
        ),
        (MemoryEntry(content=types.Content(parts=[])), {}),
        (entry("   "), {}),
        (entry("ok", timestamp="yesterday"), {}),
        (entry("ok"), {"type": "odd"}),
        (entry("ok"), {"ttl": "0s"}),  # ttl_days=0 would be for ever
        (entry("ok"), {"ttl_days": "3"}),
        (entry("ok"), {"importance": 2}),
        (entry("ok"), {"topics": [1]}),
        (entry("x" * 20_000), {}),
    ],
)
async def test_an_unfit_entry_refuses_the_whole_call(
    each_service: KagentMemoryService, given: MemoryEntry, metadata: dict[str, Any]
) -> None:
    """One entry that does not fit is an error, and nothing of its call is written."""
    given = given.model_copy(update={"custom_metadata": metadata})
    with pytest.raises(InvalidInput):
        await each_service.add_memory(**WHOSE, memories=[entry("fine before"), given])
    assert (await each_service.memories.list(each_service.scope(APP, USER))).memories == ()


async def test_an_unreachable_database_raises() -> None:
    """ "Unavailable" is an error, never an empty answer."""
    dead = KagentMemoryService("postgresql://nobody@127.0.0.1:9/none?connect_timeout=1", llm=False)
    for use in (
        lambda: dead.search_memory(**WHOSE, query="x"),
        lambda: dead.add_memory(**WHOSE, memories=[entry("x")]),
        lambda: dead.add_session_to_memory(session_of("hello")),
        lambda: dead.delete_memory(**WHOSE, memory_id="x"),
    ):
        with pytest.raises(StoreError):
            await use()
    await dead.close()


# -- composing --


def test_the_constructor_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    threads = threading.active_count()
    KagentMemoryService()
    KagentMemoryService("postgresql://nobody@127.0.0.1:9/none", agents_dir="somewhere")
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"search_limits": 3}, "did you mean search_limit?"),
        ({"sparkle": 3}, "known: batch_size, .*worker"),
        ({"embeding": "ollama/any"}, "did you mean embedding?"),
        ({"uri": "libsql:///memory.db?serch_limit=3"}, "did you mean search_limit?"),
        ({"uri": "kagent://host/db"}, r"kagent:///memory\.db"),
        ({"uri": "memory.db"}, r"libsql:////var/lib/memory\.db"),
        (
            {"uri": "my_user:hunter2@host/db"},
            "^(?!.*hunter2).*postgresql://host/database",
        ),
        ({"uri": Path("memory.db")}, "must be text, such as libsql:///"),
        ({"uri": "postgresql://me:hunter2[@host/db"}, "^(?!.*hunter2).*%5B"),
        ({"settings": {"ttl_days": 3}}, "takes MemorySettings"),
    ],
    ids=str,
)
def test_a_wrong_argument_names_the_right_one(arguments: Any, advice: str) -> None:
    """A wrong argument is an error of the constructor that says what to write instead."""
    with pytest.raises(ConfigurationError, match=advice):
        KagentMemoryService(**arguments)


def test_a_slip_in_the_environment_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KAGENT_MEMORY_SERCH_LIMIT", "3")
    monkeypatch.setenv("KAGENT_MEMORY_SERVICE_HOST", "10.0.0.7")  # Kubernetes' own
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        KagentMemoryService()
    assert caplog.messages == [
        "KAGENT_MEMORY_SERCH_LIMIT has no effect; did you mean KAGENT_MEMORY_SEARCH_LIMIT?"
    ]


async def test_relative_files_are_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with KagentMemoryService(
        "kagent:///mine.db?search_limit=1", llm=False, agents_dir="/elsewhere"
    ) as service:
        await service.add_memory(**WHOSE, memories=[entry("dark one"), entry("dark two")])
        assert len(await found(service, "dark")) == 1
    assert (tmp_path / "mine.db").is_file()


async def test_tenant_and_scope_of_choose_the_scope(uri: str) -> None:
    """The tenant and `scope_of` decide whose memories these are."""
    async with KagentMemoryService(uri, llm=False, settings=MemorySettings(tenant="t1")) as service:
        assert service.scope(APP, USER) == Scope("t1", USER, APP)
        await service.add_memory(**WHOSE, memories=[entry("dark mode")])
    async with KagentMemoryService(
        uri, llm=False, scope_of=lambda app, user: Scope("t2", user, "all apps")
    ) as other:
        assert await found(other, "dark mode") == []
        await other.add_memory(**WHOSE, memories=[entry("dark chocolate")])
        assert await found(other, "dark", app_name="another") == ["dark chocolate"]


async def test_after_close_the_next_call_opens_again(uri: str) -> None:
    service = KagentMemoryService(uri, llm=False)
    await service.close()
    await service.add_memory(**WHOSE, memories=[entry("dark mode")])
    await service.close()
    await service.close()
    assert await found(service, "dark mode") == ["dark mode"]
    await service.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "kagent-memory-loop"]


# -- many loops --


def test_every_event_loop_and_thread_may_use_the_same_service(uri: str) -> None:
    service = KagentMemoryService(uri, llm=False)
    failures: list[BaseException] = []

    def one_loop(number: int) -> None:
        async def use() -> None:
            for turn in range(5):
                await service.add_memory(**WHOSE, memories=[entry(f"thread {number} fact {turn}")])
                assert await found(service, f"thread {number} fact {turn}")

        try:
            asyncio.run(use())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one_loop, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counted = asyncio.run(service.memories.stats(service.scope(APP, USER)))
    assert counted.visible == 40
    asyncio.run(service.close())


def test_the_sync_runner_saves_and_finds(uri: str) -> None:
    """ADK's blocking runner, with a new loop for every call, saves and finds."""
    service = KagentMemoryService(uri, llm=False)
    model = scripted(
        call("save_memory", content="Ada prefers dark mode"),
        "saved",
        call("load_memory", query="dark"),
        "x",
    )
    sessions = InMemorySessionService()
    agent = assistant(model, tools=[SaveMemoryTool(), LoadMemoryTool()])
    runner = Runner(app_name=APP, agent=agent, session_service=sessions, memory_service=service)
    session = asyncio.run(sessions.create_session(app_name=APP, user_id=USER))
    for text in ("remember dark mode", "what do I prefer?"):
        list(runner.run(user_id=USER, session_id=session.id, new_message=said(text)))
    assert responses(model.requests[-1])[-1]["memories"][0]["text"] == "Ada prefers dark mode"
    asyncio.run(service.close())


async def test_a_slow_embedder_never_stalls_the_callers_loop(uri: str) -> None:
    began, released, waited = threading.Event(), threading.Event(), list[bool]()

    class Blocking:
        name = "blocking"

        async def embed(self, texts: Any, *, kind: str) -> Any:
            import numpy as np

            began.set()
            waited.append(released.wait(60))
            return np.ones((len(texts), 4), dtype=np.float32)

    async with KagentMemoryService(uri, embedding=Blocking(), llm=False) as service:
        adding = asyncio.ensure_future(service.add_memory(**WHOSE, memories=[entry("dark mode")]))
        while not began.is_set():  # noqa: ASYNC110 the loop itself has to turn
            await asyncio.sleep(0.001)
        released.set()
        await adding
    assert all(waited), "the caller's loop stood still until it gave up"
