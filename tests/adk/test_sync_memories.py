"""The verbs as plain methods: without an event loop, from any thread, and refused where they would
hang.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import numpy as np
import pytest

from kagent_memory import (
    KagentMemoryService,
    Message,
    NotFound,
    Scope,
)
from kagent_memory.adk.sync_memories import SyncMemories
from kagent_memory.memories.memories import Memories
from kagent_memory.memories.verbs import verbs_of
from kagent_memory.testing import HashEmbedder

ADA = Scope("", "ada", "desk")


def home_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kagent-memory-loop"]


def public(kind: type) -> dict[str, Any]:
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def test_every_verb_is_there_with_its_own_signature_and_promise():
    """Each verb has a plain method with the same name, signature and docstring, and no more."""
    verbs, plain = verbs_of(Memories), public(SyncMemories)
    assert set(plain) == set(verbs)
    for name in verbs:
        verb = getattr(Memories, name)
        assert inspect.signature(plain[name]) == inspect.signature(verb)
        assert plain[name].__doc__ == verb.__doc__
        assert plain[name].__name__ == name, "a verb under another's name"


def test_a_program_without_a_loop_uses_the_verbs(uri: str):
    """A program without an event loop writes, finds, corrects and forgets."""
    before = len(home_threads())
    with KagentMemoryService(uri, llm=False) as memory:
        tea, parrots = memory.sync.add(
            ADA, ["Ada's favourite tea is oolong.", "Grace keeps two parrots."]
        )
        hits = memory.sync.recall(ADA, "Which tea does Ada like?", limit=1)
        assert [hit.memory.id for hit in hits] == [tea]
        assert memory.sync.forget(ADA, [parrots]) == (parrots,)
        memory.sync.remember(ADA, [Message(text="The kiln is hot.", event_id="e1")], "s1")
        assert memory.sync.drain()
        assert len(memory.sync.list(ADA).memories) == 2
    assert len(home_threads()) == before
    with KagentMemoryService(uri, llm=False) as again:
        with pytest.raises(NotFound):
            again.sync.get(ADA, parrots)
        assert again.sync.get(ADA, tea).content == "Ada's favourite tea is oolong."


async def test_lines_come_as_they_are_taken(uri: str):
    """An export gives its lines in order, awaited or not, and may be left before its end."""
    with KagentMemoryService(uri, llm=False) as memory:
        memory.sync.add(ADA, [f"Locker {number} is green" for number in range(250)])
        head, *lines = memory.sync.export()
        assert len(lines) > 250
        assert [line async for line in memory.memories.export()][1:] == lines
        assert next(iter(memory.sync.export()))[:20] == head[:20]
        async for line in memory.memories.export():
            assert line[:20] == head[:20]
            break


async def test_within_a_running_loop_it_works_and_the_loop_waits(uri: str):
    """A plain method called inside a running loop works, and blocks that loop until it is done."""
    went_on: list[str] = []
    with KagentMemoryService(uri, llm=False) as memory:
        asyncio.get_running_loop().call_soon(went_on.append, "other work")
        (id,) = memory.sync.add(ADA, ["The spare key is with Grace."])
        assert went_on == []
        assert (await memory.memories.get(ADA, id)).content == "The spare key is with Grace."
        ids = await asyncio.to_thread(memory.sync.add, ADA, ["The kiln is hot."])
        assert (await memory.memories.get(ADA, ids[0])).content == "The kiln is hot."


class Reentrant(HashEmbedder):
    """An embedder whose author calls the memory that it serves."""

    memory: KagentMemoryService

    async def embed(self, texts: Any, *, kind: Any) -> Any:
        for blocking in (
            lambda: self.memory.sync.stats(ADA),
            lambda: self.memory.__exit__(None, None, None),
        ):
            with pytest.raises(RuntimeError, match=r"awaits the verbs of service\.memories"):
                blocking()
        assert (await self.memory.memories.stats(ADA)).visible == 0
        return np.asarray(await super().embed(texts, kind=kind))


def test_blocking_on_the_services_own_loop_is_refused(uri: str):
    """A blocking call on the service's own loop would wait for itself, and is refused."""
    embedder = Reentrant()
    with KagentMemoryService(uri, embedding=embedder, llm=False) as memory:
        embedder.memory = memory
        memory.sync.add(ADA, ["Ada likes tea."])
        assert memory.sync.stats(ADA).visible == 1
