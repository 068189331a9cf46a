"""A process that ingests sessions and can be killed anywhere.

The scripted model answers by its input. The kill points are put into the store, embedder and model
from outside: the package does not know them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from kagent_memory.ingestion import worker
from kagent_memory.memories import Memories
from kagent_memory.records import Message, Scope
from kagent_memory.stores.sql.session import Transaction
from kagent_memory.testing import HashEmbedder, ScriptedLlm

from .ground import stated

SESSIONS = 3

WITHIN = tuple(
    f"{name}:after" for name in ("insert_memory", "put_vector", "end_job", "insert_taken")
)
"""The points within a transaction."""
POINTS = (
    *("enqueue:after", "claim:after", "complete:after", "embed:after", "apply:before"),
    *(*WITHIN, "apply:after"),
)


def sessions() -> dict[str, list[Message]]:
    """Return sessions that state two facts each."""
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


def scope_of(user: str) -> Scope:
    """Return the scope of a life."""
    return Scope("acme", user, "desk")


def live(uri: str, user: str, point: str, acknowledged: Sequence[str], report: Connection) -> None:
    """Ingest the sessions not yet acknowledged, work until idle, and report both."""
    asyncio.run(_live(uri, user, point, acknowledged, report))


async def _live(
    uri: str, user: str, point: str, acknowledged: Sequence[str], report: Connection
) -> None:
    llm, embedder = ScriptedLlm(stated), HashEmbedder()
    worker.LEASE_SECONDS = 0.4  # of this process, which is killed soon
    async with await Memories.open(
        uri, llm=llm, embedding=embedder, prune_every_hours=0
    ) as memories:
        store = memories.store
        _arm(point, llm=llm, embedder=embedder, store=store, queue=store.queue)
        for session_id, messages in sessions().items():
            if session_id not in acknowledged:
                await memories.remember(scope_of(user), messages, session_id)
                report.send(session_id)
        if not await memories.drain(120):
            raise TimeoutError("not drained")
    report.send("done")


def _arm(point: str, *, llm: Any, embedder: Any, store: Any, queue: Any) -> None:
    """Kill the process before or after a verb or a statement runs."""
    where, _, when = point.partition(":")
    verbs = (
        (llm, "complete"),
        (embedder, "embed"),
        (queue, "enqueue"),
        (store, "apply"),
        (queue, "claim"),
    )
    for target, name in verbs:
        if name == where:
            object.__setattr__(target, name, _killing(getattr(target, name), when))
    for name, is_it in (
        ("several", lambda _, queries: where in dict(queries)),
        ("run_many", lambda _, query, *__: query == where),
    ):
        setattr(Transaction, name, _killing(getattr(Transaction, name), when, is_it))


def _killing(
    inner: Callable[..., Awaitable[Any]], when: str, is_it: Callable[..., bool] = lambda *_: True
) -> Callable[..., Awaitable[Any]]:
    async def killing(*args: Any, **kwargs: Any) -> Any:
        if is_it(*args) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await inner(*args, **kwargs)
        if is_it(*args):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return killing
