"""`apply`: whole or not at all, and adding what is there revives it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..errors import Conflict, InvalidInput, NotFound
from ..records import Memory, Scope
from ..stores.base import Batch, EmbeddingSpace, Store
from .fixtures import (
    DAY,
    NOW,
    SECOND,
    ContractPart,
    a_job,
    a_memory,
    a_scope,
    add,
    add_texts,
    adding,
    changing,
    contents,
    the,
    vector,
)


async def bad_batches(store: Store, scope: Scope, stored: Memory, space: EmbeddingSpace) -> dict[str, Any]:
    """Name → (batch that must not be written, the error it gives); the good changes in it come first."""
    good = adding(a_memory("good, and first"))
    number, fresh = space.number, a_memory("with a vector")
    await store.apply(scope, Batch(taken=[("s", "taken")]), now=NOW)
    job = a_job(scope)
    await store.enqueue([job])
    version = await store.version(scope)
    long_key = "k" * 1025
    return {
        "unknown memory": (Batch(changes=[*good, changing(a_memory("nowhere"))]), NotFound),
        "stale revision": (Batch(changes=[*good, changing(replace(stored, revision=4))]), Conflict),
        "twin by edit": (Batch(changes=[*good, changing(stored, content="the other")]), Conflict),
        "taken event": (Batch(changes=good, taken=[("s", "new"), ("s", "taken")]), Conflict),
        "stale version": (Batch(changes=good, expected_version=version - 1), Conflict),
        "future version": (Batch(changes=good, expected_version=version + 1), Conflict),
        "unclaimed job": (Batch(changes=good, job=(job.id, job.fence + 1), jobs=[a_job(scope)]), Conflict),
        "unknown job": (Batch(changes=good, job=("no-such-job", 1)), Conflict),
        "short vector": (_with_vector(fresh, number, vector(1)), InvalidInput),
        "long vector": (_with_vector(fresh, number, vector(1, 2, 3)), InvalidInput),
        "zero vector": (_with_vector(fresh, number, vector(0, 0)), InvalidInput),
        "NaN": (_with_vector(fresh, number, vector(1, float("nan"))), InvalidInput),
        "infinity": (_with_vector(fresh, number, vector(1, float("inf"))), InvalidInput),
        "long session": (Batch(changes=[*good, *adding(a_memory("x", session_id=long_key))]), InvalidInput),
        "long event": (Batch(changes=[*good, *adding(a_memory("x", event_ids=(long_key,)))]), InvalidInput),
        "long taken session": (Batch(changes=good, taken=[(long_key, "e")]), InvalidInput),
        "long taken event": (Batch(changes=good, taken=[("s", long_key)]), InvalidInput),
    }


def _with_vector(memory: Memory, number: int, row: Any) -> Batch:
    return Batch(changes=adding(a_memory("good, and first"), memory), vectors={memory.id: row}, space_number=number)


class ApplyContract(ContractPart):
    """One transaction, one step of the version, no doubles."""

    async def test_a_batch_with_one_fault_writes_nothing(self, store: Store) -> None:
        scope = a_scope()
        space = await store.add_embedding_space("hash", 2, None)
        id, _ = await add_texts(store, scope, "the first", "the other")
        stored = await the(store, scope, id)
        batches = await bad_batches(store, scope, stored, space)
        version, jobs = await store.version(scope), list(await store.jobs(scope=scope))
        for fault, (batch, error) in batches.items():
            with pytest.raises(error):
                await store.apply(scope, batch, now=NOW + SECOND)
            assert await contents(store, scope) == ["the other", "the first"], fault
            assert await the(store, scope, id) == stored, fault
            assert list(await store.history(scope, id)) == [], fault
            assert await store.version(scope) == version, fault
            assert await store.taken(scope, "s", ["new"]) == frozenset(), fault
            assert list(await store.jobs(scope=scope)) == jobs, fault
            near = await store.view(scope, now=NOW).nearest(space.number, [vector(1, 1)], limit=9)
            assert near == [[]], fault
        assert len(await add_texts(store, scope, "good, and first")) == 1

    async def test_a_key_of_1024_bytes_is_kept_whole(self, store: Store) -> None:
        scope, key = a_scope(), "é" * 512
        memory = a_memory("kept", session_id=key, event_ids=(key,))
        await store.apply(scope, Batch(changes=adding(memory), taken=[(key, key)]), now=NOW)
        assert (await the(store, scope, memory.id)).session_id == key
        assert await store.taken(scope, key, [key]) == {key}

    async def test_every_writing_batch_moves_the_version_by_one_and_the_others_leave_it(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        memory = a_memory("one", ttl_days=3)
        assert await store.version(scope) == 0
        steps = (
            (Batch(), 0),
            (Batch(changes=adding(memory, a_memory("two"))), 1),
            (Batch(vectors={memory.id: vector(1, 0)}, space_number=space_number), 1),
            (Batch(jobs=[a_job(scope)]), 1),
            (Batch(taken=[("s", "e")]), 2),
            (Batch(reinforced=[memory.id]), 3),
            (Batch(changes=[changing(memory, importance=1.0)], expected_version=3), 4),
        )
        for batch, version in steps:
            assert (await store.apply(scope, batch, now=NOW)).version == version
            assert await store.version(scope) == version
        await store.deliver(scope, retrieved=[memory.id], delivered=[memory.id], now=NOW)
        assert await store.version(scope) == 4

    async def test_applying_a_batch_twice_adds_nothing_twice(self, store: Store) -> None:
        scope = a_scope()
        batch = Batch(changes=adding(a_memory("one", session_id="s"), a_memory("two", session_id="s")))
        first = await store.apply(scope, batch, now=NOW)
        second = await store.apply(scope, batch, now=NOW)
        assert second.ids == first.ids
        memories = (await store.list(scope, now=NOW)).memories
        assert sorted((m.content, m.position) for m in memories) == [("one", 0), ("two", 1)]

    async def test_what_comes_into_quarantine_changes_nothing_that_is_there(self, store: Store) -> None:
        scope = a_scope()
        known, poison = (
            a_memory("Ann likes tea"),
            a_memory("Ann likes tea", metadata={"a": 1}, pinned=True, state="quarantined"),
        )
        await add(store, scope, known)
        before = await store.get(scope, [known.id], now=NOW)
        assert (await store.apply(scope, Batch(changes=adding(poison)), now=NOW)).ids == (known.id,)
        assert await store.get(scope, [known.id], now=NOW) == before
        held, again = (a_memory("Ann likes coffee", state="quarantined") for _ in range(2))
        assert (await store.apply(scope, Batch(changes=adding(held)), now=NOW)).ids == (held.id,)
        assert (await store.apply(scope, Batch(changes=adding(again)), now=NOW)).ids == (held.id,)
        trusted = a_memory("Ann likes coffee")
        assert (await store.apply(scope, Batch(changes=adding(trusted)), now=NOW)).ids == (trusted.id,)
        assert set(await store.get(scope, [held.id, trusted.id], now=NOW)) == {trusted.id}
        stats = await store.stats(scope, now=NOW)
        assert (stats.visible, stats.superseded, stats.quarantined) == (2, 0, 1)

    async def test_adding_what_is_there_unites_what_is_known_and_keeps_id_and_words(self, store: Store) -> None:
        scope = a_scope()
        first = a_memory(
            "Ann likes tea",
            ttl_days=15,
            metadata={"a": 1, "b": 1},
            tags=("x",),
            topics=("tea",),
            event_ids=("e1",),
            importance=0.9,
            pinned=True,
        )
        later = NOW + DAY
        again = a_memory(
            "  ann LIKES tea. ",
            now=later,
            ttl_days=30,
            metadata={"b": 2, "c": 3},
            tags=("y", "x"),
            topics=("ann",),
            event_ids=("e2",),
            importance=0.2,
        )
        await add(store, scope, first)
        await store.deliver(scope, retrieved=[first.id], delivered=[first.id], now=NOW)
        assert await add(store, scope, again, now=later) == (first.id,)
        stored = await the(store, scope, first.id, now=later)
        assert (stored.content, stored.created_at, stored.updated_at) == ("Ann likes tea", NOW, later)
        assert stored.metadata == {"a": 1, "b": 2, "c": 3}
        assert (set(stored.tags), set(stored.topics)) == ({"x", "y"}, {"tea", "ann"})
        assert (stored.event_ids, stored.importance, stored.pinned) == (("e1", "e2"), 0.9, True)
        assert (stored.ttl_days, stored.expires_at) == (30, later + 30 * DAY)
        assert stored.usage.delivered == 1
        assert len((await store.list(scope, now=later)).memories) == 1

    async def test_an_expired_memory_comes_back_when_it_is_added_again(self, store: Store) -> None:
        scope = a_scope()
        first = a_memory("short-lived", ttl_days=1, metadata={"old": True})
        await add(store, scope, first)
        later = NOW + 5 * DAY
        assert await contents(store, scope, now=later) == []
        assert await add(store, scope, a_memory("short-lived", now=later, ttl_days=1), now=later) == (first.id,)
        revived = await the(store, scope, first.id, now=later)
        assert (revived.expires_at, revived.metadata) == (later + DAY, {"old": True})
        assert list((await store.view(scope, now=later).text(["short"], limit=9)).matches) == [first.id]

    async def test_equal_facts_of_one_batch_become_one(self, store: Store) -> None:
        scope = a_scope()
        first, second = a_memory("one and the same"), a_memory("One and the same.")
        assert await add(store, scope, first, second) == (first.id, first.id)
        assert await contents(store, scope) == ["one and the same"]

    async def test_turns_are_the_same_by_text_and_event_and_never_the_same_as_facts(self, store: Store) -> None:
        scope = a_scope()
        fact = a_memory("yes")
        turns = [a_memory("yes", verbatim=True, event_ids=(event,)) for event in ("e1", "e2", "e1")]
        other_case = a_memory("Yes", verbatim=True, event_ids=("e1",))
        ids = await add(store, scope, fact, *turns, other_case)
        assert ids == (fact.id, turns[0].id, turns[1].id, turns[0].id, other_case.id)

    async def test_a_vector_of_an_added_double_goes_to_the_memory_that_is_there(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        first, double = a_memory("the same"), a_memory("the same")
        await add(store, scope, first)
        batch = Batch(changes=adding(double), vectors={double.id: vector(0, 1)}, space_number=space_number)
        assert (await store.apply(scope, batch, now=NOW)).ids == (first.id,)
        found = await store.view(scope, now=NOW).nearest(space_number, [vector(0, 1)], limit=9)
        assert found == [[(first.id, 1.0)]]

    async def test_a_vector_for_a_memory_that_is_gone_is_left_out(self, store: Store) -> None:
        scope = a_scope()
        space_number = (await store.add_embedding_space("hash", 2, None)).number
        memory = a_memory("gone by then")
        await add(store, scope, memory)
        await store.forget(scope, ids=[memory.id], now=NOW)
        await store.apply(scope, Batch(vectors={memory.id: vector(0, 1)}, space_number=space_number), now=NOW)
        assert await add(store, scope, memory, explicit=True) == (memory.id,)
        assert await store.view(scope, now=NOW).nearest(space_number, [vector(0, 1)], limit=9) == [[]]

    async def test_a_superseded_text_added_again_is_a_new_memory(self, store: Store) -> None:
        scope = a_scope()
        old, new, again = a_memory("lives in Rome"), a_memory("lives in Oslo"), a_memory("lives in Rome")
        await add(store, scope, old)
        moved = changing(old, "supersede", state="superseded", superseded_by=new.id)
        await store.apply(scope, Batch(changes=[*adding(new), moved]), now=NOW)
        assert await add(store, scope, again) == (again.id,)
        assert sorted(await contents(store, scope)) == ["lives in Oslo", "lives in Rome"]

    async def test_what_is_met_again_lives_for_its_own_ttl_from_then(self, store: Store) -> None:
        scope = a_scope()
        short, endless = a_memory("short", ttl_days=2), a_memory("endless")
        await add(store, scope, short, endless)
        later = NOW + DAY
        await store.apply(scope, Batch(reinforced=[short.id, endless.id]), now=later)
        assert (await the(store, scope, short.id, now=later)).expires_at == later + 2 * DAY
        assert (await the(store, scope, endless.id, now=later)).expires_at is None
