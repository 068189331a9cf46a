"""KagentMemoryService against ADK's contract: on both stores, over HTTP, and from many loops."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from kagent_memory import (
    ConfigurationError,
    InvalidInput,
    KagentMemoryService,
    MemorySettings,
    Scope,
)
from kagent_memory.models.prompts.fence import CLOSING, OPENING, without_fenced

from .scripted import (
    APP,
    SCOPE,
    USER,
    contents,
    entry,
    session_of,
    text_of,
)

WHOSE: dict[str, Any] = {"app_name": APP, "user_id": USER}


async def search(service: KagentMemoryService, query: str, **whose: str) -> list[str]:
    answer = await service.search_memory(**{**WHOSE, **whose}, query=query)
    return [text_of(memory) for memory in answer.memories]


# -- the five methods, on both stores and over HTTP --


async def test_a_memory_comes_back_as_given_with_its_fields_set(each_service: KagentMemoryService):
    """Text, author, time and metadata come back; keys that we know set the memory, and an entry's
    own win over the call's.
    """
    nested = {"project": "x", "nested": {"a": [1, None, "ü"]}, "user_id": "eve"}
    own = {**nested, "type": "episodic", "tags": "own", "pinned": True, "ttl": "90000s"}
    original = entry(
        "Ada prefers dark mode",
        author="ada",
        timestamp="2026-01-05T09:30:00Z",
        custom_metadata={**own, "origin": "import", "session_id": "s9"},
    )
    wide = {"type": "procedural", "topics": ["ops"], "importance": 0.9, "ttl_days": 3, "color": "r"}
    await each_service.add_memory(**WHOSE, memories=[original], custom_metadata=wide)
    (result,) = (await each_service.search_memory(**WHOSE, query="dark mode")).memories
    assert (result.author, text_of(result)) == ("ada", "Ada prefers dark mode")
    assert datetime.fromisoformat(result.timestamp or "") == datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
    assert result.custom_metadata == {**nested, "color": "r"}
    memory = await each_service.memories.get(SCOPE, result.id or "")
    fields = ("type", "topics", "tags", "importance", "pinned", "origin", "ttl_days", "session_id")
    assert [getattr(memory, name) for name in fields] == [
        "episodic",
        ("ops",),
        ("own",),
        0.9,
        True,
        "import",
        2,
        "s9",
    ]


async def test_events_take_fields_from_metadata(
    each_service: KagentMemoryService,
):
    """Metadata of events sets the same fields as that of single memories."""
    session = session_of("My parrot is called Grace", "The billing service goes live on Thursday")
    metadata = {"session_id": "s7", "ttl": "86400s", "tags": ["pets"], "desk": 4}
    await each_service.add_events_to_memory(
        **WHOSE, events=session.events, custom_metadata=metadata
    )
    assert await each_service.drain() is True
    for memory in (await each_service.memories.list(SCOPE)).memories:
        assert (memory.session_id, memory.ttl_days, memory.tags) == ("s7", 1, ("pets",))
        assert memory.metadata == {"desk": 4}
    with pytest.raises(InvalidInput):
        await each_service.add_events_to_memory(
            **WHOSE, events=session.events, custom_metadata={"ttl": "soon"}
        )


async def test_only_what_is_new_is_looked_at(uri: str, monkeypatch: pytest.MonkeyPatch):
    """A session added again costs what is new in it: of what comes before its last ingested event
    only ids are looked at, until its tenant was forgotten. Of a message nothing is lost, though
    memory showed some of it.
    """
    read = Mock(wraps=without_fenced)
    monkeypatch.setattr("kagent_memory.adk.converter.without_fenced", read)
    recalling = f"{OPENING}\n- I am Ada\n{CLOSING}\nWho am I?"
    session, later = session_of(recalling, "I live in Oslo"), session_of("- I am Ada\nI fly")
    async with KagentMemoryService(uri, llm=False, tenant="acme") as service:
        for texts in (2, 3, 3):
            await added(service, session)
            assert read.call_count == texts
            session.events[2:] = later.events
        assert "- I am Ada\nI fly" in await search(service, "fly")
        old: Any = session.events[:2]
        # looking at more would fail
        session.events[:2] = [Mock(spec=["id"], id=event.id) for event in old]
        session.events += session_of("I sail").events
        await added(service, session)
        assert read.call_count == 4
        session.events[:2] = old
        await service.memories.forget_tenant("acme")
        await service.add_session_to_memory(session)
        assert read.call_count == 8


async def added(service: KagentMemoryService, session: Any) -> None:
    """Add a session, and wait until it is ingested."""
    await service.add_session_to_memory(session)
    assert await service.drain()


async def test_no_copy_of_a_session_hides_events(service: KagentMemoryService):
    """What one copy of a session lacks, or holds in part or unsaved, is learnt from the next."""
    session = session_of("I live in Oslo", "I fly", "I sail")
    whole, session.events = session.events, session.events[1:]
    for is_partial in (True, True, False, False):
        whole[1].partial = is_partial
        await added(service, session)
    assert "I fly" in await contents(service)
    session.events = whole
    await service.remember(session, save=False)
    for _ in range(2):
        await added(service, session)
    assert set(await contents(service)) == {"I live in Oslo", "I fly", "I sail"}
    whole[1:2] = session_of("I ski").events  # as many events, with the same last one
    await added(service, session)
    assert "I ski" in await contents(service)


async def test_a_rewind_takes_back_what_waits(service: KagentMemoryService):
    """A rewind to before what is ingested takes back what waits for the session's end."""
    session = session_of("I live in Oslo", "I fly", "")
    undo = session.events.pop()
    undo.actions.rewind_before_invocation_id = "i0"
    waiting = session.events.pop()
    for event in (None, waiting, undo):
        session.events += filter(None, [event])
        await service.remember(session, save=event is None, end_after_minutes=9)
        assert await service.drain()
    await service.memories.end_session(SCOPE, session.id)
    assert await service.drain()
    assert await contents(service) == ["I live in Oslo"]


# -- what cannot be stored --


@pytest.mark.parametrize(
    ("memory", "metadata"),
    [
        (
            MemoryEntry(
                content=types.Content(
                    parts=[types.Part.from_bytes(data=b"x", mime_type="image/png")]
                )
            ),
            {},
        ),
        (entry("   "), {}),
        (entry("ok", timestamp="yesterday"), {}),
        (entry("ok"), {"ttl": "0s"}),  # ttl_days=0 would be for ever
        (entry("ok"), {"topics": [1]}),
    ],
)
async def test_an_unfit_entry_refuses_the_whole_call(
    service: KagentMemoryService, memory: MemoryEntry, metadata: dict[str, Any]
):
    """One entry that does not fit is an error, and nothing of its call is written."""
    memory = memory.model_copy(update={"custom_metadata": metadata})
    with pytest.raises(InvalidInput):
        await service.add_memory(**WHOSE, memories=[entry("fine before"), memory])
    assert (await service.memories.list(SCOPE)).memories == ()


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
        ({"uri": "libsql:///memory.db?serch_limit=3"}, "did you mean search_limit?"),
        ({"uri": "kagent://host/db"}, r"kagent:///memory\.db"),
        ({"uri": "memory.db"}, r"libsql:////var/lib/memory\.db"),
        (
            {"uri": "my_user:hunter2@host/db"},
            "^(?!.*hunter2).*postgresql://host/database",
        ),
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


def test_tenant_and_scope_of_choose_the_scope(uri: str):
    """The tenant and `scope_of` decide whose memories these are."""
    service = KagentMemoryService(uri, settings=MemorySettings(tenant="t1"))
    other = KagentMemoryService(uri, scope_of=lambda app, user: Scope("t2", user, "all apps"))
    assert service.scope(APP, USER) == Scope("t1", USER, APP)
    assert other.scope(APP, USER) == Scope("t2", USER, "all apps")


# -- many loops --


def test_every_loop_and_thread_may_use_one_service(uri: str):
    """Several threads with loops of their own use one service at the same time."""

    async def use(number: int) -> None:
        for turn in range(5):
            await service.add_memory(**WHOSE, memories=[entry(f"thread {number} fact {turn}")])
            assert await search(service, f"thread {number} fact {turn}")

    with KagentMemoryService(uri, llm=False) as service, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: asyncio.run(use(number)), range(8)))
        assert service.sync.stats(SCOPE).visible == 40


async def test_a_slow_embedder_never_stalls_the_callers_loop(uri: str):
    """An embedder that blocks holds up memory's own loop and no other."""
    began, released, waited = threading.Event(), threading.Event(), list[bool]()

    class Blocking:
        name = "blocking"

        async def embed(self, texts: Any, *, kind: str) -> Any:
            began.set()
            waited.append(released.wait(60))
            return [[1.0] * 4] * len(texts)

    async with KagentMemoryService(uri, embedding=Blocking(), llm=False) as service:
        adding = asyncio.ensure_future(service.add_memory(**WHOSE, memories=[entry("dark mode")]))
        while not began.is_set():  # noqa: ASYNC110 the loop itself has to turn
            await asyncio.sleep(0.001)
        released.set()
        await adding
    assert all(waited), "the caller's loop stood still until it gave up"
