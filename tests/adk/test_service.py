"""KagentMemoryService against ADK's contract: on both stores, over HTTP, and from many loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.context import Context
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from kagent_memory import (
    ConfigurationError,
    InvalidInput,
    KagentMemoryService,
    MemorySettings,
    NotFound,
    Scope,
)

from .scripted import (
    APP,
    SCOPE,
    USER,
    Chat,
    assistant,
    call,
    contents,
    entry,
    scripted,
    session_of,
    text_of,
)

WHOSE: dict[str, Any] = {"app_name": APP, "user_id": USER}


async def found(service: KagentMemoryService, query: str, **whose: str) -> list[str]:
    answer = await service.search_memory(**{**WHOSE, **whose}, query=query)
    return [text_of(memory) for memory in answer.memories]


# -- the five methods, on both stores and over HTTP --


async def test_an_added_memory_comes_back_as_it_was_given(
    each_service: KagentMemoryService,
):
    """What is added comes back from a search with its text, author, time and metadata."""
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
    assert text_of(memory) == "Ada prefers dark mode"
    assert datetime.fromisoformat(memory.timestamp or "") == datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
    expected = {"project": "x", "nested": {"a": [1, None, "ü"]}, "user_id": "eve", "color": "red"}
    assert memory.custom_metadata == expected
    assert (await each_service.memories.get(SCOPE, memory.id)).ttl_days == 3


async def test_understood_keys_set_the_memory_and_the_entrys_win(
    each_service: KagentMemoryService,
):
    """Metadata that we understand sets the memory, and an entry's own wins over the call's."""
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
    (memory,) = (await each_service.memories.list(SCOPE)).memories
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


async def test_events_take_fields_from_metadata(
    each_service: KagentMemoryService,
):
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
    scope = SCOPE
    for memory in (await each_service.memories.list(scope)).memories:
        assert (memory.session_id, memory.ttl_days, memory.tags) == ("s7", 1, ("pets",))
        assert (memory.type, memory.importance, memory.metadata) == ("procedural", 0.9, {"desk": 4})
    assert (await found(each_service, "parrot")) != []
    for wrong in ({"ttl": "soon"}, {"type": "song"}, {"tags": [1]}, {"importance": 2}):
        with pytest.raises(InvalidInput):
            await each_service.add_events_to_memory(
                **WHOSE, events=session.events, custom_metadata=wrong
            )


async def test_deleting_an_unknown_id_is_an_error(each_service: KagentMemoryService):
    """Deleting without an id deletes nothing; an unknown id is an error."""
    await each_service.add_memory(**WHOSE, memories=[entry("Ada prefers dark mode")])
    await each_service.delete_memory(**WHOSE)
    with pytest.raises(NotFound):
        await each_service.delete_memory(**WHOSE, memory_id="00000000-0000-7000-8000-000000000000")
    assert await found(each_service, "dark") == ["Ada prefers dark mode"]


# -- what cannot be stored --


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
    service: KagentMemoryService, given: MemoryEntry, metadata: dict[str, Any]
):
    """One entry that does not fit is an error, and nothing of its call is written."""
    given = given.model_copy(update={"custom_metadata": metadata})
    with pytest.raises(InvalidInput):
        await service.add_memory(**WHOSE, memories=[entry("fine before"), given])
    assert (await service.memories.list(SCOPE)).memories == ()


async def test_adks_own_context_reaches_the_service(service: KagentMemoryService):
    """The methods of ADK's context reach the service of the run."""
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
        seen.append(text_of(found[0]))
        await service.delete_memory(app_name=APP, user_id=USER, memory_id=found[0].id)
        seen.append((await tool_context.search_memory("dark mode")).memories)
        return "ok"

    await Chat(assistant(scripted(call("use"), "done"), tools=[use]), service).say(
        "My parrot is called Grace"
    )
    assert seen == ["Ada prefers dark mode", []]
    await service.drain()
    assert (await contents(service)).count("My parrot is called Grace") == 1


# -- composing --


def test_the_constructor_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The constructor opens no file, connection or thread."""
    monkeypatch.chdir(tmp_path)
    threads = set(threading.enumerate())
    KagentMemoryService()
    KagentMemoryService("postgresql://nobody@127.0.0.1:9/none", agents_dir="somewhere")
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ({"search_limits": 3}, "did you mean search_limit?"),
        ({"sparkle": 3}, "known: batch_size, .*worker"),
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
def test_a_wrong_argument_names_the_right_one(arguments: Any, advice: str):
    """A wrong argument is an error of the constructor that says what to write instead."""
    with pytest.raises(ConfigurationError, match=advice):
        KagentMemoryService(**arguments)


def test_a_slip_in_the_environment_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A misspelt variable is warned of, and others' variables are not."""
    monkeypatch.setenv("KAGENT_MEMORY_SERCH_LIMIT", "3")
    monkeypatch.setenv("KAGENT_MEMORY_SERVICE_HOST", "10.0.0.7")  # Kubernetes' own
    with caplog.at_level(logging.WARNING, "kagent_memory"):
        KagentMemoryService()
    assert caplog.messages == [
        "KAGENT_MEMORY_SERCH_LIMIT has no effect; did you mean KAGENT_MEMORY_SEARCH_LIMIT?"
    ]


async def test_relative_files_lie_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A relative file lies in the working directory, not among the agents."""
    monkeypatch.chdir(tmp_path)
    async with KagentMemoryService(
        "kagent:///mine.db?search_limit=1", llm=False, agents_dir="/elsewhere"
    ) as service:
        await service.add_memory(**WHOSE, memories=[entry("dark one"), entry("dark two")])
        assert len(await found(service, "dark")) == 1
    assert (tmp_path / "mine.db").is_file()


async def test_tenant_and_scope_of_choose_the_scope(uri: str):
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


# -- many loops --


def test_every_loop_and_thread_may_use_one_service(uri: str):
    """Several threads with loops of their own use one service at the same time."""
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


async def test_a_slow_embedder_never_stalls_the_callers_loop(uri: str):
    """An embedder that blocks holds up memory's own loop and no other."""
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
