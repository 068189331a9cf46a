"""The search for memories that a new fact may duplicate or replace."""

from types import SimpleNamespace
from typing import Any

from memories.opening import ADA

from kagent_memory.records import Memory
from kagent_memory.retrieval.similar import NEAREST, current, neighbours
from kagent_memory.stores.view import MemoriesView
from kagent_memory.testing.fixtures import NOW, a_memory


async def test_turns_take_no_place_among_a_facts_neighbours():
    """However many kept turns say the same, the facts that are like a new one are found."""
    turns = [a_memory("I paddle a kayak", state="source") for n in range(3 * NEAREST)]
    stored = [a_memory("owns a kayak and a boat", id="a"), a_memory("drinks tea"), *turns]
    store: Any = SimpleNamespace(vectors=dict)
    view = await MemoriesView.of(store, ADA, stored, now=NOW)
    groups = await neighbours(view, None, [a_memory("I paddle a kayak")])
    assert [[each.id for each, _ in alike] for alike in groups.values()] == [["a"]]


async def test_what_fills_no_slot_is_near_by_its_words_alone():
    """A short-term memory without a slot does not meet each new fact that has none."""

    async def none(*_: object, **__: object) -> dict[str, Memory]:
        return {}

    store: Any = SimpleNamespace(get=none)
    brief, new = a_memory("is in a hurry"), a_memory("I paddle a kayak")
    candidates = await current(store, ADA, [new], {0: ()}, others=[brief], now=NOW)
    assert candidates == {0: []}
