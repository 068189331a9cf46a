"""What the tests of ingestion stand on: what is said, and models and providers that do as they are
told.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from kagent_memory.ingestion.summary_provider import Transcript
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope

SCOPE = Scope("acme", "ada", "desk")


def said(text: str, id: str, role: Any = "user", **more: Any) -> Message:
    return Message(text=text, event_id=id, role=role, **more)


def stated(prompt: str) -> Any:
    """Every "Fact: …." of the input as a fact; nothing to decide, nothing to merge."""
    facts = re.findall(r"Fact: ([^\n<]+?\.)(?=\s|$|<)", prompt)
    return {"facts": [{"text": text} for text in facts], "decisions": [], "summary": ""}


def deciding(**decision: Any) -> Callable[[str], Any]:
    """Decide the same about each fact and the first memory that is shown with it."""

    def answer(prompt: str) -> Any:
        shown = re.findall(r"^(F\d+): .*\n  (M\d+): ", prompt, re.MULTILINE)
        return {
            "facts": [],
            "decisions": [{"fact": fact, "memory": memory, **decision} for fact, memory in shown],
        }

    return answer


class AsSaid:
    """A summary provider that takes each message for a fact, with these fields."""

    name = "as said"

    def __init__(self, fields: Callable[[Message], dict[str, Any]] = lambda _: {}) -> None:
        self._fields = fields

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        return [
            Fact(
                text=one.text,
                origin=one.role,
                event_ids=(one.event_id,),
                said_at=one.at,
                **self._fields(one),
            )
            for one in transcript
        ]


class Replying:
    """A model of somebody else's: it gives back the raw text of a reply, or raises."""

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


@asynccontextmanager
async def opened(uri: str = "libsql:///:memory:", **options: Any) -> AsyncIterator[Memories]:
    """Open memories that are not pruned."""
    async with await Memories.open(uri, prune_every_hours=0, **options) as memories:
        yield memories


async def contents(memories: Memories, scope: Scope = SCOPE, **options: Any) -> list[str]:
    page = await memories.list(scope, limit=1000, **options)
    return sorted(memory.content for memory in page.memories)
