"""Shared ground of the tests of memories: memories here or through a server, and their clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import relay

from kagent_memory import Change, Fact, Filter, Memories, Memory, Recall, Scope
from kagent_memory.remote import RemoteMemories
from kagent_memory.retention.lifecycle import revised, to_memory
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access
from kagent_memory.testing import FrozenClock

START = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
ADA, GRACE = Scope("acme", "ada", "notes"), Scope("acme", "grace", "notes")
CANARY = "Quokka77"
"""A word that must be gone from everything once it was forgotten."""


class TickingClock(FrozenClock):
    """Moves on by a step whenever it is asked, so that nothing happens at the same time."""

    def __init__(self, step: timedelta) -> None:
        super().__init__(START)
        self.step = step

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


async def opened(uri: str | None = "libsql:///:memory:", **options: Any) -> Memories:
    """Open memories that call no model unless told to, work only when asked, and have a clock that
    stands still.
    """
    quiet = {"llm": False, "worker": False, "clock": FrozenClock(START)}
    return await Memories.open(uri, **{**quiet, **options})


def later(memories: Memories, **time: float) -> datetime:
    """Move the frozen clock of some memories on, and return the time it shows then."""
    clock: Any = memories.clock
    return clock.advance(**time)


def contents(recall: Recall) -> list[str]:
    """Return the texts of the memories that a search found, the best first."""
    return [hit.memory.content for hit in recall]


async def listed(memories: Memories, scope: Scope = ADA, **conditions: Any) -> set[str]:
    """Return the texts of the memories that a filter of these conditions lets through."""
    page = await memories.list(scope, filter=Filter(**conditions), limit=1000)
    return {memory.content for memory in page.memories}


def past_of(memories: Iterable[Memory], by: str, now: datetime) -> list[Memory]:
    """Return memories as the history of another one."""
    past = {"state": "superseded", "superseded_by": by, "valid_to": now}
    return [revised(memory, now=now, **past) for memory in memories]


async def merged(memories: Memories, ids: Sequence[str], text: str) -> str:
    """Put a memory in the place of several of Ada's, which become its history; return its id."""
    now = memories.clock()
    former = (await memories.store.memories.get(ADA, ids, now=now)).values()
    fact = Fact(text, "episodic", event_ids=tuple(id for row in former for id in row.event_ids))
    added = to_memory(fact, memories.settings, now=now)
    changes = [
        Change(kind="add", memory=added, group=added.id),
        *(
            Change(kind="merge", memory=past, group=added.id)
            for past in past_of(former, added.id, now)
        ),
    ]
    await memories.embed_and_apply(ADA, changes, now=now)
    return added.id


async def kept_ids(memories: Memories, scope: Scope = ADA) -> list[str]:
    """Return the ids of all memories of a scope, visible or not."""
    return list(await memories.store.memories.kept(scope, Filter()))


async def through_a_server(memories: Memories, token: str = "", **options: Any) -> RemoteMemories:
    """Open memories through a server of theirs; with a token the server asks for one."""
    app = create_app(memories, Access(required=True)) if token else create_app(memories)
    return await RemoteMemories.open(
        "http://127.0.0.1",
        transport=httpx.ASGITransport(app),
        **({"token": token} if token else {}),
        **options,
    )


def execute(uri: str, *statements: str) -> Any:
    """Run statements as somebody with the database's password; return the rows of the last."""
    if not uri.startswith("libsql"):
        return relay.execute(uri.partition("&rls")[0], *statements)
    with closing(sqlite3.connect(uri.removeprefix("libsql:///"))) as connection, connection:
        cursors = [connection.execute(statement) for statement in statements]
        return cursors[-1].fetchall()
