"""Undo goes back one change at a time, an edit that names nothing is refused, and a category is set
and changed like a type.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from kagent_memory.errors import Conflict, InvalidInput, NotFound
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Memory
from memories.opening import ADA, listed, opened


@pytest.fixture
async def memories(store_uri: str) -> AsyncIterator[Memories]:
    async with await opened(store_uri) as memories:
        yield memories


@pytest.fixture
async def id(memories: Memories) -> str:
    [id] = await memories.add(ADA, [Fact("one", topics=("t",))])
    return id


async def content(memories: Memories, id: str) -> str:
    return (await memories.get(ADA, id)).content


async def test_a_replacement_is_undone_whole(memories: Memories, id: str):
    """A replacement is undone whole and then what was before it."""
    before = await memories.edit(ADA, id, content="two")
    [new] = await memories.add(ADA, ["three"], replaces=id)
    await memories.undo(ADA, new)
    after = await memories.get(ADA, id)
    assert replace(after, revision=before.revision) == before, "byte for byte"
    with pytest.raises(NotFound):
        await memories.get(ADA, new)
    with pytest.raises(NotFound, match="Nothing is left to undo"):
        await memories.undo(ADA, new)
    await memories.undo(ADA, id)
    assert await content(memories, id) == "one"


async def test_a_decision_changed_since_is_not_undone(memories: Memories, id: str):
    """A decision whose other memory was changed since is not undone."""
    [new] = await memories.add(ADA, ["three"], replaces=id)
    await memories.edit(ADA, new, content="four")
    with pytest.raises(Conflict):
        await memories.undo(ADA, id)
    await memories.undo(ADA, new)  # the edit; now the decision is on top again, of both
    restored = await memories.undo(ADA, id)
    assert {memory.id for memory in restored} == {id, new}
    assert await content(memories, id) == "one"


async def test_what_is_erased_meanwhile_is_not_undone(monkeypatch: pytest.MonkeyPatch):
    """An undo whose memories are forgotten while it reads says so and brings none of them back."""
    async with await opened("libsql:///:memory:") as memories:
        ids = await memories.add(ADA, ["one"])
        ids += await memories.add(ADA, ["three"], replaces=ids[0])
        group = memories.store.memories.group

        async def late(*args: Any) -> Any:
            await memories.forget(ADA, ids)
            return await group(*args)

        monkeypatch.setattr(memories.store.memories, "group", late)
        with pytest.raises(NotFound, match="nothing to undo"):
            await memories.undo(ADA, ids[0])
        assert not (await memories.list(ADA, filter=Filter(superseded=True))).memories


@pytest.mark.parametrize("seed", range(4))
async def test_undos_walk_any_sequence_of_changes_back(memories: Memories, id: str, seed: int):
    """Each undo takes back one change, none is redone, and at the end nothing is left to undo."""
    chance = random.Random(seed)
    states = [await memories.get(ADA, id)]
    for number in range(25):
        if chance.random() < 0.4 and len(states) > 1:
            await memories.undo(ADA, id)
            states.pop()
        elif chance.random() < 0.3:
            states.append(await memories.pin(ADA, id, not states[-1].pinned))
        else:
            states.append(
                await memories.edit(ADA, id, content=f"text {number}", importance=chance.random())
            )
        assert _told(await memories.get(ADA, id)) == _told(states[-1])
    for state in reversed(states[:-1]):
        await memories.undo(ADA, id)
        assert _told(await memories.get(ADA, id)) == _told(state)
    with pytest.raises(NotFound, match="Nothing is left"):
        await memories.undo(ADA, id)


def _told(memory: Memory) -> tuple[object, ...]:
    return memory.content, memory.topics, memory.importance, memory.pinned, memory.state


async def test_an_edit_that_names_nothing_is_refused(memories: Memories, id: str):
    """An edit names a value; an empty list is one."""
    for options in ({}, {"revision": 1, "who": "me", "why": "because"}):
        with pytest.raises(InvalidInput, match="Nothing to change"):
            await memories.edit(ADA, id, **options)
    await memories.edit(ADA, id, topics=[])
    assert (await memories.get(ADA, id)).topics == ()
    assert len(await memories.history(ADA, id)) == 1


async def test_a_category_is_filtered_kept_changed_and_undone(store_uri: str):
    """A category is an exact label, kept unless another is named, taken off and undone."""
    async with await opened(store_uri) as memories:
        names = ("billing", "Billing", "%")
        facts = [Fact(f"Invoice {n}", category=name) for n, name in enumerate(names)]
        id, *_ = await memories.add(ADA, facts)
        for fact in facts:
            assert await listed(memories, category=fact.category) == {fact.text}
        assert not await listed(memories, category="")
        assert await memories.add(ADA, [facts[0].text]) == [id]
        [newer] = await memories.add(ADA, ["The invoice is overdue"], replaces=id)
        assert (await memories.get(ADA, newer)).category == "billing"
        assert (await memories.edit(ADA, newer, category="archive")).category == "archive"
        assert (await memories.edit(ADA, newer, category="")).category is None
        assert (await memories.undo(ADA, newer))[0].category == "archive"
