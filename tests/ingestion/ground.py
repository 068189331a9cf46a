"""Shared fixtures of ingestion tests: statements, and scripted models and providers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from kagent_memory.errors import ModelUnavailable
from kagent_memory.ingestion.summary_provider import Transcript
from kagent_memory.memories import Memories
from kagent_memory.models.embedding import PROBE
from kagent_memory.records import Fact, Message, Scope
from kagent_memory.stores.values import MemoryQuery
from kagent_memory.testing import HashEmbedder

SCOPE = Scope("acme", "ada", "desk")


def a_message(text: str, id: str, role: Any = "user", **more: Any) -> Message:
    return Message(text=text, event_id=id, role=role, **more)


def stated(prompt: str) -> Any:
    """Return every "Fact: …." of the input as a fact, without decisions or merges."""
    facts = re.findall(r"Fact: ([^\n<]+?\.)(?=\s|$|<)", prompt)
    return {"facts": [{"text": text} for text in facts], "decisions": [], "summary": ""}


def deciding(**decision: Any) -> Callable[[str], Any]:
    """Return the same decision about each fact and the first memory shown with it."""

    def answer(prompt: str) -> Any:
        shown = re.findall(r"^(F\d+): .*\n  (M\d+): ", prompt, re.MULTILINE)
        return {
            "facts": [],
            "decisions": [{"fact": fact, "memory": memory, **decision} for fact, memory in shown],
        }

    return answer


def raised(outer: Exception, inner: Exception) -> Exception:
    """Return an error raised from another one as its cause."""
    try:
        raise outer from inner
    except Exception as error:
        return error


class AsSaid:
    """A summary provider that makes each message a fact with these fields."""

    name = "as said"

    def __init__(self, fields: Callable[[Message], dict[str, Any]] = lambda _: {}) -> None:
        self._fields = fields

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        return [
            Fact(
                text=message.text,
                origin=message.role,
                event_ids=(message.event_id,),
                said_at=message.at,
                **self._fields(message),
            )
            for message in transcript
        ]


class Replying:
    """A foreign model that returns raw text, or raises."""

    def __init__(self, reply: Callable[[str], Any] | Any, name: str = "theirs") -> None:
        self.name = name
        self.reply = reply
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, schema: type[BaseModel]) -> Any:
        self.prompts.append(prompt)
        answer = self.reply(prompt) if callable(self.reply) else self.reply
        if isinstance(answer, Exception):
            raise answer
        return answer


class Embedding(HashEmbedder):
    """An embedder that records its texts, and fails or waits on demand."""

    def __init__(self, name: str = "hash", dimensions: int = 32) -> None:
        super().__init__(dimensions, name)
        self.documents: list[str] = []
        self.queries: list[str] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.down_after = 10**9

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        if self.error or (kind == "document" and len(self.documents) >= self.down_after):
            raise self.error or ModelUnavailable("The embedder is down.")
        await self.gate.wait()
        record = self.documents if kind == "document" else self.queries
        record += [text for text in texts if text != PROBE]
        return await super().embed(texts, kind=kind)


async def lacking(memories: Memories, scope: Scope, name: str) -> int:
    """Count the memories that have no vector of the embedder of this name."""
    store, now = memories.store.memories, datetime.now(UTC)
    [number] = [space.number for space in await store.spaces.all() if space.name == name]
    return len(await store.select(scope, MemoryQuery(lacking=number, now=now)))


@asynccontextmanager
async def opened(uri: str = "libsql:///:memory:", **options: Any) -> AsyncIterator[Memories]:
    """Open memories without a background prune and, unless `worker` is set, without a worker."""
    settings = {"worker": False, "prune_every_hours": 0, **options}
    async with await Memories.open(uri, **settings) as memories:
        yield memories


async def taken_in(
    memories: Memories, messages: Sequence[Message], session_id: str = "s1", **options: Any
) -> int:
    """Ingest messages of a session at once; return the number of finished jobs."""
    await memories.remember(SCOPE, messages, session_id, **options)
    return await memories.work(until_idle=True)


async def contents(memories: Memories, scope: Scope = SCOPE, **options: Any) -> list[str]:
    page = await memories.list(scope, limit=1000, **options)
    return sorted(memory.content for memory in page.memories)
