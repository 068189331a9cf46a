"""Contract of writes: atomic batches, adding existing memories, and history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..errors import Conflict, InvalidInput, KagentMemoryError, NotFound
from ..records import Change, Memory, Revision, Usage
from .fixtures import (
    DAY,
    SECOND,
    ContractPart,
    ScopedStore,
    a_job,
    a_memory,
    adding,
    changing,
    superseding,
    vector,
)

BAD_VECTORS = ((1,), (1, 2, 3), (0, 0), (1, float("nan")), (1, float("inf")))


async def bad_batches(
    home: ScopedStore, stored: Memory, space: int
) -> list[tuple[dict[str, Any], type[Exception]]]:
    """Return batches that must be refused, each with its error."""
    job, version, long_key = await home.enqueue(), await home.version(), "k" * 1025
    memories: list[dict[str, Any]] = [{"session_id": long_key}, {"event_ids": (long_key,)}]
    for bad in ("nul\0inside", "lone \ud800 surrogate"):
        memories += [
            {"content": bad},
            {"session_id": bad},
            {"metadata": {"k": bad}},
            {"metadata": {bad: 1}},
        ]
        memories.append({"tags": (bad,)})
    memory = a_memory("with a vector")
    return [
        ({"changes": [changing(a_memory("nowhere"))]}, NotFound),
        ({"changes": [changing(replace(stored, revision=4))]}, Conflict),
        ({"changes": [changing(stored, content="the other")]}, Conflict),
        ({"taken": [("s", "new"), ("s", "taken")]}, Conflict),
        ({"expected_version": version - 1}, Conflict),
        ({"expected_version": version + 1}, Conflict),
        ({"job": (job.id, job.fence + 1), "jobs": [a_job(home.scope)]}, Conflict),
        ({"job": ("no-such-job", 1)}, Conflict),
        ({"taken": [(long_key, "e")]}, InvalidInput),
        ({"taken": [("s", long_key)]}, InvalidInput),
        ({"vectors": {stored.id: vector(1, 0, 0)}, "space_number": 77}, InvalidInput),
        *(
            (
                {
                    "changes": adding(memory),
                    "vectors": {memory.id: vector(*row)},
                    "space_number": space,
                },
                InvalidInput,
            )
            for row in BAD_VECTORS
        ),
        *(
            ({"changes": adding(replace(a_memory("x"), **values))}, KagentMemoryError)
            for values in memories
        ),
    ]


class ApplyContract(ContractPart):
    """A batch is one transaction and one step of the version, and adds no duplicates."""

    async def test_a_batch_with_one_fault_writes_nothing(self, home: ScopedStore) -> None:
        """A fault undoes the whole batch, and the store keeps working."""
        space = await home.space()
        stored, _ = await home.write("the first", "the other")
        await home.apply(taken=[("s", "taken")])
        batches = await bad_batches(home, stored, space)
        version, jobs = await home.version(), await home.jobs()
        for batch, error in batches:
            changes = [*adding(a_memory("good, and first")), *batch.pop("changes", ())]
            with pytest.raises(error):
                await home.apply(*changes, **batch)
            assert await home.contents() == ["the other", "the first"], batch
            assert await home.get(stored.id) == stored, batch
            assert list(await home.store.memories.history(home.scope, stored.id)) == [], batch
            assert (await home.version(), await home.jobs()) == (version, jobs), batch
            assert await home.taken("s", "new") == frozenset(), batch
            assert await home.nearest(space, 1, 1) == [], batch
        assert len(await home.write("good, and first")) == 1

    async def test_a_writing_batch_moves_the_version_by_one(self, home: ScopedStore) -> None:
        """Changes, ingested events and reinforcements move the version by one; vectors, jobs and
        deliveries do not.
        """
        space, memory = await home.space(), a_memory("one", ttl_days=3)
        assert await home.version() == 0
        steps: tuple[tuple[dict[str, Any], int], ...] = (
            ({}, 0),
            ({"changes": adding(memory, a_memory("two"))}, 1),
            ({"vectors": {memory.id: vector(1, 0)}, "space_number": space}, 1),
            ({"jobs": [a_job(home.scope)]}, 1),
            ({"taken": [("s", "e")]}, 2),
            ({"reinforced": [memory.id]}, 3),
            ({"changes": [changing(memory, importance=1.0)], "expected_version": 3}, 4),
        )
        for batch, version in steps:
            await home.apply(*batch.pop("changes", ()), **batch)
            assert await home.version() == version
        await home.deliver(memory.id)
        assert await home.version() == 4

    async def test_what_is_there_is_not_added_again(self, home: ScopedStore) -> None:
        """A batch applied twice, or with equal facts, adds each memory once."""
        one, two = a_memory("one", session_id="s"), a_memory("two", session_id="s")
        for _ in range(2):
            assert await home.add(one, two, a_memory("One.", session_id="s")) == (
                one.id,
                two.id,
                one.id,
            )
        assert sorted((m.content, m.position) for m in await home.listed()) == [
            ("one", 0),
            ("two", 1),
        ]

    async def test_quarantine_changes_nothing_that_is_there(self, home: ScopedStore) -> None:
        """A quarantined duplicate leaves the existing memory unchanged and never hides a trusted
        one.
        """
        [stored] = await home.write("Ann likes tea")
        poison = a_memory("Ann likes tea", metadata={"a": 1}, pinned=True, state="quarantined")
        assert await home.add(poison) == (stored.id,)
        assert await home.get(stored.id) == stored
        quarantined, again = (a_memory("Ann likes coffee", state="quarantined") for _ in range(2))
        assert await home.add(quarantined) == await home.add(again) == (quarantined.id,)
        trusted = a_memory("Ann likes coffee")
        assert await home.add(trusted) == (trusted.id,)
        assert await home.visible(quarantined.id, trusted.id) == {trusted.id}
        stats = await home.stats()
        assert (stats.visible, stats.superseded, stats.quarantined) == (2, 0, 1)

    async def test_adding_what_is_there_unites_what_is_known(self, home: ScopedStore) -> None:
        """Adding an existing memory keeps its id, content and usage, merges the labels and renews
        the expiry.
        """
        old: dict[str, Any] = {
            "metadata": {"a": 1, "b": 1},
            "tags": ("x",),
            "event_ids": ("e1",),
            "importance": 0.9,
        }
        new: dict[str, Any] = {
            "metadata": {"b": 2},
            "tags": ("y", "x"),
            "event_ids": ("e2",),
            "topics": ("ann",),
        }
        later = home.at(home.now + DAY)
        [first] = await home.write("Ann likes tea", ttl_days=15, pinned=True, **old)
        again = a_memory("  ann LIKES tea. ", now=later.now, ttl_days=30, importance=0.2, **new)
        await home.deliver(first.id)
        assert await later.add(again) == (first.id,)
        stored = await later.get(first.id)
        assert (stored.content, stored.created_at, stored.updated_at) == (
            "Ann likes tea",
            home.now,
            later.now,
        )
        assert (stored.metadata, set(stored.tags), stored.topics) == (
            {"a": 1, "b": 2},
            {"x", "y"},
            ("ann",),
        )
        assert (stored.event_ids, stored.importance, stored.pinned) == (("e1", "e2"), 0.9, True)
        assert (stored.ttl_days, stored.expires_at) == (30, later.now + 30 * DAY)
        assert stored.usage.delivered == 1

    async def test_an_expired_memory_comes_back_when_added(self, home: ScopedStore) -> None:
        """Adding an expired memory makes it visible again with a new expiry and all its data."""
        [first] = await home.write("short-lived", ttl_days=1, metadata={"old": True})
        later = home.at(home.now + 5 * DAY)
        assert await later.contents() == []
        assert await later.add(a_memory("short-lived", now=later.now, ttl_days=1)) == (first.id,)
        revived = await later.get(first.id)
        assert (revived.expires_at, revived.metadata) == (later.now + DAY, {"old": True})
        assert list((await later.text("short")).matches) == [first.id]

    async def test_turns_are_equal_by_text_and_event(self, home: ScopedStore) -> None:
        """A verbatim turn never equals a fact, a turn of another event or a text in another
        case.
        """
        fact = a_memory("yes")
        first, second, third = (
            a_memory("yes", verbatim=True, event_ids=(event,)) for event in ("e1", "e2", "e1")
        )
        other = a_memory("Yes", verbatim=True, event_ids=("e1",))
        expected = (fact.id, first.id, second.id, first.id, other.id)
        assert await home.add(fact, first, second, third, other) == expected

    async def test_a_vector_goes_to_the_memory_that_is_there(self, home: ScopedStore) -> None:
        """The vector of a duplicate goes to the existing memory; a vector of a missing memory is
        dropped.
        """
        space, double = await home.space(), a_memory("the same")
        first, forgotten = await home.write("the same", "gone by then")
        applied = await home.apply(
            *adding(double), vectors={double.id: vector(0, 1)}, space_number=space
        )
        assert applied == (first.id,)
        await home.forget(forgotten.id)
        await home.embed(space, {forgotten.id: (0, 1)})
        assert await home.add(forgotten, explicit=True) == (forgotten.id,)
        assert await home.nearest(space, 0, 1) == [(first.id, 1.0)]

    async def test_a_superseded_text_may_be_added_anew(self, home: ScopedStore) -> None:
        """Adding a superseded text creates a new memory beside its successor."""
        [old], new, again = (
            await home.write("lives in Rome"),
            a_memory("lives in Oslo"),
            a_memory("lives in Rome"),
        )
        await home.apply(*adding(new), superseding(old, new))
        assert await home.add(again) == (again.id,)
        assert await home.visible(old.id, new.id, again.id) == {new.id, again.id}

    async def test_what_is_reinforced_lives_for_its_ttl_from_then(self, home: ScopedStore) -> None:
        """A reinforced memory lives for its TTL from the time of the batch; one without expiry
        still never expires.
        """
        [short], [endless] = await home.write("short", ttl_days=2), await home.write("endless")
        later = home.at(home.now + DAY + SECOND)
        await later.apply(reinforced=[short.id, endless.id])
        assert (await later.get(short.id)).expires_at == later.now + 2 * DAY
        assert (await later.get(endless.id)).expires_at is None


class HistoryContract(ContractPart):
    """Every change keeps the previous state in the history."""

    async def test_a_change_leaves_the_state_it_ended(self, home: ScopedStore) -> None:
        """A revision holds who, why, when, the events and the previous state without usage, oldest
        first; adding creates none. The changed memory is found only by its new words.
        """
        [first] = await home.write("v1", session_id="s", metadata={"n": 1}, ttl_days=30)
        for id in (first.id, "unknown"):
            assert list(await home.store.memories.history(home.scope, id)) == []
        await home.deliver(first.id)
        edited, pinned = home.at(home.now + DAY), home.at(home.now + 2 * DAY)
        about: dict[str, Any] = {"who": "ann", "why": "a slip", "event_ids": ("e9",)}
        new: dict[str, Any] = {"content": "v2", "importance": 1.0, "metadata": {}, "tags": ("x",)}
        change = replace(changing(first, now=edited.now, **new), **about)
        await edited.apply(change)
        second = await edited.get(first.id)
        assert second == replace(change.memory, usage=second.usage)
        assert dict((await edited.text("v1", "v2")).frequencies) == {"v2": 1}
        pin = changing(second, "pin", now=pinned.now, pinned=True)
        await pinned.apply(replace(pin, group="g1"))
        edit, pin = await home.store.memories.history(home.scope, first.id)
        whose: dict[str, Any] = {"memory_id": first.id, "kind": "edit", "at": edited.now, **about}
        assert edit == Revision(revision=1, before=first, **whose)
        assert (pin.revision, pin.kind, pin.at, pin.group) == (2, "pin", pinned.now, "g1")
        assert pin.before == replace(second, usage=Usage())
        assert (await home.get(first.id)).revision == 3

    async def test_a_decision_is_found_by_its_group_and_undone(self, home: ScopedStore) -> None:
        """The revisions of one decision share a group and suffice to restore the previous state."""
        old, apart = await home.write("Rome", "apart")
        new, memories = a_memory("Oslo"), home.store.memories
        await home.apply(replace(adding(new)[0], group="g"), superseding(old, new, group="g"))
        await home.change(apart, content="alone")
        group = {
            (revision.memory_id, revision.kind, revision.revision): revision.before
            for revision in await memories.group(home.scope, "g")
        }
        assert group == {(old.id, "supersede", 1): old, (new.id, "add", 0): None}
        await home.apply(Change(kind="undo", memory=replace(old, revision=3)))
        assert sorted(await home.contents()) == ["Oslo", "Rome", "alone"]
        history = await memories.history(home.scope, old.id)
        assert [revision.kind for revision in history] == ["supersede", "undo"]
        assert set((await home.text("rome", "oslo")).matches) == {old.id, new.id}
