"""What an agent expects of a memory service of ADK, ours in a file, in PostgreSQL and over HTTP."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

from kagent_memory import KagentMemoryService
from kagent_memory.errors import NotFound

from .scripted import APP, USER, text_of

SAID_AT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
KEY, BOAT = "The spare key is with Grace", "The boat lies in Oslo"
QUERIES = ("", " ", '"', "'; DROP TABLE memory; --", "key AND OR NOT (", "NEAR(", "*", "%", "👩‍🚀",
           "x" * 9999)  # fmt: skip
WHOSE: dict[str, Any] = {"app_name": APP, "user_id": USER}


def event(text: str | None, *, author: str = "user") -> Event:
    parts = [types.Part(text=text)] if text is not None else []
    content = types.Content(role="user", parts=parts)
    at = SAID_AT.timestamp()
    return Event(invocation_id="turn", author=author, timestamp=at, content=content)


def session(*events: Event, id: str = "s") -> Session:
    return Session(id=id, **WHOSE, events=list(events))


async def entries(
    service: KagentMemoryService, query: str, *, app: str = APP, user: str = USER
) -> list[MemoryEntry]:
    """What a search finds, once everything has settled."""
    assert await service.drain()
    return (await service.search_memory(app_name=app, user_id=user, query=query)).memories


async def assert_each_is_found_once(service: KagentMemoryService) -> None:
    for query in ("spare key", "boat in Oslo"):
        assert len(await entries(service, query)) == 1


async def test_what_was_said_is_found(each_service: KagentMemoryService) -> None:
    """A search finds what was said, with who said it and when."""
    assert await entries(each_service, "spare key") == []
    await each_service.add_session_to_memory(session(event(KEY), event("Noted.", author="a")))
    [entry] = await entries(each_service, "spare key")
    assert (text_of(entry), entry.author) == (KEY, "user")
    assert datetime.fromisoformat(entry.timestamp or "") == SAID_AT


async def test_users_and_apps_are_kept_apart(each_service: KagentMemoryService) -> None:
    """Nobody finds what is another's, nor deletes it by its id."""
    await each_service.add_session_to_memory(session(event(KEY)))
    for user, app in (("grace", APP), (USER, "other"), ("ad", f"{APP}a")):
        assert await entries(each_service, "spare key", user=user, app=app) == []
    [entry] = await entries(each_service, "spare key")
    with pytest.raises(NotFound):
        await each_service.delete_memory(app_name=APP, user_id="grace", memory_id=entry.id or "")
    assert await entries(each_service, "spare key") == [entry]


async def test_a_session_added_again_adds_what_is_new(each_service: KagentMemoryService) -> None:
    """Adding a session again keeps what was said before and adds each new event once."""
    first, later = event(KEY), event(BOAT)
    for events in ([first], [first], [first, later]):
        await each_service.add_session_to_memory(session(*events))
    await assert_each_is_found_once(each_service)


async def test_single_events_do_not_replace_their_session(
    each_service: KagentMemoryService,
) -> None:
    """Single events are added to their session, each once."""
    await each_service.add_session_to_memory(session(event(KEY)))
    later = event(BOAT)
    for _ in range(2):
        await each_service.add_events_to_memory(**WHOSE, events=[later], session_id="s")
    await assert_each_is_found_once(each_service)


async def test_events_without_words_do_no_harm(each_service: KagentMemoryService) -> None:
    """Events without words are left out, and any query is answered."""
    empty = Event(id="e", invocation_id="i", author="user")
    await each_service.add_session_to_memory(session(event(None), empty, event(""), event(KEY)))
    assert len(await entries(each_service, "spare key")) == 1
    for query in QUERIES:
        await entries(each_service, query)


async def test_text_of_any_language_comes_back_as_it_was(
    each_service: KagentMemoryService,
) -> None:
    """A text keeps its quotes, braces, tags and line ends."""
    text = 'Zoë said "naïve": 猫が好きです 👩‍🚀\n<b>&amp;</b> {braces}'
    await each_service.add_session_to_memory(session(event(text)))
    assert [text_of(entry) for entry in await entries(each_service, "Zoë")] == [text]


async def test_what_was_deleted_does_not_come_back(each_service: KagentMemoryService) -> None:
    """What was deleted is gone, also after its session is added again; the rest stays."""
    said = session(event(KEY), event(BOAT))
    await each_service.add_session_to_memory(said)
    [entry] = await entries(each_service, "spare key")
    await each_service.delete_memory(**WHOSE, memory_id=entry.id or "")
    await each_service.add_session_to_memory(said)
    assert await entries(each_service, "spare key") == []
    assert len(await entries(each_service, "boat in Oslo")) == 1


async def test_many_sessions_at_once_are_all_kept(each_service: KagentMemoryService) -> None:
    """Of twenty sessions added at the same time each is found."""
    said = [session(event(f"Locker{number} is green"), id=f"s{number}") for number in range(20)]
    await asyncio.gather(*map(each_service.add_session_to_memory, said))
    for number in range(20):
        found = [text_of(entry) for entry in await entries(each_service, f"Locker{number}")]
        assert any(f"Locker{number} " in text for text in found)
