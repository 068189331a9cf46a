"""The history: what every change ended, who made it and why, and the decisions that join changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ..errors import Conflict, NotFound
from ..records import Change
from ..stores.base import Batch, Store
from .fixtures import DAY, NOW, ContractPart, a_memory, a_scope, add, adding, bare, changing, contents, the


class HistoryContract(ContractPart):
    """Every change leaves the state it ended; a stale one is refused."""

    async def test_a_memory_that_was_only_added_has_no_history(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("new")
        await add(store, scope, memory)
        assert list(await store.history(scope, memory.id)) == []
        assert list(await store.history(scope, "unknown")) == []

    async def test_every_change_leaves_the_state_it_ended_and_its_account_oldest_first(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("v1", session_id="s", metadata={"n": 1}, ttl_days=30)
        await add(store, scope, memory)
        await store.deliver(scope, retrieved=[], delivered=[memory.id], now=NOW)
        first = await the(store, scope, memory.id)
        edit = replace(changing(first, content="v2", metadata={}), who="ann", why="a slip", event_ids=("e9",))
        await store.apply(scope, Batch(changes=[edit]), now=NOW + DAY)
        second = await the(store, scope, memory.id, now=NOW + DAY)
        pin = replace(changing(second, "pin", now=NOW + 2 * DAY, pinned=True), group="g1")
        await store.apply(scope, Batch(changes=[pin]), now=NOW + 2 * DAY)

        one, two = await store.history(scope, memory.id)
        assert (one.memory_id, one.revision, one.kind, one.at) == (memory.id, 1, "edit", NOW + DAY)
        assert (one.who, one.why, one.event_ids, one.group) == ("ann", "a slip", ("e9",), None)
        assert (two.revision, two.kind, two.at, two.group) == (2, "pin", NOW + 2 * DAY, "g1")
        assert one.before is not None
        assert two.before is not None
        assert (bare(one.before), bare(two.before)) == (bare(first), bare(second))
        assert (await the(store, scope, memory.id, now=NOW)).revision == 3

    async def test_a_change_of_a_revision_that_is_past_is_a_conflict(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("v1")
        await add(store, scope, memory)
        await store.apply(scope, Batch(changes=[changing(memory, content="v2")]), now=NOW)
        with pytest.raises(Conflict):
            await store.apply(scope, Batch(changes=[changing(memory, content="v3")]), now=NOW)
        assert await contents(store, scope) == ["v2"]

    async def test_what_one_decision_changed_is_found_by_its_group(self, store: Store) -> None:
        scope = a_scope()
        old, apart, new = a_memory("Rome"), a_memory("apart"), a_memory("Oslo")
        await add(store, scope, old, apart)
        moved = changing(old, "supersede", state="superseded", superseded_by=new.id)
        decided: list[Change] = [replace(change, group="g") for change in (*adding(new), moved)]
        await store.apply(scope, Batch(changes=decided), now=NOW)
        await store.apply(scope, Batch(changes=[changing(apart, content="alone")]), now=NOW)
        group = {revision.memory_id: revision for revision in await store.group(scope, "g")}
        assert set(group) == {old.id, new.id}
        assert (group[old.id].kind, group[old.id].revision) == ("supersede", 1)
        assert (group[new.id].kind, group[new.id].revision, group[new.id].before) == ("add", 0, None)
        assert list(await store.group(scope, "another")) == []

    async def test_a_decision_can_be_taken_back_from_its_revisions(self, store: Store) -> None:
        scope = a_scope()
        old, new = a_memory("Rome"), a_memory("Oslo")
        await add(store, scope, old, new)
        await store.apply(
            scope,
            Batch(changes=[replace(changing(old, "supersede", state="superseded", superseded_by=new.id), group="g")]),
            now=NOW,
        )
        assert await contents(store, scope) == ["Oslo"]
        (revision,) = await store.group(scope, "g")
        current = await the(store, scope, old.id)
        assert revision.before is not None
        undone = replace(revision.before, revision=current.revision + 1)
        await store.apply(scope, Batch(changes=[Change(kind="undo", memory=undone)]), now=NOW)
        assert sorted(await contents(store, scope)) == ["Oslo", "Rome"]
        assert [r.kind for r in await store.history(scope, old.id)] == ["supersede", "undo"]
        assert set((await store.view(scope, now=NOW).text(["rome", "oslo"], limit=9)).frequencies) <= {"rome", "oslo"}

    async def test_feedback_is_counted_and_an_unknown_memory_is_not_found(self, store: Store) -> None:
        scope = a_scope()
        memory = a_memory("useful")
        await add(store, scope, memory)
        for success in (True, True, False):
            await store.feedback(scope, memory.id, success=success)
        usage = (await the(store, scope, memory.id)).usage
        assert (usage.successes, usage.failures, usage.delivered) == (2, 1, 0)
        with pytest.raises(NotFound):
            await store.feedback(scope, "unknown", success=True)
