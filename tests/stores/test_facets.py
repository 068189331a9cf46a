"""Counts: totals, topics and tags under a filter, and the number of memories that the next prune
deletes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from memories.opening import ADA, GRACE, later, opened

from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter
from kagent_memory.stores.base import MemoryStore
from kagent_memory.stores.values import Facets
from kagent_memory.testing.fixtures import delivery

FACTS = [
    Fact("a", topics=("tea", "it's"), tags=("x",)),
    Fact("b", topics=("tea",), tags=("x", "y"), type="episodic"),
    Fact("c", topics=("äöü 日本", "tea"), ttl_days=2),
    Fact("d", type="episodic", pinned=True, ttl_days=2),
]


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    async with await opened(store_uri) as memories:
        await memories.add(GRACE, [Fact("foreign", topics=("tea", "coffee"))])
        yield memories


async def test_facets_count_what_the_filter_lets_through(memories: Memories):
    """Facets count the visible memories that pass the filter, in SQL as in the default
    implementation.
    """
    ids = await memories.add(ADA, FACTS)
    whole = await memories.facets(ADA)
    topics, tags = [("tea", 3), ("it's", 1), ("äöü 日本", 1)], [("x", 2), ("y", 1)]
    assert (whole.total, [*whole.topics.items()], [*whole.tags.items()]) == (4, topics, tags)
    both = Facets(1, {"tea": 1}, {"x": 1, "y": 1})
    assert await memories.facets(ADA, filter=Filter(tags=("x", "y"))) == both
    assert list((await memories.facets(ADA, limit=1)).topics) == ["tea"]
    await memories.add(ADA, [Fact("e", topics=("milk",))], replaces=ids[0])
    later(memories, days=3)
    assert await memories.facets(ADA) == Facets(3, {"milk": 1, "tea": 1}, {"x": 1, "y": 1})
    store = memories.store.memories
    for filter in (Filter(), Filter(superseded="only"), Filter(topics=("tea",))):
        quick = await store.facets(ADA, filter=filter, now=memories.clock())
        assert quick == await MemoryStore.facets(store, ADA, filter=filter, now=memories.clock())
        assert quick.total == len((await memories.list(ADA, filter=filter)).memories)


async def test_stats_tell_what_the_next_prune_deletes(memories: Memories):
    """`unused` is the number of memories that a prune would delete now."""
    facts = [Fact(f"fact {number}", ttl_days=5) for number in range(6)]
    ids = await memories.add(
        ADA, [*facts, Fact("long", ttl_days=90), Fact("pinned", ttl_days=5, pinned=True)]
    )
    popular = memories.settings.popular_after
    for id, times in ((ids[0], popular), (ids[1], popular - 1)):
        await memories.store.memories.count([delivery(ADA, id, times=times, now=memories.clock())])
    for days, expired, unused in ((0, 0, 0), (5, 6, 5)):
        later(memories, days=days)
        stats = await memories.stats(ADA)
        assert (stats.expired, stats.unused) == (expired, unused)
        assert (await memories.prune(dry_run=True)).deleted == unused
    assert (await memories.stats(GRACE)).unused == 0
