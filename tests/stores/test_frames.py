"""How deep a verb reaches the driver: the package's frames from the caller to the statement, threads included."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kagent_memory
from kagent_memory.memories import Memories
from kagent_memory.records import Change, Memory, Scope, new_id
from kagent_memory.stores import open_store
from kagent_memory.stores.base import Batch
from kagent_memory.stores.libsql import connection as libsql_connection
from kagent_memory.stores.postgres.connection import Connection

PACKAGE = str(Path(kagent_memory.__file__).parent)
NOW = datetime(2026, 3, 1, tzinfo=UTC)
SCOPE = Scope("acme", "ada", "notes")


class Depths:
    """The package's frames at each call of a driver, the outermost first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[list[str]] = []
        self._task: asyncio.Task[object] | None = None
        wait, mapped_errors = Connection.wait, libsql_connection._mapped_errors

        async def waited(connection, *arguments, **options):
            self._note(awaited=False)
            return await wait(connection, *arguments, **options)

        def guarded(is_failure):
            self._note(awaited=True)
            return mapped_errors(is_failure)

        monkeypatch.setattr(Connection, "wait", waited)
        monkeypatch.setattr(libsql_connection, "_mapped_errors", guarded)

    def _note(self, *, awaited: bool) -> None:
        codes = []
        frame = sys._getframe(2)
        while frame is not None:
            codes.append(frame.f_code)
            frame = frame.f_back
        codes.reverse()
        if awaited and self._task is not None:  # the driver has a thread of its own; here waits who called it
            waiting, step = [], self._task.get_coro()
            while step is not None and hasattr(step, "cr_code"):
                waiting.append(step.cr_code)
                step = step.cr_await
            codes = waiting + codes
        self.seen.append([code.co_name for code in codes if code.co_filename.startswith(PACKAGE)])

    async def of(self, verb) -> list[str]:
        """The deepest call of the driver that the verb makes."""
        self.seen = []
        self._task = asyncio.create_task(verb)
        await self._task
        return max(self.seen, key=len)


async def test_a_stores_search_and_write_reach_the_driver_in_few_frames(store_uri, monkeypatch):
    async with await open_store(store_uri) as store:
        depths = Depths(monkeypatch)
        memory = Memory(id=new_id(), content="green tea", created_at=NOW, updated_at=NOW)
        batch = Batch(changes=[Change(kind="add", memory=memory)])
        added = await depths.of(store.apply(SCOPE, batch, now=NOW))
        cold = await depths.of(store.search_text(SCOPE, ["tea"], limit=5, now=NOW))
        warm = await depths.of(store.search_text(SCOPE, ["tea"], limit=5, now=NOW))
    assert len(added) <= 11, added
    assert len(cold) <= 10, cold
    assert len(warm) <= 9, warm


async def test_recall_and_add_reach_the_driver_in_twelve_frames(store_uri, monkeypatch):
    async with await Memories.open(store_uri, worker=False) as memories:
        await memories.add(SCOPE, ["Ada drinks green tea."])
        await memories.recall(SCOPE, "tea")
        depths = Depths(monkeypatch)
        added = await depths.of(memories.add(SCOPE, ["Ada drinks black tea."]))
        found = await depths.of(memories.recall(SCOPE, "which tea?", deliver=False))
    assert len(added) <= 12, added
    assert len(found) <= 12, "|".join(found)
