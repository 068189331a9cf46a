"""The search for memories that a new fact may duplicate or replace."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from kagent_memory.records import Memory, Scope
from kagent_memory.retrieval.similar import NEAREST, current, neighbours
from kagent_memory.stores.view import MemoriesView

NOW = datetime(2026, 3, 4, tzinfo=UTC)


def memory(id: str, content: str, **values: Any) -> Memory:
    return Memory(id=id, content=content, created_at=NOW, updated_at=NOW, **values)


async def test_turns_take_no_place_among_a_facts_neighbours():
    """However many kept turns say the same, the facts that are like a new one are found."""
    turns = [memory(f"t{n}", "I paddle a kayak", state="source") for n in range(3 * NEAREST)]
    stored = [memory("a", "owns a kayak and a boat"), memory("b", "drinks tea"), *turns]
    store: Any = SimpleNamespace(vectors=dict)
    view = await MemoriesView.of(store, Scope("", "ada", "app"), stored, now=NOW)
    groups = await neighbours(view, None, [memory("new", "I paddle a kayak")])
    assert [[each.id for each, _ in alike] for alike in groups.values()] == [["a"]]


async def test_what_fills_no_slot_is_near_by_its_words_alone():
    """A short-term memory without a slot does not meet each new fact that has none."""

    async def none(*_: object, **__: object) -> dict[str, Memory]:
        return {}

    store: Any = SimpleNamespace(get=none)
    brief, new = memory("a", "is in a hurry"), memory("new", "I paddle a kayak")
    candidates = await current(
        store, Scope("", "ada", "app"), [new], {0: ()}, others=[brief], now=NOW
    )
    assert candidates == {0: []}
