"""The prune: deletions, extensions and evictions, and its background process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from memories import opening
from memories.opening import ADA, GRACE, kept_ids, later, listed

from kagent_memory import Fact
from kagent_memory.errors import StoreError
from kagent_memory.retention import prune
from kagent_memory.retrieval.ranking.importance import ImportanceWeights
from kagent_memory.stores.sql import maintenance
from kagent_memory.stores.sql.session import Transaction
from kagent_memory.stores.values import Pruned
from kagent_memory.testing import HashEmbedder

HOBBIES = (
    "Ada sails",
    "Bob skis in Davos",
    "The gateway restarts nightly",
    "Rent is due on Monday",
    "Grace paints",
)
LEGS = pytest.mark.parametrize("embedder", [None, HashEmbedder(64)], ids=["words", "vectors"])


opened = partial(opening.opened, ttl_days=0)


async def test_in_an_archive_nothing_goes_however_old(store_uri: str):
    """The policy "archive" deletes nothing."""
    async with await opened(store_uri, policy="archive") as memories:
        await memories.add(ADA, ["Ada sails", Fact("Grace paints", importance=0)])
        later(memories, days=36_500)
        assert await memories.prune() == Pruned()
        assert await listed(memories) == {"Ada sails", "Grace paints"}


async def test_a_prune_gives_each_memory_that_goes_with_its_reason(store_uri: str):
    """A dry run and a prune name the same memories, each with the reason of its deletion."""
    options = {"policy": "tiers", "max_memories": 4, "half_life_days": 100}
    async with await opened(store_uri, **options) as memories:
        facts = {
            "expired": Fact("Rent is due on Monday", ttl_days=30),
            "faded": Fact("Bob skis in Davos", importance=0.1),
            "pinned": Fact("The spare key is with Grace", pinned=True, importance=0.0),
            "used": Fact("Ada sails near Bergen", importance=1.0),
            "high": Fact("Lima was cold in June", importance=1.0),
        }
        ids = dict(zip(facts, await memories.add(ADA, list(facts.values())), strict=True))
        [theirs] = await memories.add(GRACE, [Fact("Bob paints", ttl_days=1)])
        for _ in range(3):
            memories.deliveries.count(ADA, [ids["used"]])
            await memories.drain()
        later(memories, days=181)
        await memories.add(ADA, [f"A fresh note, number {number}" for number in range(4)])
        would = await memories.prune(dry_run=True)
        assert would == Pruned(deleted=2, faded=1, evicted=3)
        reasons = {item.memory_id: item.reason for item in would.gone}
        expected = ("expired", "faded")
        assert [reasons[ids[name]] for name in expected] == [*expected]
        assert [item.scope for item in would.gone if item.memory_id == theirs] == [GRACE]
        assert ids["pinned"] not in reasons
        assert [*reasons.values()].count("capacity") == 3
        assert len(await listed(memories)) == 8  # a dry run leaves all there
        report = await memories.prune()
        assert (report, {item.memory_id for item in report.gone}) == (would, reasons.keys())
        assert len(await listed(memories)) == 4
        assert await memories.prune() == Pruned()


async def test_a_prune_that_breaks_off_keeps_what_it_had_done(store_uri: str, monkeypatch: Any):
    """Each scope is pruned in a transaction of its own, so that an interrupted prune keeps its
    progress.
    """
    scopes = sorted([ADA, GRACE], key=lambda scope: scope.id)
    async with await opened(store_uri) as memories:
        for scope in scopes:
            await memories.add(scope, [Fact("Rent is due", ttl_days=1), Fact("Ada sails")])
        now, erase = later(memories, days=2), maintenance.erase

        async def broken(session: Transaction, ids: Sequence[str]) -> None:
            if session.scope == scopes[1]:
                raise StoreError("the connection was lost")
            await erase(session, ids)

        monkeypatch.setattr(maintenance, "erase", broken)
        with pytest.raises(StoreError):
            await memories.store.memories.prune(now=now, popular_after=10)
        assert [len(await kept_ids(memories, scope)) for scope in scopes] == [1, 2]


@LEGS
async def test_the_prune_evicts_from_scopes_that_hold_too_many(store_uri: str, embedder: Any):
    """The least important memories of each scope over its limit are evicted, and may be added
    again.
    """
    async with await opened(store_uri, embedding=embedder, max_memories=3) as memories:
        key = "The spare key is with Grace"
        ids = await memories.add(ADA, [*HOBBIES[:4], Fact(key, pinned=True)])
        await memories.add(GRACE, HOBBIES[:3])
        for id in ids[:2]:
            await memories.feedback(ADA, id, success=True)
        assert await memories.prune(dry_run=True) == Pruned(evicted=2)
        assert len(await listed(memories)) == 5
        assert await memories.prune() == Pruned(evicted=2)
        assert await listed(memories) == {*HOBBIES[:2], key}
        assert len(await listed(memories, GRACE)) == 3
        assert await memories.prune() == Pruned()
        await memories.add(ADA, [HOBBIES[3]])
        assert HOBBIES[3] in await listed(memories)


@LEGS
async def test_what_is_said_twice_is_evicted_first(store_uri: str, embedder: Any):
    """One of two memories that state the same is evicted before unique memories."""
    async with await opened(store_uri, embedding=embedder, max_memories=4) as memories:
        await memories.add(ADA, [*HOBBIES[:4], "The gateway restarts nightly, always"])
        assert await memories.prune() == Pruned(evicted=1)
        assert len([text for text in await listed(memories) if "gateway" in text]) == 1


async def test_a_scope_far_over_its_bound_is_brought_down_at_once(
    store_uri: str, monkeypatch: pytest.MonkeyPatch
):
    """One prune brings a scope down to its limit from any size."""
    monkeypatch.setattr(prune, "EXAMINED", 5)
    monkeypatch.setattr(prune, "PAGE", 16)
    by_success = ImportanceWeights(uniqueness=0.01)
    async with await opened(store_uri, max_memories=10, importance_weights=by_success) as memories:
        notes = [f"Note number {number} of ward {number * 7}" for number in range(60)]
        ids = await memories.add(ADA, notes)
        for id in ids[40:50]:
            await memories.feedback(ADA, id, success=True)
        assert await memories.prune() == Pruned(evicted=50)
        assert await listed(memories) == {*notes[40:50]}


async def test_one_of_two_processes_prunes_in_the_background(store_uri: str):
    """One process prunes, and no other until the period is over."""
    async with await opened(store_uri) as memories:
        await memories.add(ADA, HOBBIES)
    workers = [await opened(store_uri, max_memories=3, worker=True) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            while len(await listed(workers[0])) > 3:  # noqa: ASYNC110 a prune that ran is no event of ours
                await asyncio.sleep(0.02)
        await workers[0].add(ADA, ["Ada skates"])
        await asyncio.sleep(0.1)
        assert len(await listed(workers[1])) == 4
    finally:
        for memories in workers:
            await memories.close()
