"""The history: what every change ended, who made it and why, and the decisions that join
changes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ..errors import NotFound
from ..records import Change, Usage
from .fixtures import DAY, ContractPart, ScopedStore, a_memory, adding, changing, superseding


class HistoryContract(ContractPart):
    """Every change leaves the state it ended."""

    async def test_a_change_leaves_the_state_it_ended(self, home: ScopedStore) -> None:
        """Oldest first, without usage, with who, why, when and the events; adding leaves
        nothing.
        """
        [first] = await home.write("v1", session_id="s", metadata={"n": 1}, ttl_days=30)
        for id in (first.id, "unknown"):
            assert list(await home.store.memories.history(home.scope, id)) == []
        await home.deliver(first.id)
        edited, pinned = home.at(home.now + DAY), home.at(home.now + 2 * DAY)
        edit = replace(
            changing(first, content="v2", metadata={}), who="ann", why="a slip", event_ids=("e9",)
        )
        await edited.apply(edit)
        second = await edited.get(first.id)
        await pinned.apply(
            replace(changing(second, "pin", now=pinned.now, pinned=True), group="g1")
        )

        one, two = await home.store.memories.history(home.scope, first.id)
        assert (one.memory_id, one.revision, one.kind, one.at) == (first.id, 1, "edit", edited.now)
        assert (one.who, one.why, one.event_ids, one.group) == ("ann", "a slip", ("e9",), None)
        assert (two.revision, two.kind, two.at, two.group) == (2, "pin", pinned.now, "g1")
        assert (one.before, two.before) == (first, replace(second, usage=Usage()))
        assert (await home.get(first.id)).revision == 3

    async def test_a_decision_is_found_by_its_group_and_undone(self, home: ScopedStore) -> None:
        """The revisions of one decision hold what it takes to bring the former state back."""
        old, apart = await home.write("Rome", "apart")
        new = a_memory("Oslo")
        await home.apply(replace(adding(new)[0], group="g"), superseding(old, new, group="g"))
        await home.change(apart, content="alone")
        group = {
            revision.memory_id: revision
            for revision in await home.store.memories.group(home.scope, "g")
        }
        assert set(group) == {old.id, new.id}
        assert (group[old.id].kind, group[old.id].revision) == ("supersede", 1)
        assert (group[new.id].kind, group[new.id].revision, group[new.id].before) == (
            "add",
            0,
            None,
        )

        before = group[old.id].before
        assert before is not None
        current = await home.get(old.id)
        await home.apply(Change(kind="undo", memory=replace(before, revision=current.revision + 1)))
        assert sorted(await home.contents()) == ["Oslo", "Rome", "alone"]
        assert [one.kind for one in await home.store.memories.history(home.scope, old.id)] == [
            "supersede",
            "undo",
        ]
        assert set((await home.text("rome", "oslo")).matches) == {old.id, new.id}

    async def test_feedback_is_counted(self, home: ScopedStore) -> None:
        """Successes and failures count apart from deliveries; an unknown memory is NotFound."""
        [memory] = await home.write("useful")
        for success in (True, True, False):
            await home.store.memories.feedback(home.scope, memory.id, success=success)
        usage = (await home.get(memory.id)).usage
        assert (usage.successes, usage.failures, usage.delivered) == (2, 1, 0)
        with pytest.raises(NotFound):
            await home.store.memories.feedback(home.scope, "unknown", success=True)
