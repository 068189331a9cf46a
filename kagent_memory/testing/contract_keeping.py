"""Keeping: the prune by deliveries and TTL, the counts of a scope, and which scopes there are."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from ..errors import InvalidInput
from ..records import Scope, new_id
from ..stores.values import Pruned
from .fixtures import (
    BEYOND_INT32,
    DAY,
    ContractPart,
    ScopedStore,
    a_job,
    a_memory,
    is_refused,
    superseding,
)


class KeepingContract(ContractPart):
    """Promises of expiry, pruning and counters."""

    async def test_the_prune_goes_by_expiry_and_deliveries(self, home: ScopedStore) -> None:
        """Expired and unpopular ones go, popular ones get their TTL anew, pinned and living ones
        stay.
        """
        other, end = home.elsewhere(), home.at(home.now + 15 * DAY)
        unpopular, popular, pinned, living, endless = (
            a_memory(name, ttl_days=days, pinned=name == "pinned")
            for name, days in (
                ("unpopular", 15),
                ("popular", 7),
                ("pinned", 1),
                ("living", 30),
                ("endless", None),
            )
        )
        memories = (unpopular, popular, pinned, living, endless)
        await home.add(*memories)
        [theirs] = await other.write("theirs", ttl_days=1)
        await home.deliver(unpopular.id, times=9)
        await home.deliver(popular.id, times=10)
        await home.store.memories.deliver(
            home.scope, retrieved=[unpopular.id], delivered=[], now=home.now
        )

        prune, expected = home.store.memories.prune, Pruned(deleted=2, extended=1)
        assert (
            await prune(
                now=other.at(home.now + DAY - timedelta(microseconds=1)).now, popular_after=10
            )
            == Pruned()
        )
        assert await prune(now=end.now, popular_after=10, dry_run=True) == expected
        assert set(await home.contents()) == {memory.content for memory in memories}
        done = await prune(now=end.now, popular_after=10)
        assert done == expected
        named = {(one.scope, one.memory_id, one.reason) for one in done.gone}
        assert named == {(home.scope, unpopular.id, "expired"), (other.scope, theirs.id, "expired")}
        assert await prune(now=end.now, popular_after=10) == Pruned()

        assert await home.visible(*(memory.id for memory in memories)) == {
            memory.id for memory in memories[1:]
        }
        kept = await home.get(popular.id)
        assert (kept.expires_at, kept.usage.delivered, kept.usage.delivered_total) == (
            end.now + 7 * DAY,
            0,
            10,
        )
        assert (await home.get(living.id)).expires_at == home.now + 30 * DAY
        assert await other.contents() == []

    async def test_an_eviction_leaves_as_many_as_it_should(self, home: ScopedStore) -> None:
        """The first of those that are named, unless they are pinned or not visible."""
        other = home.elsewhere()
        if await is_refused(home.store.memories.evict(home.scope, [], keep=9, now=home.now)):
            return
        first, second, third = (
            a_memory(name, session_id="s", event_ids=(name,)) for name in ("a", "b", "c")
        )
        pinned, past, expired = (
            a_memory("p", pinned=True),
            a_memory("old"),
            a_memory("e", ttl_days=1),
        )
        await home.add(first, second, third, pinned, past, expired)
        await other.write("theirs")
        await home.apply(superseding(past, third))
        later, version = home.at(home.now + DAY), await home.version()
        assert list(await home.store.memories.crowded(above=3, now=later.now)) == [(home.scope, 4)]
        assert list(await home.store.memories.crowded(above=4, now=later.now)) == []
        wanted = [
            pinned.id,
            past.id,
            expired.id,
            new_id(),
            "unknown",
            first.id,
            first.id,
            second.id,
            third.id,
        ]
        for keep, gone in ((9, ()), (2, (first.id, second.id)), (2, ())):
            assert (
                await home.store.memories.evict(home.scope, wanted, keep=keep, now=later.now)
                == gone
            )
        assert await home.version() > version
        assert set(await later.contents()) == {"c", "p"}
        assert await other.contents() == ["theirs"]
        assert await home.visible(past.id, expired.id, superseded=True) == {past.id, expired.id}

    async def test_what_went_by_itself_may_come_again(self, home: ScopedStore) -> None:
        """Pruned memories leave no history, terms, vectors, usage or tombstones."""
        later, space = home.at(home.now + 2 * DAY), await home.space()
        [memory] = await home.write("zebra", ttl_days=1, session_id="s", event_ids=("e",))
        await home.embed(space, {memory.id: (1, 0)})
        await home.change(memory, importance=0.9)
        await home.store.memories.feedback(home.scope, memory.id, success=True)
        await home.deliver(memory.id)
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
        """Memories by state and type, jobs by state, deliveries, versions and what models cost, of
        the scope alone.
        """
        one, two = a_memory("one", pinned=True), a_memory("two", type="episodic", pinned=True)
        old, past = a_memory("old", ttl_days=1), a_memory("past")
        await home.add(one, two, a_memory("three", type="episodic"), old, past)
        await home.apply(superseding(past, one))
        for tokens in (100, 250):
            await home.apply(taken=[("s", f"e{tokens}")], calls=1, tokens=tokens)
        await home.deliver(one.id, two.id)
        await home.store.enqueue([a_job(home.scope, now=home.now - DAY), a_job(home.scope)])
        await home.elsewhere().enqueue()
        await home.claim()
        stats = await home.at(home.now + DAY).stats()
        assert (stats.visible, dict(stats.by_type)) == (3, {"semantic": 1, "episodic": 2})
        assert (stats.expired, stats.superseded, stats.pinned) == (1, 1, 2)
        assert (stats.delivered_total, stats.version, stats.calls, stats.tokens) == (2, 4, 2, 350)
        assert dict(stats.jobs) == {"running": 1, "queued": 1}

    async def test_scopes_come_in_order_and_page_by_page(self, home: ScopedStore) -> None:
        """By code points of tenant, app and user, narrowed by any of them; those with memories and
        those with jobs.
        """
        odd = ("", "B", "a", "Z", "é", "z", "a b", "_", "日", "\U0001f9e0", "\uffff")
        parts = [
            *product(("", "é"), ("", "x", "%"), ("", "u", "u" * 700)),
            *((tenant, "x", "u") for tenant in odd[1:]),
        ]
        scopes = [Scope(tenant, user, app) for tenant, app, user in sorted(set(parts))]
        for number, scope in enumerate(scopes):
            await (
                home.elsewhere(scope).enqueue()
                if number % 2
                else home.elsewhere(scope).write("here")
            )
        emptied = home.elsewhere()
        await emptied.write("gone")
        await emptied.forget(everything=True)
        assert list(await home.store.scopes(limit=BEYOND_INT32)) == scopes
        for tenant, app, user in product(("", "a", "b", None), ("", "%", None), ("", "u", None)):
            asked: dict[str, Any] = {"tenant": tenant, "app": app, "user": user}
            fitting = [
                one for one in scopes if all(v in (None, getattr(one, k)) for k, v in asked.items())
            ]
            first = list(await home.store.scopes(**asked, limit=2))
            assert first == fitting[:2]
            assert list(await home.store.scopes(**asked)) == fitting
            if first:
                assert (
                    list(await home.store.scopes(**asked, after=first[-1])) == fitting[len(first) :]
                )
        for part in ("tenant", "app", "user"):
            bad: dict[str, Any] = {part: "a\0"}
            with pytest.raises(InvalidInput):
                await home.store.scopes(**bad)
