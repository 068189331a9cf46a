"""Contract of upkeep: prune, counters and scopes; concurrent callers; closed stores and cancelled
callers.
"""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from ..errors import Conflict, InvalidInput, StoreError
from ..records import Scope, new_id
from ..stores.values import Pruned
from .fixtures import (
    BEYOND_INT32,
    DAY,
    NOW,
    SECOND,
    ContractPart,
    ScopedStore,
    a_job,
    a_memory,
    adding,
    delivery,
    is_refused,
    superseding,
)


class KeepingContract(ContractPart):
    """Promises of expiry, prune and counters."""

    async def test_the_prune_goes_by_expiry_and_deliveries(self, home: ScopedStore) -> None:
        """The prune deletes expired memories with few deliveries, extends popular ones by their
        TTL, and leaves pinned and living ones.
        """
        other, end, prune = home.elsewhere(), home.now + 15 * DAY, home.store.memories.prune
        days = {"unpopular": 15, "popular": 7, "pinned": 1, "living": 30, "endless": None}
        ids = {name: new_id() for name in days}
        await home.add(
            *(
                a_memory(name, id=ids[name], ttl_days=ttl, pinned=name == "pinned")
                for name, ttl in days.items()
            )
        )
        [theirs] = await other.write("theirs", ttl_days=1)
        await home.deliver(ids["unpopular"], times=9)
        await home.deliver(ids["popular"], times=10)
        early = home.now + DAY - timedelta(microseconds=1)
        assert await prune(now=early, popular_after=10) == Pruned()
        expected = Pruned(deleted=2, extended=1)
        assert await prune(now=end, popular_after=10, dry_run=True) == expected
        assert set(await home.contents()) == days.keys()
        pruned = await prune(now=end, popular_after=10)
        assert pruned == expected
        deleted = {(item.scope, item.memory_id, item.reason) for item in pruned.gone}
        unpopular = ids.pop("unpopular")
        assert deleted == {(home.scope, unpopular, "expired"), (other.scope, theirs.id, "expired")}
        assert await prune(now=end, popular_after=10) == Pruned()
        assert await home.visible(unpopular, *ids.values()) == {*ids.values()}
        popular = await home.get(ids["popular"])
        assert (popular.expires_at, popular.usage.delivered) == (end + 7 * DAY, 0)
        assert popular.usage.delivered_total == 10
        assert (await home.get(ids["living"])).expires_at == home.now + 30 * DAY
        assert await other.contents() == []

    async def test_an_eviction_leaves_as_many_as_it_should(self, home: ScopedStore) -> None:
        """An eviction deletes the first of the named memories until `keep` are left, skipping
        pinned and invisible ones, and its dry run says the same.
        """
        other, evict = home.elsewhere(), home.store.memories.evict
        if await is_refused(evict(home.scope, [], keep=9, now=home.now)):
            return
        first, second, third = await home.write("a", "b", "c", session_id="s")
        [pinned], [past] = await home.write("p", pinned=True), await home.write("old")
        [expired] = await home.write("e", ttl_days=1)
        await other.write("theirs")
        await home.apply(superseding(past, third))
        later, version = home.at(home.now + DAY), await home.version()
        hidden = [pinned.id, past.id, expired.id, new_id(), "unknown"]
        candidates = [*hidden, first.id, first.id, second.id, third.id]
        for keep, evicted in ((9, ()), (2, (first.id, second.id)), (2, ())):
            for dry_run in (True, False):
                options: dict[str, Any] = {"keep": keep, "now": later.now, "dry_run": dry_run}
                assert await evict(home.scope, candidates, **options) == evicted
        assert await home.version() > version
        assert set(await later.contents()) == {"c", "p"}
        assert await other.contents() == ["theirs"]
        assert await home.visible(past.id, expired.id, superseded=True) == {past.id, expired.id}

    async def test_what_went_by_itself_may_come_again(self, home: ScopedStore) -> None:
        """Pruned memories leave no history, terms, vectors, usage or tombstones behind."""
        later, space = home.at(home.now + 2 * DAY), await home.space()
        [memory] = await home.write("zebra", ttl_days=1, session_id="s", event_ids=("e",))
        await home.embed(space, {memory.id: (1, 0)})
        await home.change(memory, importance=0.9)
        await home.count({"successes": {memory.id: 1}, "delivered": {memory.id: 1}})
        pruned = await home.store.memories.prune(now=later.now, popular_after=10)
        assert pruned == Pruned(deleted=1)
        assert list(await home.store.memories.history(home.scope, memory.id)) == []
        assert (await later.text("zebra")).matches == {}
        again = a_memory("zebra", now=later.now, session_id="s", event_ids=("e",), id=memory.id)
        assert await later.add(again) == (memory.id,)
        usage = (await later.get(memory.id)).usage
        assert (usage.delivered, usage.successes) == (0, 0)
        assert await later.nearest(space, 1, 0) == []

    async def test_the_stats_count_what_is_there(self, home: ScopedStore) -> None:
        """The stats count memories by state and type, jobs by state, deliveries, versions and model
        costs of this scope only.
        """
        one, two = a_memory("one", pinned=True), a_memory("two", type="episodic", pinned=True)
        old, past = a_memory("old", ttl_days=1), a_memory("past")
        await home.add(one, two, a_memory("three", type="episodic"), old, past)
        await home.apply(superseding(past, one))
        for tokens in (100, 250):
            await home.apply(taken=[("s", f"e{tokens}")], calls=1, tokens=tokens)
        await home.deliver(one.id, two.id)
        await home.store.queue.enqueue([a_job(home.scope, now=home.now - DAY), a_job(home.scope)])
        await home.elsewhere().enqueue()
        await home.claim()
        stats = await home.at(home.now + DAY).stats()
        assert (stats.visible, dict(stats.by_type)) == (3, {"semantic": 1, "episodic": 2})
        assert (stats.expired, stats.superseded, stats.pinned) == (1, 1, 2)
        assert (stats.delivered_total, stats.version, stats.calls, stats.tokens) == (2, 4, 2, 350)
        assert dict(stats.jobs) == {"running": 1, "queued": 1}

    async def test_scopes_come_in_order_and_page_by_page(self, home: ScopedStore) -> None:
        """Scopes with memories or jobs are listed by code points of tenant, app and user, page by
        page, filtered by any of them.
        """
        odd = ("", "B", "a", "Z", "é", "z", "a b", "_", "日", "\U0001f9e0", "\uffff")
        parts = {
            *product(("", "é"), ("", "x", "%"), ("", "u", "u" * 700)),
            *product(odd, ("x",), ("u",)),
        }
        scopes = [Scope(tenant, user, app) for tenant, app, user in sorted(parts)]
        for number, scope in enumerate(scopes):
            elsewhere = home.elsewhere(scope)
            await (elsewhere.enqueue() if number % 2 else elsewhere.write("here"))
        emptied = home.elsewhere()
        await emptied.write("gone")
        await emptied.forget(everything=True)
        list_scopes = home.store.scopes
        assert list(await list_scopes(limit=BEYOND_INT32)) == scopes
        for tenant, app, user in product(("", "a", "b", None), ("", "%", None), ("", "u", None)):
            query: dict[str, Any] = {"tenant": tenant, "app": app, "user": user}
            fitting = [
                scope
                for scope in scopes
                if all(v in (None, getattr(scope, k)) for k, v in query.items())
            ]
            assert list(await list_scopes(**query)) == fitting
            assert list(await list_scopes(**query, limit=2)) == fitting[:2]
            for after in fitting[1:2]:
                assert list(await list_scopes(**query, after=after)) == fitting[2:]
        for part in ("tenant", "app", "user"):
            query = {part: "a\0"}
            with pytest.raises(InvalidInput):
                await list_scopes(**query)

    async def test_a_scope_is_listed_while_it_holds_something(self, home: ScopedStore) -> None:
        """A scope is listed from its first memory or job to its last, however that one ends."""

        async def is_listed() -> bool:
            pages = [
                list(await home.store.scopes(tenant=home.scope.tenant, user=user))
                for user in (None, home.scope.user)
            ]
            assert pages[0] == pages[1]
            return pages == [[home.scope]] * 2

        await home.forget(everything=True, event_ids=["unheard"])
        assert not await is_listed()
        job = await home.enqueue()
        assert await is_listed()
        await home.store.queue.drop(job.id)
        assert not await is_listed()
        await home.enqueue()
        running = await home.claim()
        assert await is_listed()
        await home.apply(job=(running.id, running.fence), taken=[("s", "e")])
        assert not await is_listed()
        one, two = await home.write("one", "two")
        await home.forget(one.id)
        assert await is_listed()
        await home.forget(two.id)
        assert not await is_listed()
        assert await home.add(a_memory("one")) == (None,)
        assert not await is_listed()
        await home.write("three", ttl_days=1)
        assert await is_listed()
        await home.store.memories.prune(now=home.now + 2 * DAY, popular_after=10)
        assert not await is_listed()
        [last] = await home.write("last")
        await home.enqueue()
        await home.forget(last.id)
        assert await is_listed()


class ConcurrencyContract(ContractPart):
    """Concurrent callers lose, duplicate and deadlock nothing."""

    async def test_writers_to_one_scope_lose_nothing(self, home: ScopedStore) -> None:
        """Forty concurrent batches keep all contents, positions and versions, and a memory that all
        of them add is stored once.
        """
        texts = [f"text {number}" for number in range(40)]

        async def write(some: list[str]) -> list[str | None]:
            return [
                (await home.add(a_memory(text, session_id="s"), a_memory("the same")))[1]
                for text in some
            ]

        ids = await asyncio.gather(*(write(texts[start::8]) for start in range(8)))
        assert len({id for some in ids for id in some}) == 1
        memories = await home.listed(limit=99)
        assert sorted(memory.content for memory in memories) == sorted([*texts, "the same"])
        places = [memory.position for memory in memories if memory.position is not None]
        assert (sorted(places), await home.version()) == (list(range(40)), 40)

    async def test_of_many_takers_of_one_event_one_wins(self, home: ScopedStore) -> None:
        """Of concurrent batches that ingest the same event one succeeds; the others raise Conflict
        and write nothing.
        """
        batches = (
            home.apply(*adding(a_memory(f"taker {n}")), taken=[("s", "e")]) for n in range(8)
        )
        results = await asyncio.gather(*batches, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 7
        assert len(await home.contents()) == 1

    async def test_uses_at_once_all_count(self, home: ScopedStore) -> None:
        """Concurrent deliveries and feedback are all counted, whatever their order and overlap;
        unknown ids are skipped.
        """
        ids = [
            memory.id for memory in await home.write(*(f"memory {number}" for number in range(15)))
        ]
        chosen = [random.Random(seed).sample(ids, 10) for seed in range(20)]  # noqa: S311
        later = home.now + DAY
        used = [delivery(home.scope, *ten, "gone", now=later) for ten in chosen]
        await asyncio.gather(*(home.store.memories.count([delivery]) for delivery in used))
        await home.count({"successes": {ids[0]: 2}, "failures": {ids[0]: 1}})
        for id in ids:
            usage, times = (await home.get(id)).usage, sum(id in ten for ten in chosen)
            counts = {usage.retrieved, usage.delivered, usage.delivered_total}
            assert (counts, usage.last_delivered_at) == ({times}, later if times else None)
            assert (usage.successes, usage.failures) == ((2, 1) if id == ids[0] else (0, 0))

    async def test_prunes_at_once_do_every_memory_once(self, home: ScopedStore) -> None:
        """Of concurrent prunes exactly one counts each deleted or extended memory."""
        memories = await home.write(*(f"memory {number}" for number in range(60)), ttl_days=1)
        popular = [memory.id for memory in memories[:20]]
        await home.deliver(*popular)
        later = home.at(home.now + 2 * DAY)
        pruned = await asyncio.gather(
            *(home.store.memories.prune(now=later.now, popular_after=1) for _ in range(4))
        )
        assert (
            sum(prune.deleted for prune in pruned),
            sum(prune.extended for prune in pruned),
        ) == (40, 20)
        assert {memory.id for memory in await later.listed(limit=99)} == set(popular)

    async def test_evictions_at_once_leave_as_many_as_one(self, home: ScopedStore) -> None:
        """Concurrent evictions leave as many memories as a single one."""
        ids = [
            memory.id for memory in await home.write(*(f"memory {number}" for number in range(40)))
        ]
        orders = (ids, ids[::-1], ids[20:] + ids[:20], ids)
        now = home.now + SECOND
        if await is_refused(home.store.memories.evict(home.scope, [], keep=99, now=now)):
            return
        answers = await asyncio.gather(
            *(home.store.memories.evict(home.scope, order, keep=25, now=now) for order in orders)
        )
        assert sorted(len(some) for some in answers) == [0, 0, 0, 15]
        assert len(await home.contents(limit=99)) == 25


class InputContract(ContractPart):
    """Bad input raises one typed error and leaves nothing half done."""

    async def test_use_after_close_is_a_store_error(self, home: ScopedStore) -> None:
        """Every method of a closed store raises StoreError; closing twice is harmless, and leaving
        `async with` closes.
        """
        await home.write("before")
        async with home.store as store:
            assert store is home.store
        await store.close()
        scope, job = home.scope, a_job(home.scope)
        calls = (
            home.add(a_memory("late")),
            home.forget(everything=True),
            home.deliver("x"),
            home.visible("x"),
            home.contents(),
            home.text("x"),
            home.features("x"),
            home.taken("s", "x"),
            store.memories.history(scope, "x"),
            store.memories.group(scope, "x"),
            home.version(),
            home.stats(),
            store.memories.spaces.all(),
            home.space(),
            home.enqueue(),
            home.try_claim(),
            store.queue.renew(job, lease_seconds=9),
            store.queue.release(job, run_after=NOW, error=""),
            home.jobs(),
            store.queue.waiting(scope, "embed", "k"),
            store.queue.pending(now=NOW),
            store.queue.retry("x", now=NOW),
            store.queue.drop("x"),
            store.queue.lease("x", "me", seconds=9),
            store.memories.prune(now=NOW, popular_after=1),
            store.scopes(),
        )
        for call in calls:
            with pytest.raises(StoreError):
                await call

    @pytest.mark.parametrize("delay", [0, 0.001, 0.008])
    async def test_a_cancelled_write_is_whole_or_not_at_all(
        self, home: ScopedStore, delay: float
    ) -> None:
        """A write whose caller is cancelled at any moment is complete or absent, and the store
        keeps working.
        """
        for attempt in range(5):
            memories = [a_memory(f"{attempt}-{number}") for number in range(100)]
            task = asyncio.create_task(home.apply(*adding(*memories)))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await home.write(f"after {attempt}")
            contents = await home.contents(limit=1000)
            assert sum(content.startswith(f"{attempt}-") for content in contents) in (0, 100)
            assert f"after {attempt}" in contents

    async def test_cancelled_reads_leave_the_store_usable(self, home: ScopedStore) -> None:
        """Sixty cancelled searches and lists leave the store usable."""
        await home.write(*(f"zebra {number}" for number in range(100)))
        for _ in range(30):
            searching, listing = (
                asyncio.create_task(home.text("zebra")),
                asyncio.create_task(home.contents()),
            )
            await asyncio.sleep(0)
            searching.cancel()
            listing.cancel()
            await asyncio.gather(searching, listing, return_exceptions=True)
        assert len((await home.text("zebra")).matches) == 99
