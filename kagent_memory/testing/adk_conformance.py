"""`AdkMemoryConformance`: what an agent may expect of any memory service of ADK, as tests that its author runs."""

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


def event(text: str | None, *, author: str = "user") -> Event:
    """An event in which somebody says this; None: nothing."""
    parts = [types.Part(text=text)] if text is not None else []
    return Event(
        id=uuid.uuid4().hex,
        invocation_id="turn",
        author=author,
        timestamp=SAID_AT.timestamp(),
        content=types.Content(role="user", parts=parts),
    )


def session(*events: Event, user_id: str = USER, app_name: str = APP, id: str = "") -> Session:
    """A session of these events."""
    return Session(id=id or uuid.uuid4().hex, app_name=app_name, user_id=user_id, events=list(events))


def texts(memories: Sequence[MemoryEntry]) -> list[str]:
    """What entries say."""
    return [" ".join(part.text or "" for part in entry.content.parts or ()) for entry in memories]


class AdkMemoryConformance:
    """Inherit from it in a test module, and say how to open your service on nothing:

        class TestMyService(AdkMemoryConformance):
            async def open_service(self):
                return MyMemoryService()

    Needs pytest and pytest-asyncio. A service that works in the background overrides `settle`.
    """

    pytestmark = pytest.mark.asyncio

    @abstractmethod
    async def open_service(self) -> BaseMemoryService:
        """A service without memories."""

    async def settle(self, service: BaseMemoryService) -> None:
        """Waits until what was handed over can be found."""

    async def close_service(self, service: BaseMemoryService) -> None:
        """Ends the service after a test."""

    @pytest_asyncio.fixture
    async def service(self) -> AsyncIterator[BaseMemoryService]:
        """The service of one test."""
        service = await self.open_service()
        yield service
        await self.close_service(service)

    async def found(self, service: BaseMemoryService, query: str, *, user_id: str = USER, app: str = APP) -> list[str]:
        """What a search finds, once everything has settled."""
        await self.settle(service)
        return texts((await service.search_memory(app_name=app, user_id=user_id, query=query)).memories)

    async def test_what_was_said_is_found(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("The spare key is with Grace"), event("Noted.", author="a")))
        assert any("Grace" in text for text in await self.found(service, "spare key"))

    async def test_a_service_without_memories_finds_none(self, service: BaseMemoryService) -> None:
        assert await self.found(service, "spare key") == []

    async def test_users_and_apps_are_kept_apart(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("The spare key is with Grace")))
        assert await self.found(service, "spare key", user_id="grace") == []
        assert await self.found(service, "spare key", app="other") == []
        assert await self.found(service, "spare key", user_id="ad", app=f"{APP}a") == []
        assert len(await self.found(service, "spare key")) == 1

    async def test_a_session_that_is_added_again_is_not_found_twice(self, service: BaseMemoryService) -> None:
        said = session(event("The spare key is with Grace"))
        for _ in range(3):
            await service.add_session_to_memory(said)
        assert len(await self.found(service, "spare key")) == 1

    async def test_a_session_that_went_on_keeps_what_was_said_before(self, service: BaseMemoryService) -> None:
        first, later = event("The spare key is with Grace"), event("The boat lies in Oslo")
        await service.add_session_to_memory(session(first, id="s"))
        await service.add_session_to_memory(session(first, later, id="s"))
        assert len(await self.found(service, "spare key")) == 1
        assert len(await self.found(service, "boat in Oslo")) == 1

    async def test_single_events_can_be_added_and_do_not_replace_their_session(
        self, service: BaseMemoryService
    ) -> None:
        first, later = event("The spare key is with Grace"), event("The boat lies in Oslo")
        await service.add_session_to_memory(session(first, id="s"))
        for _ in range(2):
            await service.add_events_to_memory(app_name=APP, user_id=USER, events=[later], session_id="s")
        assert len(await self.found(service, "spare key")) == 1
        assert len(await self.found(service, "boat in Oslo")) == 1

    async def test_a_question_in_other_forms_of_the_words_finds_it(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("Ada is sailing to Bergen")))
        assert await self.found(service, "Who sails?")

    async def test_events_without_words_do_no_harm(self, service: BaseMemoryService) -> None:
        empty = Event(id="e", invocation_id="i", author="user")
        await service.add_session_to_memory(
            session(event(None), empty, event(""), event("The spare key is with Grace"))
        )
        assert len(await self.found(service, "spare key")) == 1

    async def test_any_query_is_answered(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("The spare key is with Grace")))
        for query in (
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
        ):
            await self.found(service, query)

    async def test_text_of_any_language_comes_back_as_it_was(self, service: BaseMemoryService) -> None:
        text = 'Zoë said "naïve": 猫が好きです 👩‍🚀\n<b>&amp;</b> {braces}'
        await service.add_session_to_memory(session(event(text)))
        assert await self.found(service, "Zoë") == [text]

    async def test_who_said_it_and_when_comes_back(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("The spare key is with Grace", author="user")))
        await self.settle(service)
        (entry,) = (await service.search_memory(app_name=APP, user_id=USER, query="spare key")).memories
        assert entry.author == "user"
        assert entry.timestamp is not None
        at = datetime.fromisoformat(entry.timestamp)
        assert (at if at.tzinfo else at.astimezone()) == SAID_AT

    async def test_memories_can_be_added_one_by_one(self, service: BaseMemoryService) -> None:
        content = types.Content(role="user", parts=[types.Part(text="The spare key is with Grace")])
        entry = MemoryEntry(content=content, author="user", custom_metadata={"from": "a form"})
        await service.add_memory(app_name=APP, user_id=USER, memories=[entry])
        await self.settle(service)
        (found,) = (await service.search_memory(app_name=APP, user_id=USER, query="spare key")).memories
        assert texts([found]) == ["The spare key is with Grace"]
        assert found.custom_metadata.get("from") == "a form"

    async def test_what_was_deleted_is_gone_and_does_not_come_back(self, service: BaseMemoryService) -> None:
        said = session(event("The spare key is with Grace"), event("The boat lies in Oslo"))
        await service.add_session_to_memory(said)
        await self.settle(service)
        (entry,) = (await service.search_memory(app_name=APP, user_id=USER, query="spare key")).memories
        await service.delete_memory(app_name=APP, user_id=USER, memory_id=entry.id)
        await service.add_session_to_memory(said)
        assert await self.found(service, "spare key") == []
        assert len(await self.found(service, "boat in Oslo")) == 1

    async def test_nobody_deletes_what_is_anothers(self, service: BaseMemoryService) -> None:
        await service.add_session_to_memory(session(event("The spare key is with Grace")))
        await self.settle(service)
        (entry,) = (await service.search_memory(app_name=APP, user_id=USER, query="spare key")).memories
        assert entry.id
        try:
            await service.delete_memory(app_name=APP, user_id="grace", memory_id=entry.id)
        except NotImplementedError:
            raise
        except Exception:  # noqa: S110 a refusal is as good as doing nothing
            pass
        assert len(await self.found(service, "spare key")) == 1

    async def test_many_at_once_are_all_kept(self, service: BaseMemoryService) -> None:
        said = [session(event(f"Locker{number} is green")) for number in range(20)]
        await asyncio.gather(*map(service.add_session_to_memory, said))
        for number in range(20):
            assert any(f"Locker{number} " in text for text in await self.found(service, f"Locker{number}"))
