"""Consolidate pairs of facts with a correct model and with wrong ones.

Each item of `items/consolidation.toml` is two sessions: one says `former`, the other `new`. `who`
is how the former was saved ("explicit"), or who says the new one ("tool").
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kagent_memory import Memories, Scope
from kagent_memory.records import Message
from kagent_memory.testing import FrozenClock, ScriptedLlm

from .ground import AsSaid, deciding, opened

ITEMS = tomllib.loads((Path(__file__).parent / "items/consolidation.toml").read_text("utf-8"))[
    "item"
]
START = datetime(2026, 5, 8, tzinfo=UTC)
DAY = timedelta(days=1)
Item = Mapping[str, str]
Decide = Callable[[Item], Mapping[str, Any]]


def ideal(item: Item) -> Mapping[str, Any]:
    """Return the correct decision."""
    actions = {"same": "NOOP", "adds": "UPDATE", "replaces": "SUPERSEDE", "other": "ADD"}
    return {"action": actions[item["relation"]], "text": item.get("united")}


BAD: Mapping[str, Decide] = {
    "always the same": lambda item: {"action": "NOOP"},
    "always united in the new": lambda item: {"action": "UPDATE", "text": item["new"]},
    "always united in the former": lambda item: {"action": "UPDATE", "text": item["former"]},
    "always united in both": lambda item: {
        "action": "UPDATE",
        "text": f"{item['former']} {item['new']}",
    },
    "always replaced": lambda item: {"action": "SUPERSEDE"},
}


def scope_of(item: Item) -> Scope:
    """Return the scope of one item."""
    return Scope("", f"user {ITEMS.index(item)}", "app")


@asynccontextmanager
async def settled(decide: Decide, *items: Item) -> AsyncIterator[Memories]:
    """Open memories with both facts of each item, said a day apart."""
    clock, current = FrozenClock(START), list[Item]()

    async def say(item: Item, fact: str, role: Any = "user") -> None:
        current.append(item)
        message = Message(text=item[fact], role=role, event_id=fact, at=clock.now)
        await memories.remember(scope_of(item), [message], fact)
        await memories.work(until_idle=True)

    llm = ScriptedLlm(lambda prompt: deciding(**decide(current[-1]))(prompt))
    async with opened(llm=llm, summary=AsSaid(), clock=clock) as memories:
        for item in items:
            if item.get("who") == "explicit":
                await memories.add(scope_of(item), [item["former"]])
            else:
                await say(item, "former")
        clock.now += DAY
        for item in items:
            await say(item, "new", role="tool" if item.get("who") == "tool" else "user")
        yield memories


async def recalled(memories: Memories, item: Item, fact: str, **options: Any) -> list[str]:
    """Return the memories found for one of the facts of an item."""
    hits = await memories.recall(scope_of(item), item[fact], limit=20, **options)
    return [hit.memory.content for hit in hits]


def is_told(text: str, contents: list[str]) -> bool:
    """Return True if one of the contents contains all words of a text in order."""

    def words(content: str) -> list[str]:
        return re.findall(r"[\u4e00-\u9fff]|[\w']+", content.casefold())

    def holds(content: str) -> bool:
        remaining = iter(words(content))
        return all(word in remaining for word in words(text))

    return any(holds(content) for content in contents)


async def test_a_model_that_is_right_is_believed() -> None:
    """A correct model makes corrections effective, unites duplicates and loses nothing."""
    async with settled(ideal, *ITEMS) as memories:
        for item in ITEMS:
            former = await recalled(memories, item, "former")
            new = await recalled(memories, item, "new")
            assert is_told(item["new"], new)
            if item["relation"] == "replaces" and not item.get("who"):
                assert item["former"] not in (*former, *new)
                before = await recalled(memories, item, "former", as_of=START + DAY / 2)
                assert before == [item["former"]]
            else:
                assert is_told(item["former"], former)
            if item["relation"] == "same":
                assert (len(new), len(former)) == (1, 1), item
            if item.get("who") == "explicit":
                assert new[:2] == [item["new"], item["former"]]


@pytest.mark.parametrize("decided", BAD)
async def test_no_model_puts_out_of_reach_what_was_said(decided: str) -> None:
    """A wrong model hides nothing: a recall finds both facts, or the replaced one as of its
    time.
    """
    async with settled(BAD[decided], *ITEMS) as memories:
        for item in ITEMS:
            assert is_told(item["new"], await recalled(memories, item, "new")), item
            if not is_told(item["former"], await recalled(memories, item, "former")):
                assert (decided, item.get("who")) == ("always replaced", None)
                before = await recalled(memories, item, "former", as_of=START + DAY / 2)
                assert before == [item["former"]]


SAME = [item for item in ITEMS if item["relation"] == "same"]


async def test_undo_separates_what_was_linked() -> None:
    """Undo of a merge removes the links of both memories, and both are still found."""
    async with settled(ideal, *SAME) as memories:
        for item in SAME:
            scope = scope_of(item)
            first, second = (await memories.list(scope)).memories
            assert (first.links, second.links) == ((second.id,), (first.id,))
            await memories.undo(scope, first.id)
            assert [memory.links for memory in (await memories.list(scope)).memories] == [(), ()]
            assert len(await memories.recall(scope, f"{item['former']} {item['new']}")) == 2


async def test_forgetting_takes_a_memory_out_of_others_links() -> None:
    """No memory stays linked to one that was forgotten."""
    scope = scope_of(SAME[0])
    async with settled(ideal, SAME[0]) as memories:
        first, second = (await memories.list(scope)).memories
        await memories.forget(scope, first.id)
        assert (await memories.get(scope, second.id)).links == ()


async def test_the_prune_judges_each_linked_memory_by_itself() -> None:
    """The prune extends a used memory and deletes an unused one, although they are linked."""
    scope = scope_of(SAME[0])
    async with settled(ideal, SAME[0]) as memories:
        for _ in range(10):
            [hit] = await memories.recall(scope, SAME[0]["new"])
        memories.clock.now += 20 * DAY  # pyright: ignore[reportAttributeAccessIssue] ours
        pruned = await memories.prune()
        assert (pruned.deleted, pruned.extended) == (1, 1)
        [memory] = (await memories.list(scope)).memories
        assert (memory.id, memory.links) == (hit.memory.id, ())
