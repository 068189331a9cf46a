"""Contract of forgetting: forgotten memories are gone everywhere and stay gone until somebody saves
them again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ..records import Filter
from ..stores.values import SESSION_END
from .fixtures import (
    DAY,
    ContractPart,
    ScopedStore,
    a_memory,
    adding,
    changing,
    superseding,
    vector,
)


class TakenContract(ContractPart):
    """Each event is ingested once, and forgotten content stays forgotten until an explicit save."""

    async def test_taken_names_the_events_of_a_session(self, home: ScopedStore) -> None:
        """`taken` returns the ingested events of one session, however many are asked for."""
        await home.apply(taken=[("s", "e1"), ("s", "e2")])
        await home.apply(taken=[("t", "e1")])
        assert await home.taken("s", "e2", "e3", "e1", "e1") == {"e1", "e2"}
        assert await home.taken("t", "e1", "e2") == {"e1"}
        assert await home.taken("s") == await home.taken("other", "e1") == frozenset()
        assert await home.taken("s", *(f"x{n}" for n in range(5_000))) == frozenset()

    async def test_a_session_end_holds_until_its_next_event(self, home: ScopedStore) -> None:
        """A session stays ended until its next event; events of other sessions do not reopen it,
        and ending it twice is no conflict.
        """
        steps = (
            ([("s", "e1"), ("s", SESSION_END)], {SESSION_END, "e1"}),
            ([("s", SESSION_END)], {SESSION_END, "e1"}),
            ([("other", "e2")], {SESSION_END, "e1"}),
            ([("s", "e2")], {"e1", "e2"}),
            ([("s", SESSION_END), ("s", "e3")], {SESSION_END, "e1", "e2"}),
        )
        for events, expected in steps:
            await home.apply(taken=events)
            assert await home.taken("s", SESSION_END, "e1", "e2") == expected
        assert await home.taken("other", SESSION_END) == frozenset()

    async def test_a_forgotten_memory_holds_its_events_and_text(self, home: ScopedStore) -> None:
        """A tombstone blocks the events of a forgotten memory in every session and its text in its
        own session; the rest of a batch is added.
        """
        space = await home.space()
        [secret] = await home.write("The secret.", session_id="s", event_ids=("e1", "e2"))
        await home.forget(secret.id)
        assert await home.taken("elsewhere", "e1", "e2", "e3") == {"e1", "e2"}
        memories = [
            a_memory("secretly told", session_id="t", event_ids=("e2",)),
            a_memory("the SECRET", session_id="s", event_ids=("e7",)),
            a_memory("the secret", session_id="t", event_ids=("e8",)),
            a_memory("nothing of it", session_id="t", event_ids=("e3",)),
        ]
        rows = {memory.id: vector(0, 1) for memory in memories}
        free = memories[2:]
        applied = await home.apply(
            *adding(*memories), vectors=rows, space_number=space, taken=[("s", "e1")]
        )
        assert applied == (None, None, *(memory.id for memory in free))
        assert sorted(await home.contents()) == ["nothing of it", "the secret"]
        assert {id for id, _ in await home.nearest(space, 0, 1)} == {memory.id for memory in free}

    @pytest.mark.parametrize("kind", ["supersede", "merge", "update"])
    @pytest.mark.parametrize("session_id", [None, "s"])
    async def test_an_explicit_save_of_what_was_forgotten_wins(
        self, home: ScopedStore, kind: Any, session_id: str | None
    ) -> None:
        """An explicit save of forgotten content is stored and can be changed like any other
        memory.
        """
        [first] = await home.write("Rent is 500", session_id=session_id, event_ids=("e1",))
        await home.forget(everything=True)
        again = replace(a_memory("Rent is 500", event_ids=("e1", "e2")), session_id=session_id)
        assert await home.add(again) == (None,)
        assert await home.add(again, explicit=True) == (again.id,)
        new = a_memory("Rent is 600", session_id=session_id, event_ids=("e3",))
        update = [changing(again, kind, importance=0.9)]
        replaced = [replace(adding(new)[0], group="g"), superseding(again, new, kind, group="g")]
        applied = await home.apply(*(update if kind == "update" else replaced))
        assert None not in applied
        assert await home.contents() == [first.content if kind == "update" else "Rent is 600"]
        assert (await home.get(again.id)).revision == 2

    async def test_a_held_back_event_changes_no_memory(self, home: ScopedStore) -> None:
        """A blocked event updates and supersedes nothing, but a merge of memories that were kept
        goes through.
        """
        gone, current, old = (
            a_memory(text, event_ids=("e",) if text != "Rome" else ())
            for text in ("a", "tea", "Rome")
        )
        await home.add(gone, current, old)
        await home.forget(gone.id)
        new, merged = a_memory("Oslo"), a_memory("tea in Rome", event_ids=("e",))
        changes = [
            changing(current, "update", content="tea, and the secret"),
            *adding(new),
            superseding(old, new),
        ]
        applied = await home.apply(
            *(replace(change, event_ids=("e",), group="g") for change in changes)
        )
        assert applied == (None, None, None)
        assert sorted(await home.contents()) == ["Rome", "tea"]
        parts = [superseding(memory, merged, "merge", group="h") for memory in (current, old)]
        await home.apply(replace(adding(merged)[0], event_ids=("e",), group="h"), *parts)
        assert await home.contents() == ["tea in Rome"]


async def assert_gone(home: ScopedStore, *ids: str) -> None:
    """Assert that no method of the store returns these memories any more."""
    assert await home.visible(*ids, superseded=True) == set()
    remaining = {
        memory.id for memory in await home.listed(filter=Filter(superseded=True), limit=1000)
    }
    for space in await home.store.memories.spaces.all():
        remaining |= {
            *await home.unembedded(space.number),
            *(id for id, _ in await home.nearest(space.number, 1, 1)),
        }
    assert remaining.isdisjoint(ids)
    assert await home.features(*ids) == {}
    for id in ids:
        assert list(await home.store.memories.history(home.scope, id)) == []


class ForgetContract(ContractPart):
    """Forgotten content is gone for good (invariant 8)."""

    async def test_what_is_forgotten_is_gone_from_every_read(self, home: ScopedStore) -> None:
        """Forgetting removes rows, history, vectors, terms and neighbours, and moves the
        version.
        """
        space = await home.space()
        secret, plain = await home.write("zebra secret", "zebra kept", session_id="s")
        edited = await home.change(secret, content="zebra secret again")
        await home.embed(space, {secret.id: (1, 0), plain.id: (0, 1)})
        version = await home.version()
        assert await home.forget(edited.id, "unknown", secret.id) == (secret.id,)
        await assert_gone(home, secret.id)
        matches = await home.text("zebra", "secret")
        assert (matches.documents, set(matches.matches)) == (1, {plain.id})
        assert await home.nearest(space, 1, 0) == [(plain.id, 0.0)]
        vectors = await home.store.memories.vectors(home.scope, space, [secret.id, plain.id])
        assert [*vectors] == [plain.id]
        assert list(await home.features(plain.id, reach=5)) == [plain.id]
        assert await home.version() > version
        assert await home.forget(secret.id) == ()

    async def test_a_dry_run_names_what_would_go(self, home: ScopedStore) -> None:
        """A dry run returns the ids that would go and changes nothing; without conditions nothing
        goes.
        """
        first, second = await home.write("one", "two", session_id="s")
        version = await home.version()
        assert await home.forget(second.id, "unknown", dry_run=True) == (second.id,)
        assert set(await home.forget(session_id="s", dry_run=True)) == {first.id, second.id}
        assert set(await home.forget(everything=True, dry_run=True)) == {first.id, second.id}
        assert await home.version() == version
        assert await home.forget() == await home.forget(session_id="no such") == ()
        assert set(await home.contents()) == {"one", "two"}

    async def test_kept_tells_what_is_there_visible_or_not(self, home: ScopedStore) -> None:
        """`kept` counts expired and superseded memories too, or only those of one state."""
        tags = ("t",)
        memories = [
            a_memory("old", tags=tags),
            a_memory("gone", tags=tags, now=home.now - 2 * DAY, ttl_days=1),
            a_memory("past", tags=tags, state="superseded"),
            a_memory("held", tags=tags, state="quarantined"),
        ]
        await home.add(*memories, a_memory("other"))
        await home.elsewhere().write("theirs", tags=tags)
        ids = [memory.id for memory in memories]
        for filter, expected in (
            (Filter(tags=tags), ids),
            (Filter(tags=tags, superseded="only"), ids[2:3]),
            (Filter(superseded="quarantined"), ids[3:]),
        ):
            assert list(await home.store.memories.kept(home.scope, filter)) == expected

    async def test_a_session_takes_its_memories_and_jobs(self, home: ScopedStore) -> None:
        """Forgetting a session removes its memories, expired ones too, and its jobs; other sessions
        keep theirs.
        """
        short_lived = await home.write("one", "two", session_id="s", ttl_days=1)
        [longer], [bare] = await home.write("three", session_id="t"), await home.write("four")
        stays = await home.enqueue(session_id="t", payload={"text": "queued three"})
        await home.enqueue(session_id="s", payload={"text": "queued one"})
        later = home.at(home.now + DAY)
        assert set(await later.forget(session_id="s")) == {memory.id for memory in short_lived}
        await assert_gone(home, *(memory.id for memory in short_lived))
        assert await home.visible(longer.id, bare.id) == {longer.id, bare.id}
        assert [job.id for job in await home.jobs()] == [stays.id]

    async def test_everything_leaves_only_what_holds_it_back(self, home: ScopedStore) -> None:
        """Forgetting everything removes all memories and jobs of the scope; its tombstones and
        other scopes stay.
        """
        other = home.elsewhere()
        ids = [
            memory.id for memory in await home.write("one", "two", session_id="s", event_ids=("e",))
        ]
        await other.write("theirs")
        for scope, session in ((home, "s"), (home, ""), (other, "")):
            await scope.enqueue(session_id=session)
        assert set(await home.forget(everything=True)) == set(ids)
        await assert_gone(home, *ids)
        assert (await home.jobs(), len(await other.jobs())) == ([], 1)
        assert await other.contents() == ["theirs"]
        stats = await home.stats()
        assert (stats.visible, stats.expired, stats.superseded) == (0, 0, 0)
        assert await home.taken("any", "e") == {"e"}

    async def test_what_was_superseded_goes_with_its_successor(self, home: ScopedStore) -> None:
        """Forgetting a superseded memory keeps its successor; forgetting the successor removes the
        whole chain.
        """
        oldest, older, newest = await home.write("Rome", "Bern", "Oslo")
        await home.write("apart")
        await home.apply(superseding(oldest, older))
        await home.apply(superseding(await home.get(older.id), newest))
        assert await home.forget(oldest.id) == (oldest.id,)
        assert sorted(await home.contents()) == ["Oslo", "apart"]
        assert set(await home.forget(newest.id)) == {older.id, newest.id}
        await assert_gone(home, oldest.id, older.id, newest.id)
        assert await home.contents() == ["apart"]

    async def test_what_a_merge_made_of_it_goes_with_it(self, home: ScopedStore) -> None:
        """A memory merged from a forgotten one goes too, because it repeats its text."""
        part, _ = await home.write("likes tea", "likes cake")
        merged = a_memory("likes tea and cake")
        await home.apply(*adding(merged), superseding(part, merged, "merge"))
        assert set(await home.forget(part.id)) >= {part.id, merged.id}
        await assert_gone(home, part.id, merged.id)
        assert await home.contents() == ["likes cake"]

    async def test_history_that_said_the_same_goes_with_it(self, home: ScopedStore) -> None:
        """Forgetting history does not remove a current memory or turn that says the same."""
        first, latest = await home.write("Rome", "Oslo")
        await home.apply(superseding(first, latest))
        [again] = await home.write("rome")
        assert await home.forget(first.id) == (first.id,)
        assert sorted(await home.contents()) == ["Oslo", "rome"]
        await home.change(again, "undo", state="superseded")
        last, turn = a_memory("Rome"), a_memory("Rome", verbatim=True, event_ids=("e",))
        await home.add(last, turn, explicit=True)
        assert set(await home.forget(last.id)) == {last.id, again.id}
        await assert_gone(home, again.id, last.id)
        assert sorted(await home.contents()) == ["Oslo", "Rome"]
