"""A process that takes sessions in and can be killed anywhere; the scripted model answers by its
input.

The points are put into the store, the embedder and the model from outside: the package knows
nothing of them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import kagent_memory.stores.libsql
import kagent_memory.stores.postgres  # noqa: F401 drivers load when used
from kagent_memory.ingestion import worker
from kagent_memory.memories import Memories
from kagent_memory.records import Message, Scope
from kagent_memory.testing import HashEmbedder, ScriptedLlm

SESSIONS = 3

POINTS = (
    "enqueue:after",
    "claim:after",
    "complete:after",
    "embed:after",
    "apply:before",
    "insert_memory:after",
    "put_vector:after",
    "end_job:after",
    "insert_taken:after",
    "apply:after",
)


def sessions() -> dict[str, list[Message]]:
    """What is said: every session states two facts of its own."""
    return {
        f"s{number}": [
            Message(
                text=f"Fact: the parrot number {number} is called Polly{number}.",
                event_id=f"s{number}-a",
            ),
            Message(text="I see.", role="agent", event_id=f"s{number}-b"),
            Message(
                text=f"Fact: locker {number} opens with key K-{number}00.", event_id=f"s{number}-c"
            ),
        ]
        for number in range(SESSIONS)
    }


def answer(prompt: str) -> Any:
    """Every stated fact, whatever the turn: the model's answer depends on its input alone."""
    facts = re.findall(r"Fact: ([^\n<]+?\.)(?=\s|$|<)", prompt)
    return {"facts": [{"text": text} for text in facts], "decisions": []}


def scope_of(user: str) -> Scope:
    """Whose life it is."""
    return Scope("acme", user, "desk")


def live(uri: str, user: str, point: str, acknowledged: Sequence[str], report: Connection) -> None:
    """Takes in what was not acknowledged yet, works until all is done, and reports both."""
    asyncio.run(_live(uri, user, point, acknowledged, report))


async def _live(
    uri: str, user: str, point: str, acknowledged: Sequence[str], report: Connection
) -> None:
    llm, embedder = ScriptedLlm(answer), HashEmbedder()
    _arm(llm, "complete", point)
    _arm(embedder, "embed", point)
    worker.LEASE_SECONDS = 0.4  # of this process, which is killed soon
    async with await Memories.open(
        uri, llm=llm, embedding=embedder, prune_every_hours=0
    ) as memories:
        store = memories.store
        for verb in ("enqueue", "apply"):
            _arm(store, verb, point)
        for verb in ("taken", "version"):
            _arm(store.memories, verb, point)
        _arm(store.queue, "claim", point)
        _arm_statements(store, point)
        for session_id, messages in sessions().items():
            if session_id not in acknowledged:
                await memories.remember(scope_of(user), messages, session_id)
                report.send(session_id)
        if not await memories.drain(120):
            raise TimeoutError("not drained")
    report.send("done")


def _arm(target: Any, name: str, point: str) -> None:
    where, _, when = point.partition(":")
    if where != name:
        return
    inner: Callable[..., Awaitable[Any]] = getattr(target, name)

    async def armed(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await inner(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)
        return result

    object.__setattr__(target, name, armed)


def _arm_statements(store: Any, point: str) -> None:
    where, _, when = point.partition(":")
    inner = store.memories.database.write

    async def write(script: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        async def armed(session: Any, *args: Any, **kwargs: Any) -> Any:
            for name in ("run", "run_many"):
                _arm_statement(type(session), name, where, when)
            return await script(session, *args, **kwargs)

        return await inner(armed, *args, **kwargs)

    if where in ("insert_memory", "put_vector", "end_job", "insert_taken"):
        object.__setattr__(store.memories.database, "write", write)


def _arm_statement(kind: Any, name: str, where: str, when: str) -> None:
    inner = getattr(kind, name)
    if hasattr(inner, "armed"):
        return

    async def armed(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        if query == where and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await inner(self, query, *args, **kwargs)
        if query == where:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    armed.armed = True  # type: ignore[attr-defined]
    setattr(kind, name, armed)
