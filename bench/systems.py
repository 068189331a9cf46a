"""Systems that are compared: our service on its stores and in its modes, plain cosine, BM25, and
ADK's own two memories.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from conversations import Note
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
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
        """Store one entry per note, in batches."""
        entries = [
            MemoryEntry(
                content=_content(note),
                author=note.author,
                timestamp=note.at.isoformat(),
                custom_metadata={"session_id": note.session, "key": note.key, "ttl_days": 0},
            )
            for note in notes
        ]
        for start in range(0, len(entries), 64):
            await self._service.add_memory(
                app_name=APP, user_id=user, memories=entries[start : start + 64]
            )

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """Return the keys that search_memory finds."""
        response = await self._service.search_memory(app_name=APP, user_id=user, query=question)
        return tuple(str((entry.custom_metadata or {}).get("key")) for entry in response.memories)


class Sessions:
    """`KagentMemoryService` filled as agents fill it: by add_session_to_memory, without a model."""

    def __init__(self, service: KagentMemoryService) -> None:
        self._service = service

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Store one session of events after the other, and wait until they are taken in."""
        for session in dict.fromkeys(note.session for note in notes):
            events = [
                Event(
                    id=note.key,
                    author=note.author,
                    timestamp=note.at.timestamp(),
                    content=_content(note),
                )
                for note in notes
                if note.session == session
            ]
            made = Session(id=session, app_name=APP, user_id=user, events=events)
            await self._service.add_session_to_memory(made)
        if not await self._service.drain(600):
            raise SystemExit("The sessions were not taken in.")

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """Return the keys of the events that recall finds."""
        _, scope = self._service.scopes(APP, user)
        recalled = await self._service.memories.recall(scope, question, limit=DEPTH, deliver=False)
        return tuple(dict.fromkeys(key for hit in recalled for key in hit.memory.event_ids))


class Bm25:
    """Okapi BM25 over lower-case words, `k1` 1.2 and `b` .75: Robertson & Zaragoza 2009, "The
    Probabilistic Relevance Framework: BM25 and Beyond".
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[list[str], list[Counter[str]]]] = {}

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Count the words of author and text."""
        self._kept[user] = (
            [note.key for note in notes],
            [Counter(_words(_said(note))) for note in notes],
        )

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """Return the keys of the texts that contain a word of the question, best first."""
        keys, counts = self._kept[user]
        lengths = np.array([count.total() for count in counts], float)
        scores = np.zeros(len(keys))
        for word in set(_words(question)):
            frequency = np.array([count[word] for count in counts], float)
            holding = np.count_nonzero(frequency)
            rarity = np.log(1 + (len(keys) - holding + 0.5) / (holding + 0.5))
            scores += (
                rarity
                * frequency
                * 2.2
                / (frequency + 1.2 * (0.25 + 0.75 * lengths / lengths.mean()))
            )
        best = np.argsort(-scores, kind="stable")[:DEPTH]
        return tuple(keys[row] for row in best if scores[row] > 0)


class Cosine:
    """Exact search by cosine alone."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._kept: dict[str, tuple[list[str], np.ndarray]] = {}

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Embed author and text of each note."""
        texts = [f"{note.author}: {note.text}" if note.author else note.text for note in notes]
        self._kept[user] = (
            [note.key for note in notes],
            await self._embedder.embed(texts, kind="document"),
        )

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """Return the keys of the nearest texts."""
        keys, vectors = self._kept[user]
        cosines = vectors @ (await self._embedder.embed([question], kind="query"))[0]
        return tuple(keys[row] for row in np.argsort(-cosines, kind="stable")[:DEPTH])


class Adk:
    """One of ADK's own services, given the notes as events of their sessions."""

    def __init__(self, service: BaseMemoryService) -> None:
        self._service = service
        self._keys: dict[tuple[str, str | None, str], str] = {}

    async def fill(self, user: str, notes: Sequence[Note]) -> None:
        """Store one event per note."""
        for session in dict.fromkeys(note.session for note in notes):
            events = [
                Event(
                    id=note.key,
                    author=note.author,
                    timestamp=note.at.timestamp(),
                    content=_content(note, _said(note)),
                )
                for note in notes
                if note.session == session
            ]
            await self._service.add_events_to_memory(
                app_name=APP, user_id=user, events=events, session_id=session
            )
        self._keys |= {(user, note.author, _said(note)): note.key for note in notes}

    async def find(self, user: str, question: str) -> tuple[str, ...]:
        """Return the keys that search_memory finds."""
        response = await self._service.search_memory(app_name=APP, user_id=user, query=question)
        texts = [
            (entry.author, (entry.content.parts or [types.Part()])[0].text or "")
            for entry in response.memories
        ]
        return tuple(self._keys[user, author, text] for author, text in texts)


def catalogue(uris: Sequence[str], embedder: Embedder) -> dict[str, Callable[[], Opened]]:
    """Return a function that opens it for each system to compare; `uris` are our stores."""
    openers: dict[str, Callable[[], Opened]] = {}
    for uri in uris:
        scheme = uri.partition(":")[0]
        openers[f"hybrid, {scheme}"] = lambda uri=uri: _ours(uri, embedder)
        openers[f"keyword, {scheme}"] = lambda uri=uri: _ours(uri, None)
        openers[f"hybrid, sessions, {scheme}"] = lambda uri=uri: _ours(uri, embedder, Sessions)
        openers[f"keyword, sessions, {scheme}"] = lambda uri=uri: _ours(uri, None, Sessions)
    openers["dense cosine"] = lambda: _plain(Cosine(embedder))
    openers["BM25"] = lambda: _plain(Bm25())
    openers["ADK InMemoryMemoryService"] = lambda: _plain(Adk(InMemoryMemoryService()))
    openers["ADK SqliteMemoryService"] = _sqlite
    return openers


@contextlib.asynccontextmanager
async def _ours(
    uri: str, embedder: Embedder | None, kind: Callable[[KagentMemoryService], System] = Service
) -> AsyncIterator[System]:
    with tempfile.TemporaryDirectory() as folder:
        options = {"llm": False, "search_limit": DEPTH, "ttl_days": 0, "prune_every_hours": 0}
        options["search_timeout_seconds"] = 60  # what is found counts here, not how soon
        placed = uri.replace("{folder}", folder)
        async with KagentMemoryService(placed, embedding=embedder, **options) as service:
            yield kind(service)


@contextlib.asynccontextmanager
async def _plain(system: System) -> AsyncIterator[System]:
    yield system


@contextlib.asynccontextmanager
async def _sqlite() -> AsyncIterator[System]:
    from google.adk.memory import SqliteMemoryService

    with tempfile.TemporaryDirectory() as folder:
        yield Adk(SqliteMemoryService(Path(folder) / "adk.db", max_results=DEPTH))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _content(note: Note, text: str | None = None) -> types.Content:
    role = "model" if note.author == "assistant" else "user"
    return types.Content(role=role, parts=[types.Part(text=note.text if text is None else text)])


def _said(note: Note) -> str:
    return f"{note.author}: {note.text}" if note.author else note.text
