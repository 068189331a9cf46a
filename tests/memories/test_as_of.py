"""`recall(…, as_of=…)` answers as it would have answered then."""

from __future__ import annotations

import asyncio
import gc
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kagent_memory import Fact, Filter, Memories, Scopes
from kagent_memory.concurrency import turn
from kagent_memory.errors import InvalidInput
from kagent_memory.retrieval import views
from kagent_memory.testing import HashEmbedder
from memories import opening
from memories.opening import ADA, DAY, GRACE, HOUR, START, contents, later

QUERY = "where does Ada sail with the boat"
EVERY = Scopes(tenant=ADA.tenant)


opened = partial(opening.opened, ttl_days=0)


def passed(memories: Memories, time: timedelta = HOUR) -> datetime:
    """Let time pass, and return the moment before it did."""
    return later(memories, seconds=time.total_seconds()) - time


async def ask(memories: Any, at: datetime | None = None, **options: Any) -> list[str]:
    return contents(await memories.recall(ADA, QUERY, as_of=at, limit=20, **options))


@pytest.mark.parametrize("embedder", [None, HashEmbedder(64)], ids=["words", "vectors"])
async def test_each_change_is_seen_from_when_it_was_made(store_uri: str, embedder: Any):
    """An addition, an edit, a replacement and an undo are seen from their very moment on; what was
    reworded since is found by its words alone.
    """
    async with await opened(store_uri, embedding=embedder) as memories:
        nothing = passed(memories)
        [id] = await memories.add(ADA, ["Ada sails the boat near Bergen"])
        added = passed(memories)
        await memories.edit(ADA, id, content="Ada sails the boat near Oslo")
        edited = passed(memories)
        await memories.add(ADA, ["Ada sails the boat near Lima"], replaces=id)
        replaced = passed(memories)
        await memories.undo(ADA, id)
        undone = passed(memories)
        assert await ask(memories, nothing) == []
        for at, place in (
            (added, "Bergen"),
            (edited - timedelta(microseconds=1), "Bergen"),
            (edited, "Oslo"),
            (replaced, "Lima"),
        ):
            assert await ask(memories, at) == [f"Ada sails the boat near {place}"]
        assert await ask(memories, undone) == await ask(memories)
        reworded = await memories.recall(ADA, QUERY, as_of=added)
        assert (reworded.mode, reworded[0].cosine) == ("keyword", None)
        today = await memories.recall(ADA, QUERY, as_of=undone)
        assert today.mode == ("keyword" if embedder is None else "hybrid")


async def test_the_past_shows_the_expired_not_the_forgotten(store_uri: str):
    """Memories that expired since are found; forgotten and pruned ones are gone for the
    past too.
    """
    today, secretly = "Ada sails the boat today", "Ada sails the boat secretly"
    async with await opened(store_uri) as memories:
        _, gone = await memories.add(ADA, [Fact(today, ttl_days=1), Fact(secretly, ttl_days=9)])
        then = passed(memories, 2 * DAY)
        assert await ask(memories) == [secretly]
        assert {*await ask(memories, then)} == {today, secretly}
        assert await ask(memories, then + DAY) == [secretly]
        await memories.forget(ADA, gone)
        assert await ask(memories, then) == [today]
        await memories.prune()
        assert await ask(memories, then) == []


async def test_filters_and_dates_hold_for_the_past_too():
    """Labels are filtered, and dates of a query are read, as they were then. Memories of a session
    count for one another, whichever of them has changed since.
    """
    bergen, oslo = "Ada sails the boat near Bergen", "Ada sails the boat near Oslo"
    async with await opened() as memories:
        [id] = await memories.add(ADA, [Fact(bergen, tags=("sea",), session_id="s")])
        await memories.add(ADA, [Fact(oslo, happened_at=START - DAY, session_id="s")])
        then = passed(memories, 60 * DAY)
        before = await memories.recall(ADA, bergen, as_of=then)
        await memories.edit(ADA, id, tags=["lake"])
        passed(memories)
        assert (await memories.recall(ADA, bergen, as_of=then)).hits == before.hits
        assert await ask(memories, then, filter=Filter(tags=("sea",))) == [bergen]
        assert await ask(memories, then, filter=Filter(tags=("lake",))) == []
        assert await ask(memories, filter=Filter(tags=("sea",))) == []
        [hit] = await memories.recall(ADA, "what happened yesterday?", as_of=then, limit=1)
        assert hit.memory.content == oslo


async def test_looking_at_the_past_delivers_nothing():
    """A search of the past counts nothing, finds nothing that is added meanwhile, and several
    scopes are searched as one.
    """
    async with await opened() as memories:
        [id] = await memories.add(ADA, ["Ada sails the boat near Bergen"])
        await memories.add(GRACE, ["Grace sails the boat near Bergen"])
        then = passed(memories)
        store: Any = memories.store.memories
        changed_since = store.changed_since

        async def slow(*values: Any) -> Any:
            changed = await changed_since(*values)
            await memories.add(ADA, ["Ada sails the boat meanwhile"])
            return changed

        store.changed_since = slow
        every = await memories.recall(EVERY, QUERY, as_of=then)
        assert [hit.scope for hit in every] == [ADA, GRACE]
        await memories.drain()
        usage = (await memories.get(ADA, id)).usage
        assert (usage.delivered, usage.retrieved) == (0, 0)


@pytest.mark.parametrize(
    "wrong", [START.replace(tzinfo=None), START + DAY], ids=["naive", "future"]
)
async def test_a_time_that_does_not_fit_is_refused(wrong: Any):
    """`as_of` is an aware time that has passed."""
    async with await opened() as memories:
        with pytest.raises(InvalidInput, match="as_of"):
            await memories.recall(ADA, QUERY, as_of=wrong)


async def test_a_past_of_too_many_memories_is_refused(monkeypatch: pytest.MonkeyPatch):
    """Too many memories changed since are refused; others are not read, however many there are."""
    monkeypatch.setattr(views, "MAX_PAST", 1)
    async with await opened() as memories:
        ids = await memories.add(ADA, ["Ada sails the boat", "Ada paints the boat"])
        then = passed(memories)
        await memories.pin(ADA, ids[0])
        assert len(await ask(memories, then)) == 2
        await memories.pin(ADA, ids[1])
        with pytest.raises(InvalidInput, match="later"):
            await ask(memories, then)


async def test_a_search_of_the_past_leaves_no_index_in_memory():
    """The index of a past scope is freed when its search ends, not at a later collection."""
    async with await opened() as memories:
        await memories.add(ADA, ["Ada sails the boat"])
        then = passed(memories)
        gc.collect()
        gc.disable()
        try:
            assert await ask(memories, then)
            assert not any(isinstance(value, views.ManyViews) for value in gc.get_objects())
        finally:
            gc.enable()


async def test_one_caller_asks_for_the_changes_of_one_past_at_a_time(store_uri: str):
    """Of a distant past that keeps the database busy, and others wait for it."""
    async with await opened(store_uri) as memories, asyncio.timeout(60):
        await memories.add(ADA, ["Ada sails the boat near Oslo"])
        passed(memories)
        store: Any = memories.store.memories.reader
        changed_since, running = store.changed_since, list[int]()

        async def counted(*values: Any) -> Any:
            running.append(1)
            assert len(running) == 1
            await asyncio.sleep(0.01)
            changed = await changed_since(*values)
            running.pop()
            return changed

        store.changed_since = counted
        turn.set(asyncio.Semaphore(1))
        await asyncio.gather(*(ask(memories, START + HOUR / 2) for _ in range(3)))
