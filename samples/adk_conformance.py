"""Test any memory service of ADK: a pytest suite to copy.

Put this file beside your tests, and add a class that opens your service without memories:

    from adk_conformance import AdkMemoryConformance

    class TestMyService(AdkMemoryConformance):
        async def open_service(self):
            return MyMemoryService()

It needs pytest and pytest-asyncio.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types

APP, USER = "conformance", "ada"
SAID_AT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
KEY, BOAT = "The spare key is with Grace", "The boat lies in Oslo"
QUERIES = (
    "",
    " ",
    '"',
    "'; DROP TABLE memory; --",
    "key AND OR NOT (",
    "NEAR(",
    "*",
    "%",
    "👩‍🚀",
    "x" * 9999,
)


def event(text: str | None, *, author: str = "user") -> Event:
    """Return an event in which the author says a text; None: an event without text."""
    parts = [types.Part(text=text)] if text is not None else []
    content = types.Content(role="user", parts=parts)
    id, at = uuid.uuid4().hex, SAID_AT.timestamp()
    return Event(id=id, invocation_id="turn", author=author, timestamp=at, content=content)


def session(*events: Event, id: str = "") -> Session:
    """Return a session of these events."""
    return Session(id=id or uuid.uuid4().hex, app_name=APP, user_id=USER, events=list(events))


def texts(memories: Sequence[MemoryEntry]) -> list[str]:
    """Return the texts of entries."""
    return [" ".join(part.text or "" for part in entry.content.parts or ()) for entry in memories]


class AdkMemoryConformance:
    """The suite. A service that works in the background overrides `settle`."""

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def open_service(self) -> BaseMemoryService:
        """Return a service without memories."""

    async def settle(self, service: BaseMemoryService) -> None:
        """Wait until accepted events can be found."""

    async def close_service(self, service: BaseMemoryService) -> None:
        """Close the service after a test."""

    @pytest_asyncio.fixture
    async def service(self) -> AsyncIterator[BaseMemoryService]:
        """Open the service of one test."""
        service = await self.open_service()
        yield service
        await self.close_service(service)

    async def entries(
        self, service: BaseMemoryService, query: str, *, user: str = USER, app: str = APP
    ) -> list[MemoryEntry]:
        """Return the entries that a search finds, once everything has settled."""
        await self.settle(service)
        return (await service.search_memory(app_name=app, user_id=user, query=query)).memories

    async def assert_each_is_found_once(self, service: BaseMemoryService) -> None:
        """Assert that the key and the boat are found, each by its own words and once."""
        assert len(await self.entries(service, "spare key")) == 1
        assert len(await self.entries(service, "boat in Oslo")) == 1

    async def test_what_was_said_is_found(self, service: BaseMemoryService) -> None:
        """A turn is found with its author and time, and nothing before it was saved."""
        assert await self.entries(service, "spare key") == []
        await service.add_session_to_memory(session(event(KEY), event("Noted.", author="a")))
        [entry] = [
            entry for entry in await self.entries(service, "spare key") if KEY in texts([entry])
        ]
        assert entry.author == "user"
        assert entry.timestamp is not None
        at = datetime.fromisoformat(entry.timestamp)
        assert (at if at.tzinfo else at.astimezone()) == SAID_AT

    async def test_users_and_apps_are_kept_apart(self, service: BaseMemoryService) -> None:
        """A search finds only the memories of its user and app."""
        await service.add_session_to_memory(session(event(KEY)))
        for user, app in (("grace", APP), (USER, "other"), ("ad", f"{APP}a")):
            assert await self.entries(service, "spare key", user=user, app=app) == []
        assert len(await self.entries(service, "spare key")) == 1

    async def test_nobody_deletes_what_is_anothers(self, service: BaseMemoryService) -> None:
        """The id of another user's memory deletes nothing; an error is allowed."""
        await service.add_session_to_memory(session(event(KEY)))
        [entry] = await self.entries(service, "spare key")
        try:
            await service.delete_memory(app_name=APP, user_id="grace", memory_id=str(entry.id))
        except NotImplementedError:
            raise
        except Exception:
            pass
        assert len(await self.entries(service, "spare key")) == 1

    async def test_other_forms_of_the_words_find_it(self, service: BaseMemoryService) -> None:
        """A question need not repeat the words of the answer."""
        await service.add_session_to_memory(session(event("Ada is sailing to Bergen")))
        assert await self.entries(service, "Who sails?")

    async def test_a_session_that_is_added_again_is_not_doubled(
        self, service: BaseMemoryService
    ) -> None:
        """Adding a session again keeps what was said before and adds what is new."""
        first, later = event(KEY), event(BOAT)
        for events in ([first], [first], [first, later]):
            await service.add_session_to_memory(session(*events, id="s"))
        await self.assert_each_is_found_once(service)

    async def test_single_events_do_not_replace_their_session(
        self, service: BaseMemoryService
    ) -> None:
        """Single events are added to their session, each once."""
        await service.add_session_to_memory(session(event(KEY), id="s"))
        later = event(BOAT)
        for _ in range(2):
            await service.add_events_to_memory(
                app_name=APP, user_id=USER, events=[later], session_id="s"
            )
        await self.assert_each_is_found_once(service)

    async def test_events_without_words_do_no_harm(self, service: BaseMemoryService) -> None:
        """Events without text are accepted, and any query is answered."""
        empty = Event(id="e", invocation_id="i", author="user")
        await service.add_session_to_memory(session(event(None), empty, event(""), event(KEY)))
        assert len(await self.entries(service, "spare key")) == 1
        for query in QUERIES:
            await self.entries(service, query)

    async def test_text_of_any_language_comes_back_as_it_was(
        self, service: BaseMemoryService
    ) -> None:
        """Text comes back unchanged, with quotes, braces, tags and line ends."""
        text = 'Zoë said "naïve": 猫が好きです 👩‍🚀\n<b>&amp;</b> {braces}'
        await service.add_session_to_memory(session(event(text)))
        assert texts(await self.entries(service, "Zoë")) == [text]

    async def test_memories_can_be_added_one_by_one(self, service: BaseMemoryService) -> None:
        """A memory comes back with its own metadata."""
        content = types.Content(role="user", parts=[types.Part(text=KEY)])
        entry = MemoryEntry(content=content, author="user", custom_metadata={"from": "a form"})
        await service.add_memory(app_name=APP, user_id=USER, memories=[entry])
        [answer] = await self.entries(service, "spare key")
        assert (texts([answer]), answer.custom_metadata.get("from")) == ([KEY], "a form")

    async def test_what_was_deleted_does_not_come_back(self, service: BaseMemoryService) -> None:
        """A deleted memory stays away, even if its session is added again; the others stay."""
        chat = session(event(KEY), event(BOAT))
        await service.add_session_to_memory(chat)
        [entry] = await self.entries(service, "spare key")
        await service.delete_memory(app_name=APP, user_id=USER, memory_id=entry.id)
        await service.add_session_to_memory(chat)
        assert await self.entries(service, "spare key") == []
        assert len(await self.entries(service, "boat in Oslo")) == 1

    async def test_many_at_once_are_all_kept(self, service: BaseMemoryService) -> None:
        """Twenty sessions that are added at the same time are all found."""
        sessions = [session(event(f"Locker{number} is green")) for number in range(20)]
        await asyncio.gather(*map(service.add_session_to_memory, sessions))
        for number in range(20):
            entries = texts(await self.entries(service, f"Locker{number}"))
            assert any(f"Locker{number} " in text for text in entries)
