"""Keeping: the prune by deliveries and TTL, the counts of a scope, and which scopes there are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from ..errors import InvalidInput, NotFound
from ..records import Filter, Scope, new_id
from ..stores.base import Batch, Pruned, Store, Token
from .fixtures import (
    BEYOND_INT32,
    DAY,
    NOW,
    ContractPart,
    a_job,
    a_memory,
    a_scope,
    add,
    add_texts,
    changing,
    contents,
    embed,
    the,
    vector,
)


class KeepingContract(ContractPart):
    """What lives, what goes, and what is counted."""

    async def test_the_prune_deletes_the_unpopular_extends_the_popular_and_leaves_the_rest(self, store: Store) -> None:
        scope, other = a_scope(), a_scope()
        unpopular = a_memory("unpopular", ttl_days=15)
        popular = a_memory("popular", ttl_days=7)
        pinned = a_memory("pinned", ttl_days=1, pinned=True)
        living, endless = a_memory("living", ttl_days=30), a_memory("endless")
        theirs = a_memory("theirs", ttl_days=1)
        await add(store, scope, unpopular, popular, pinned, living, endless)
        await add(store, other, theirs)
        for _ in range(9):
            await store.deliver(scope, retrieved=[], delivered=[unpopular.id], now=NOW)
        for _ in range(10):
            await store.deliver(scope, retrieved=[], delivered=[popular.id], now=NOW)
        await store.deliver(scope, retrieved=[unpopular.id], delivered=[], now=NOW)

        end = NOW + 15 * DAY
        expected = Pruned(deleted=2, extended=1)
        assert await store.prune(now=end, popular_after=10, dry_run=True) == expected
        assert set(await contents(store, scope, now=NOW)) == {"unpopular", "popular", "pinned", "living", "endless"}
        done = await store.prune(now=end, popular_after=10)
        assert done == expected
        named = {(one.scope, one.memory_id, one.reason) for one in done.gone}
        assert named == {(scope, unpopular.id, "expired"), (other, theirs.id, "expired")}
        assert await store.prune(now=end, popular_after=10) == Pruned()

        kept = await store.get(scope, [unpopular.id, popular.id, pinned.id, living.id, endless.id], now=NOW)
        assert set(kept) == {popular.id, pinned.id, living.id, endless.id}
        assert kept[popular.id].expires_at == end + 7 * DAY
        assert (kept[popular.id].usage.delivered, kept[popular.id].usage.delivered_total) == (0, 10)
        assert kept[living.id].expires_at == NOW + 30 * DAY
        assert await contents(store, other, now=NOW) == []

    async def test_what_is_pinned_never_expires_for_any_read(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 2, None)
        pinned = a_memory("zebra pinned", ttl_days=1, pinned=True, session_id="s", tags=("x",), importance=0.9)
        ending, loose = a_memory("zebra ending", ttl_days=9, session_id="s"), a_memory("zebra loose", ttl_days=1)
        await add(store, scope, pinned, ending, loose)
        later, narrow = NOW + 5 * DAY, Filter(tags=("x",))
        kept = {pinned.id, ending.id}
        assert {one.id for one in await store.unembedded(scope, space.number, limit=9, now=later)} == kept
        await embed(store, scope, space, {pinned.id: (1, 0), ending.id: (0, 1), loose.id: (1, 1)})
        assert set(await store.get(scope, [pinned.id, ending.id, loose.id], now=later)) == kept
        assert await contents(store, scope, order="expires", now=later) == ["zebra ending", "zebra pinned"]
        assert await contents(store, scope, filter=narrow, now=later) == ["zebra pinned"]
        found = await store.view(scope, now=later).text(["zebra"], limit=9)
        assert (found.documents, set(found.matches)) == (2, kept)
        assert set((await store.view(scope, filter=narrow, now=later).text(["zebra"], limit=9)).matches) == {pinned.id}
        for filter, ids in ((Filter(), kept), (narrow, {pinned.id})):
            [near] = await store.view(scope, filter=filter, now=later).nearest(space.number, [vector(1, 0)], limit=9)
            assert {id for id, _ in near} == ids
        assert {place.id for place in await store.view(scope, now=later).features([pinned.id], reach=1)} == kept
        stats = await store.stats(scope, now=later)
        assert (stats.visible, stats.pinned, stats.expired) == (2, 1, 1)
        assert list(await store.crowded(above=1, now=later)) == [(scope, 2)]
        assert await store.prune(now=later, popular_after=1) == Pruned(deleted=1)
        let_go = changing(await the(store, scope, pinned.id, now=later), "pin", pinned=False)
        await store.apply(scope, Batch(changes=[let_go]), now=later)
        assert await contents(store, scope, now=later) == ["zebra ending"]

    async def test_an_eviction_leaves_as_many_as_it_should_and_takes_neither_pinned_nor_unseen_ones(
        self, store: Store
    ) -> None:
        scope, other = a_scope(), a_scope()
        first, second, third = (a_memory(name, session_id="s", event_ids=(name,)) for name in ("a", "b", "c"))
        pinned, past, expired = a_memory("p", pinned=True), a_memory("old"), a_memory("e", ttl_days=1)
        await add(store, scope, first, second, third, pinned, past, expired)
        await add(store, other, a_memory("theirs"))
        gone = changing(past, "supersede", state="superseded", superseded_by=third.id)
        await store.apply(scope, Batch(changes=[gone]), now=NOW)
        later, version = NOW + DAY, await store.version(scope)
        assert list(await store.crowded(above=3, now=later)) == [(scope, 4)]
        assert list(await store.crowded(above=4, now=later)) == []
        wanted = [pinned.id, past.id, expired.id, new_id(), "unknown", first.id, first.id, second.id, third.id]
        assert await store.evict(scope, wanted, keep=9, now=later) == ()
        assert await store.evict(scope, wanted, keep=2, now=later) == (first.id, second.id)
        assert await store.evict(scope, wanted, keep=2, now=later) == ()
        assert await store.version(scope) > version
        assert set(await contents(store, scope, now=later)) == {"c", "p"}
        assert await contents(store, other, now=later) == ["theirs"]
        assert set(await store.get(scope, [past.id, expired.id], now=NOW, superseded=True)) == {past.id, expired.id}

    @pytest.mark.parametrize("how", ["pruned", "evicted"])
    async def test_what_went_by_itself_leaves_no_trace_and_may_come_again(self, store: Store, how: str) -> None:
        scope, later = a_scope(), NOW + 2 * DAY
        space = await store.add_embedding_space("hash", 2, None)
        memory = a_memory("zebra", ttl_days=1 if how == "pruned" else None, session_id="s", event_ids=("e",))
        await add(store, scope, memory)
        await embed(store, scope, space, {memory.id: (1, 0)})
        await store.apply(scope, Batch(changes=[changing(memory, importance=0.9)]), now=NOW)
        await store.feedback(scope, memory.id, success=True)
        await store.deliver(scope, retrieved=[], delivered=[memory.id], now=NOW)
        if how == "pruned":
            assert await store.prune(now=later, popular_after=10) == Pruned(deleted=1)
        else:
            assert await store.evict(scope, [memory.id], keep=0, now=later) == (memory.id,)
        assert list(await store.history(scope, memory.id)) == []
        assert (await store.view(scope, now=later).text(["zebra"], limit=9)).matches == {}
        again = a_memory("zebra", now=later, session_id="s", event_ids=("e",))
        assert await add(store, scope, again, now=later) == (again.id,)
        usage = (await the(store, scope, again.id, now=later)).usage
        assert (usage.delivered, usage.successes) == (0, 0)
        assert await store.view(scope, now=later).nearest(space.number, [vector(1, 0)], limit=9) == [[]]

    async def test_a_memory_on_its_last_microsecond_is_not_pruned(self, store: Store) -> None:
        scope = a_scope()
        await add(store, scope, a_memory("short", ttl_days=1))
        end = NOW + DAY
        assert await store.prune(now=end - timedelta(microseconds=1), popular_after=10) == Pruned()
        assert await store.prune(now=end, popular_after=10) == Pruned(deleted=1)

    async def test_the_stats_count_what_is_there(self, store: Store) -> None:
        scope = a_scope()
        one, two = a_memory("one", pinned=True), a_memory("two", type="episodic", pinned=True)
        three = a_memory("three", type="episodic")
        old, past = a_memory("old", ttl_days=1), a_memory("past")
        await add(store, scope, one, two, three, old, past)
        gone = changing(past, "supersede", state="superseded", superseded_by=one.id)
        await store.apply(scope, Batch(changes=[gone]), now=NOW)
        await store.deliver(scope, retrieved=[one.id], delivered=[one.id, two.id], now=NOW)
        await store.enqueue([a_job(scope, now=NOW - DAY), a_job(scope), a_job(a_scope())])
        await store.claim("me", now=NOW, lease_seconds=30)
        stats = await store.stats(scope, now=NOW + DAY)
        assert (stats.visible, dict(stats.by_type)) == (3, {"semantic": 1, "episodic": 2})
        assert (stats.expired, stats.superseded, stats.pinned) == (1, 1, 2)
        assert (stats.delivered_total, stats.version) == (2, 2)
        assert dict(stats.jobs) == {"running": 1, "queued": 1}

    async def test_what_the_model_cost_adds_up_in_its_scope(self, store: Store) -> None:
        scope = a_scope()
        for tokens in (100, 250):
            await store.apply(scope, Batch(taken=[("s", f"e{tokens}")], calls=1, tokens=tokens), now=NOW)
        stats, other = await store.stats(scope, now=NOW), await store.stats(a_scope(), now=NOW)
        assert (stats.calls, stats.tokens, other.calls, other.tokens) == (2, 350, 0, 0)

    async def test_scopes_come_in_the_order_of_their_code_points(self, store: Store) -> None:
        parts = ("", "B", "a", "Z", "é", "z", "a b", "_", "日", "\U0001f9e0", "\uffff")
        scopes = [Scope(tenant=part, user=user, app=app) for part in parts for user, app in (("u", "b"), ("v", "B"))]
        for scope in scopes:
            await add(store, scope, a_memory("here"))
        ordered = sorted(scopes, key=lambda scope: (scope.tenant, scope.app, scope.user))
        assert list(await store.scopes(limit=BEYOND_INT32)) == ordered

    async def test_scopes_are_narrowed_by_their_parts_and_come_page_by_page(self, store: Store) -> None:
        parts = [
            (tenant, app, user) for tenant in ("", "a", "é") for app in ("", "x", "%") for user in ("", "u", "u" * 700)
        ]
        scopes = [Scope(tenant=tenant, user=user, app=app) for tenant, app, user in sorted(parts)]
        for number, scope in enumerate(scopes):
            await (store.enqueue([a_job(scope)]) if number % 2 else add(store, scope, a_memory("here")))
        for tenant, app, user in product(("", "a", "b", None), ("", "%", None), ("", "u", None)):
            asked = {"tenant": tenant, "app": app, "user": user}
            fitting = [one for one in scopes if all(v in (None, getattr(one, k)) for k, v in asked.items())]
            assert list(await store.scopes(tenant=tenant, app=app, user=user)) == fitting
            first = list(await store.scopes(tenant=tenant, app=app, user=user, limit=2))
            assert first == fitting[:2]
            if first:
                rest = await store.scopes(tenant=tenant, app=app, user=user, after=first[-1])
                assert [*first, *rest] == fitting
        paged: list[Scope] = []
        while page := await store.scopes(after=paged[-1] if paged else None, limit=5):
            paged += page
        assert paged == scopes
        for tenant, app, user in (("\0", None, None), (None, "a\0", None), (None, None, "\0b")):
            with pytest.raises(InvalidInput):
                await store.scopes(tenant=tenant, app=app, user=user)

    async def test_a_scope_is_there_while_it_holds_memories_or_jobs(self, store: Store) -> None:
        with_job, with_memory, emptied = a_scope(), a_scope(), a_scope()
        await store.enqueue([a_job(with_job)])
        await add_texts(store, with_memory, "here")
        await add_texts(store, emptied, "gone")
        await store.forget(emptied, everything=True, now=NOW)
        assert set(await store.scopes()) == {with_job, with_memory}

    async def test_a_token_is_found_by_its_digest_until_it_is_dropped(self, store: Store) -> None:
        mine, theirs = (
            Token(id=new_id(), digest=new_id(), tenant="acme", user=user, label="ci", created_at=NOW, expires_at=end)
            for user, end in (("ada", NOW + DAY), (None, None))
        )
        await store.add_token(mine)
        theirs = replace(theirs, tenant="", is_operator=True)
        await store.add_token(theirs)
        assert list(await store.tokens(digest=mine.digest)) == [mine]
        assert {mine.id, theirs.id} <= {token.id for token in await store.tokens()}
        await store.drop_token(mine.id)
        assert not await store.tokens(digest=mine.digest)
        assert list(await store.tokens(digest=theirs.digest)) == [theirs]
        with pytest.raises(NotFound):
            await store.drop_token(mine.id)

    async def test_so_many_widths_of_a_tenants_callers_are_noted_and_no_more(self, store: Store) -> None:
        assert list(await store.note_width("acme", 3, most=0)) == []
        for _ in range(2):
            assert set(await store.note_width("acme", 3, most=2)) == {3}
        found = await asyncio.gather(*(store.note_width("acme", width, most=2) for width in range(4, 9)))
        noted = set(await store.note_width("acme", 3, most=2))
        assert len(noted) == 2
        assert all(set(widths) <= noted for widths in found)
        assert list(await store.note_width("other", 9, most=2)) == [9]
        assert list(await store.note_width("", 9, most=1)) == [9]

    async def test_the_prune_forgets_the_widths_of_which_a_tenant_keeps_nothing(self, store: Store) -> None:
        space = await store.add_embedding_space("external-3", 3, None)
        own = await store.add_embedding_space("own", 3, None)
        mine, theirs = a_scope(), replace(a_scope(), tenant="other")
        for scope in (mine, theirs):
            await store.note_width(scope.tenant, 3, most=2)
            (id,) = await add_texts(store, scope, "here")
            await embed(store, scope, space, {id: (1, 0, 0)})
            await embed(store, scope, own, {id: (1, 0, 0)})
        await store.prune(now=NOW, popular_after=10)
        assert set(await store.note_width(mine.tenant, 4, most=1)) == {3}
        await store.forget(mine, everything=True, now=NOW)
        await store.prune(now=NOW, popular_after=10, dry_run=True)
        assert set(await store.note_width(mine.tenant, 4, most=1)) == {3}
        await store.prune(now=NOW, popular_after=10)
        assert set(await store.note_width(mine.tenant, 4, most=1)) == {4}
        assert set(await store.note_width(theirs.tenant, 4, most=1)) == {3}

    async def test_what_answers_names_itself_and_what_it_applied(self, store: Store) -> None:
        about = await store.about()
        assert about["database"]
        assert about["migrations"]
        assert "lacking" not in about
