"""`forget`: gone from everywhere, at once, with all that was made of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ..records import Filter, Scope
from ..stores.base import Batch, Store
from .fixtures import (
    NOW,
    ContractPart,
    a_job,
    a_memory,
    a_scope,
    add,
    add_texts,
    adding,
    changing,
    contents,
    embed,
    the,
    vector,
)


async def assert_gone(store: Store, scope: Scope, *ids: str) -> None:
    """No verb knows these memories any more."""
    assert await store.get(scope, ids, now=NOW, superseded=True) == {}
    kept = (await store.list(scope, filter=Filter(superseded=True), limit=1000, now=NOW)).memories
    assert {memory.id for memory in kept}.isdisjoint(ids)
    for id in ids:
        assert list(await store.history(scope, id)) == []
    assert list(await store.view(scope, now=NOW).features(ids)) == []
    for space in await store.embedding_spaces():
        missing = await store.unembedded(scope, space.number, limit=1000, now=NOW)
        assert {memory.id for memory in missing}.isdisjoint(ids)


class ForgetContract(ContractPart):
    """Invariant 8."""

    async def test_forgotten_by_id_is_gone_from_every_read(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 2, None)
        secret, kept = await add_texts(store, scope, "zebra secret", "zebra kept", session_id="s")
        await embed(store, scope, space, {secret: (1, 0), kept: (0, 1)})
        edited = changing(await the(store, scope, secret), content="zebra secret again")
        await store.apply(scope, Batch(changes=[edited]), now=NOW)
        await embed(store, scope, space, {secret: (1, 0)})
        version = await store.version(scope)

        assert await store.forget(scope, ids=[secret, "unknown", secret], now=NOW) == (secret,)

        await assert_gone(store, scope, secret)
        found = await store.view(scope, now=NOW).text(["zebra", "secret"], limit=9)
        assert (found.documents, set(found.matches)) == (1, {kept})
        near = await store.view(scope, now=NOW).nearest(space.number, [vector(1, 0)], limit=9)
        assert near == [[(kept, 0.0)]]
        assert [place.id for place in await store.view(scope, now=NOW).features([kept], reach=5)] == [kept]
        assert await store.version(scope) > version
        assert await store.forget(scope, ids=[secret], now=NOW) == ()

    async def test_a_dry_run_names_what_would_go_and_leaves_all(self, store: Store) -> None:
        scope = a_scope()
        first, second = await add_texts(store, scope, "one", "two", session_id="s")
        version = await store.version(scope)
        assert await store.forget(scope, ids=[second, "unknown"], dry_run=True, now=NOW) == (second,)
        assert set(await store.forget(scope, session_id="s", dry_run=True, now=NOW)) == {first, second}
        assert set(await store.forget(scope, everything=True, dry_run=True, now=NOW)) == {first, second}
        assert set(await contents(store, scope)) == {"one", "two"}
        assert await store.version(scope) == version

    async def test_what_is_kept_is_told_whether_it_is_visible_or_not(self, store: Store) -> None:
        scope = a_scope()
        memories = [
            a_memory("old", tags=("t",)),
            a_memory("gone", tags=("t",), now=NOW - timedelta(days=2), ttl_days=1),
            a_memory("past", tags=("t",), state="superseded"),
            a_memory("other"),
        ]
        await add(store, scope, *memories)
        await add(store, a_scope(), a_memory("theirs", tags=("t",)))
        tagged = Filter(tags=("t",))
        assert list(await store.kept(scope, tagged)) == [memory.id for memory in memories[:3]]
        await add(store, scope, a_memory("held", tags=("t",), state="quarantined"))
        assert list(await store.kept(scope, replace(tagged, superseded="only"))) == [memories[2].id]
        assert len(await store.kept(scope, replace(tagged, superseded="quarantined"))) == 1
        assert len(await store.kept(scope, Filter())) == 5

    async def test_a_forgotten_session_takes_its_memories_and_queued_jobs_and_no_others(self, store: Store) -> None:
        scope = a_scope()
        gone = await add_texts(store, scope, "one", "two", session_id="s")
        (kept,) = await add_texts(store, scope, "three", session_id="t")
        (bare,) = await add_texts(store, scope, "four")
        stays = a_job(scope, session_id="t", payload={"text": "queued three"})
        await store.enqueue([a_job(scope, session_id="s", payload={"text": "queued one"}), stays])
        assert set(await store.forget(scope, session_id="s", now=NOW)) == set(gone)
        await assert_gone(store, scope, *gone)
        assert set(await store.get(scope, [kept, bare], now=NOW)) == {kept, bare}
        assert [job.id for job in await store.jobs(scope=scope)] == [stays.id]

    async def test_forgetting_everything_leaves_only_what_holds_it_back(self, store: Store) -> None:
        scope, other = a_scope(), a_scope()
        ids = await add_texts(store, scope, "one", "two", session_id="s", event_ids=("e",))
        await add_texts(store, other, "theirs")
        await store.enqueue([a_job(scope, session_id="s"), a_job(scope), a_job(other)])
        assert set(await store.forget(scope, everything=True, now=NOW)) == set(ids)
        await assert_gone(store, scope, *ids)
        assert list(await store.jobs(scope=scope)) == []
        assert len(await store.jobs(scope=other)) == 1
        assert await contents(store, other) == ["theirs"]
        stats = await store.stats(scope, now=NOW)
        assert (stats.visible, stats.expired, stats.superseded) == (0, 0, 0)
        assert await store.taken(scope, "any", ["e"]) == {"e"}

    async def test_forgetting_nothing_forgets_nothing(self, store: Store) -> None:
        scope = a_scope()
        await add_texts(store, scope, "kept")
        assert await store.forget(scope, now=NOW) == ()
        assert await store.forget(scope, session_id="no such", now=NOW) == ()
        assert await contents(store, scope) == ["kept"]

    async def test_what_was_superseded_into_a_forgotten_memory_goes_with_it(self, store: Store) -> None:
        scope = a_scope()
        oldest, older, now_true, apart = await add_texts(store, scope, "Rome", "Bern", "Oslo", "apart")
        for old, new in ((oldest, older), (older, now_true)):
            memory = await the(store, scope, old)
            change = changing(memory, "supersede", state="superseded", superseded_by=new)
            await store.apply(scope, Batch(changes=[change]), now=NOW)
        erased = await store.forget(scope, ids=[now_true], now=NOW)
        assert set(erased) == {oldest, older, now_true}
        await assert_gone(store, scope, oldest, older, now_true)
        assert await contents(store, scope) == ["apart"]
        assert apart not in erased

    async def test_a_forgotten_superseded_memory_leaves_what_replaced_it(self, store: Store) -> None:
        scope = a_scope()
        old, new = await add_texts(store, scope, "Rome", "Oslo")
        change = changing(await the(store, scope, old), "supersede", state="superseded", superseded_by=new)
        await store.apply(scope, Batch(changes=[change]), now=NOW)
        assert await store.forget(scope, ids=[old], now=NOW) == (old,)
        await assert_gone(store, scope, old)
        assert await contents(store, scope) == ["Oslo"]

    async def test_what_a_merge_made_of_a_forgotten_memory_goes_with_it(self, store: Store) -> None:
        scope = a_scope()
        (part, _) = await add_texts(store, scope, "likes tea", "likes cake")
        whole = a_memory("likes tea and cake")
        memory = await the(store, scope, part)
        merged = changing(memory, "merge", state="superseded", superseded_by=whole.id)
        await store.apply(scope, Batch(changes=[*adding(whole), merged]), now=NOW)
        assert set(await store.forget(scope, ids=[part], now=NOW)) >= {part, whole.id}
        await assert_gone(store, scope, part, whole.id)
        assert await contents(store, scope) == ["likes cake"]

    async def test_expired_memories_are_forgotten_too(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("old", ttl_days=1, session_id="s")
        await add(store, scope, memory)
        later = NOW.replace(year=NOW.year + 1)
        assert await store.forget(scope, session_id="s", now=later) == (memory.id,)
        await assert_gone(store, scope, memory.id)

    async def test_what_said_the_same_before_it_was_superseded_goes_with_it_and_what_says_it_now_stays(
        self, store: Store
    ) -> None:
        scope = a_scope()
        first, now_true = await add_texts(store, scope, "Rome", "Oslo")
        gone = changing(await the(store, scope, first), "supersede", state="superseded", superseded_by=now_true)
        await store.apply(scope, Batch(changes=[gone]), now=NOW)
        (again,) = await add_texts(store, scope, "rome")
        assert await store.forget(scope, ids=[first], now=NOW) == (first,)
        assert sorted(await contents(store, scope)) == ["Oslo", "rome"]
        retired = changing(await the(store, scope, again), "undo", state="superseded")
        await store.apply(scope, Batch(changes=[retired]), now=NOW)
        last, turn = a_memory("Rome"), a_memory("Rome", verbatim=True, event_ids=("e",))
        await add(store, scope, last, turn, explicit=True)
        assert set(await store.forget(scope, ids=[last.id], now=NOW)) == {last.id, again}
        await assert_gone(store, scope, again, last.id)
        assert sorted(await contents(store, scope)) == ["Oslo", "Rome"]
