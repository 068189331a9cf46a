"""What is compared: our service on its stores and in its modes, plain cosine, and ADK's own two memories."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from conversations import Note
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from kagent_memory import KagentMemoryService
from kagent_memory.models.embedding import Embedder

APP = "bench"
DEPTH = 20


class System(Protocol):
    """Something that keeps notes of users and finds them again."""

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Stores one user's notes, in their order."""
        ...

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """The keys of what it finds, best first."""
        ...


Opened = contextlib.AbstractAsyncContextManager[System]


class Service:
    """`KagentMemoryService` through ADK's two methods: add_memory and search_memory."""

    def __init__(self, service: KagentMemoryService) -> None:
        self._service = service

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """One entry a note, in batches."""
        entries = [
            MemoryEntry(
                content=_content(note.text),
                author=note.author,
                timestamp=note.at.isoformat(),
                custom_metadata={"session_id": note.session, "key": note.key, "ttl_days": 0},
            )
            for note in notes
        ]
        for start in range(0, len(entries), 64):
            await self._service.add_memory(app_name=APP, user_id=user, memories=entries[start : start + 64])

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """What search_memory returns."""
        response = await self._service.search_memory(app_name=APP, user_id=user, query=question)
        return tuple(str((entry.custom_metadata or {}).get("key")) for entry in response.memories)


class Cosine:
    """The nearest vectors, nothing else."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[str, tuple[list[str], np.ndarray]] = {}

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Embeds what is there to read: author and text."""
        texts = [f"{note.author}: {note.text}" if note.author else note.text for note in notes]
        self._kept[user] = ([note.key for note in notes], await self._embedder.embed(texts, kind="document"))

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """By exact cosine."""
        keys, vectors = self._kept[user]
        near = vectors @ (await self._embedder.embed([question], kind="query"))[0]
        return tuple(keys[row] for row in np.argsort(-near, kind="stable")[:DEPTH])


class Adk:
    """One of ADK's own services, given the notes as events of their sessions."""

    def __init__(self, service: BaseMemoryService) -> None:
        self._service = service
        self._keys: dict[tuple[str, str | None, str], str] = {}

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """One event a note."""
        for session in dict.fromkeys(note.session for note in notes):
            events = [
                Event(id=note.key, author=note.author, timestamp=note.at.timestamp(), content=_content(_said(note)))
                for note in notes
                if note.session == session
            ]
            await self._service.add_events_to_memory(app_name=APP, user_id=user, events=events, session_id=session)
        self._keys |= {(user, note.author, _said(note)): note.key for note in notes}

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """What search_memory returns."""
        response = await self._service.search_memory(app_name=APP, user_id=user, query=question)
        texts = [(entry.author, (entry.content.parts or [types.Part()])[0].text or "") for entry in response.memories]
        return tuple(self._keys[user, author, text] for author, text in texts)


def catalogue(uris: Sequence[str], embedder: Embedder) -> dict[str, Callable[[], Opened]]:
    """Name → opener of everything that is compared; `uris` are our stores."""
    openers: dict[str, Callable[[], Opened]] = {}
    for uri in uris:
        scheme = uri.partition(":")[0]
        openers[f"hybrid, {scheme}"] = lambda uri=uri: _ours(uri, embedder)
        openers[f"keyword, {scheme}"] = lambda uri=uri: _ours(uri, None)
    openers["dense cosine"] = lambda: _plain(Cosine(embedder))
    openers["ADK InMemoryMemoryService"] = lambda: _plain(Adk(InMemoryMemoryService()))
    openers["ADK SqliteMemoryService"] = _sqlite
    return openers


@contextlib.asynccontextmanager
async def _ours(uri: str, embedder: Embedder | None) -> AsyncIterator[System]:
    with tempfile.TemporaryDirectory() as folder:
        placed = uri.replace("{folder}", folder)
        async with KagentMemoryService(placed, embedding=embedder, search_limit=DEPTH, prune_every_hours=0) as service:
            yield Service(service)


@contextlib.asynccontextmanager
async def _plain(system: System) -> AsyncIterator[System]:
    yield system


@contextlib.asynccontextmanager
async def _sqlite() -> AsyncIterator[System]:
    from google.adk.memory import SqliteMemoryService

    with tempfile.TemporaryDirectory() as folder:
        yield Adk(SqliteMemoryService(Path(folder) / "adk.db", max_results=DEPTH))


def _content(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def _said(note: Note) -> str:
    return f"{note.author}: {note.text}" if note.author else note.text
