"""What a list counts: totals, topics and tags under a filter, replaced memories, and what the next
prune deletes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from server.ground import Clock

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Scope
from kagent_memory.stores.base import MemoryStore
from kagent_memory.stores.values import Facets
from kagent_memory.testing.fixtures import delivery

SCOPE = Scope("", "ada", "desk")
OTHER = Scope("", "bob", "desk")
FACTS = [
    Fact("a", topics=("tea", "it's"), tags=("x",)),
    Fact("b", topics=("tea",), tags=("x", "y"), type="episodic"),
    Fact("c", topics=("äöü 日本", "tea"), ttl_days=2),
    Fact("d", type="episodic", pinned=True, ttl_days=2),
]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memories(store_uri: str, clock: Clock) -> AsyncIterator[Memories]:
    async with await Memories.open(store_uri, worker=False, clock=clock) as opened:
        await opened.add(OTHER, [Fact("foreign", topics=("tea", "coffee"))])
        yield opened


async def test_facets_count_what_the_filter_lets_through(memories: Memories, clock: Clock) -> None:
    """Totals, topics and tags are those of the visible memories that pass, and the database counts
    as the default does.
    """
    assert await memories.facets(SCOPE) == Facets()
    ids = await memories.add(SCOPE, FACTS)
    whole = await memories.facets(SCOPE)
    assert (whole.total, list(whole.topics.items())) == (
        4,
        [("tea", 3), ("it's", 1), ("äöü 日本", 1)],
    )
    assert list(whole.tags.items()) == [("x", 2), ("y", 1)]
    assert await memories.facets(SCOPE, filter=Filter(tags=("x", "y"))) == Facets(
        1, {"tea": 1}, {"x": 1, "y": 1}
    )
    assert (await memories.facets(SCOPE, filter=Filter(types=("episodic",)))).total == 2
    assert await memories.facets(SCOPE, filter=Filter(topics=("none",))) == Facets()
    assert list((await memories.facets(SCOPE, limit=1)).topics) == ["tea"]
    assert await memories.facets(SCOPE, limit=0) == Facets(4)
    await memories.add(SCOPE, [Fact("e", topics=("milk",))], replaces=ids[0])
    clock.forward(days=3)
    assert await memories.facets(SCOPE) == Facets(3, {"milk": 1, "tea": 1}, {"x": 1, "y": 1})
    store = memories.parts.store  # pyright: ignore[reportPrivateUsage]
    for filter in (
        Filter(),
        Filter(superseded=True),
        Filter(superseded="only"),
        Filter(topics=("tea",)),
    ):
        quick = await store.memories.facets(SCOPE, filter=filter, now=clock())
        assert quick == await MemoryStore.facets(store.memories, SCOPE, filter=filter, now=clock())
        assert quick.total == len((await memories.list(SCOPE, filter=filter)).memories)


async def test_stats_tell_what_the_next_prune_deletes(memories: Memories, clock: Clock) -> None:
    """`unused` is what a prune at this moment would delete."""
    facts = [Fact(f"fact {number}", ttl_days=5) for number in range(6)]
    ids = await memories.add(
        SCOPE, [*facts, Fact("long", ttl_days=90), Fact("pinned", ttl_days=5, pinned=True)]
    )
    store, popular = memories.parts.store, memories.settings.popular_after  # pyright: ignore[reportPrivateUsage]
    for id, times in ((ids[0], popular), (ids[1], popular - 1)):
        await store.memories.count([delivery(SCOPE, id, times=times, now=clock())])
    assert (await memories.stats(SCOPE)).unused == 0
    clock.forward(days=5)
    stats = await memories.stats(SCOPE)
    assert (stats.expired, stats.unused) == (6, 5)
    assert (await memories.prune(dry_run=True)).deleted == stats.unused
    assert (await memories.stats(OTHER)).unused == 0
    settings = replace(memories.settings, popular_after=1)
    memories.parts.settings = settings
    assert (await memories.stats(SCOPE)).unused == 4
    assert (await memories.prune()).deleted == 4
    clock.forward(seconds=1)
    assert (await memories.stats(SCOPE)).unused == 0
    clock.forward(days=timedelta(days=9).days)
    assert (await memories.stats(SCOPE)).unused == (await memories.prune(dry_run=True)).deleted == 2
