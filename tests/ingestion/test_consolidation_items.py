"""What consolidation makes of pairs of facts, by a model that is right and by models that are not.

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
SCOPE = Scope("", "ada", "app")
START = datetime(2026, 5, 8, tzinfo=UTC)
DAY = timedelta(days=1)
Item = Mapping[str, str]
Decide = Callable[[Item], Mapping[str, Any]]


def ideal(item: Item) -> Mapping[str, Any]:
    """Decide rightly."""
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


@asynccontextmanager
async def settled(item: Item, decide: Decide) -> AsyncIterator[Memories]:
    """Open a memory to which both facts were said, a day apart."""
    clock, who = FrozenClock(START), item.get("who", "")
    llm = ScriptedLlm(deciding(**decide(item)))
    async with opened(llm=llm, summary=AsSaid(), clock=clock) as memories:
        if who == "explicit":
            await memories.add(SCOPE, [item["former"]])
        else:
            await said(memories, item["former"], "s1", clock.now)
        clock.now += DAY
        await said(memories, item["new"], "s2", clock.now, role="tool" if who == "tool" else "user")
        yield memories


async def said(
    memories: Memories, text: str, session: str, at: datetime, role: Any = "user"
) -> None:
    await memories.remember(
        SCOPE, [Message(text=text, role=role, event_id=session, at=at)], session
    )
    await memories.work(until_idle=True)


async def found(memories: Memories, text: str, **options: Any) -> list[str]:
    return [hit.memory.content for hit in await memories.recall(SCOPE, text, limit=20, **options)]


def is_told(text: str, contents: list[str]) -> bool:
    """Return True if one of the contents says all of a text, word for word or with words
    between.
    """

    def words(one: str) -> list[str]:
        return re.findall(r"[\u4e00-\u9fff]|[\w']+", one.casefold())

    def holds(content: str) -> bool:
        rest = iter(words(content))
        return all(word in rest for word in words(text))

    return any(holds(content) for content in contents)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["new"])
async def test_a_model_that_is_right_is_believed(item: Item) -> None:
    """Corrections leave every read, what is the same is handed over once, and nothing is lost."""
    async with settled(item, ideal) as memories:
        former, new = await found(memories, item["former"]), await found(memories, item["new"])
        assert is_told(item["new"], new)
        if item["relation"] == "replaces" and not item.get("who"):
            assert item["former"] not in (*former, *new)
            assert await found(memories, item["former"], as_of=START + DAY / 2) == [item["former"]]
        else:
            assert is_told(item["former"], former)
        if item["relation"] == "same":
            assert len(new) == len(former) == 1
        if item.get("who") == "explicit":
            assert new[:2] == [item["new"], item["former"]]


@pytest.mark.parametrize("decide", BAD.values(), ids=BAD)
@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["new"])
async def test_no_model_puts_out_of_reach_what_was_said(item: Item, decide: Decide) -> None:
    """A recall finds both, or its past does: what is replaced held until the new one was said."""
    async with settled(item, decide) as memories:
        assert is_told(item["new"], await found(memories, item["new"]))
        former = await found(memories, item["former"])
        if not is_told(item["former"], former):
            assert decide is BAD["always replaced"]
            assert await found(memories, item["former"], as_of=START + DAY / 2) == [item["former"]]
        assert not (item.get("who") and not is_told(item["former"], former))


@pytest.mark.parametrize(
    "item", [item for item in ITEMS if item["relation"] == "same"], ids=lambda item: item["new"]
)
async def test_undo_separates_what_was_linked(item: Item) -> None:
    """Undo of a merge takes the links off both memories, and both are still found."""
    async with settled(item, ideal) as memories:
        one, other = (await memories.list(SCOPE)).memories
        assert (one.links, other.links) == ((other.id,), (one.id,))
        await memories.undo(SCOPE, one.id)
        assert [memory.links for memory in (await memories.list(SCOPE)).memories] == [(), ()]
        assert len(await found(memories, f"{item['former']} {item['new']}")) == 2


async def test_forgetting_a_memory_takes_it_out_of_the_links_of_others() -> None:
    """No memory stays linked to one that was forgotten."""
    item = next(item for item in ITEMS if item["relation"] == "same")
    async with settled(item, ideal) as memories:
        one, other = (await memories.list(SCOPE)).memories
        await memories.forget(SCOPE, one.id)
        assert (await memories.get(SCOPE, other.id)).links == ()


async def test_the_prune_judges_each_linked_memory_by_itself() -> None:
    """What is in use is extended, what is linked with it and is not in use goes."""
    item = next(item for item in ITEMS if item["relation"] == "same")
    async with settled(item, ideal) as memories:
        by_text = {memory.content: memory for memory in (await memories.list(SCOPE)).memories}
        used = by_text[(await found(memories, item["new"]))[0]]
        for _ in range(10):
            assert await found(memories, used.content) == [used.content]
        memories.parts.clock.now += 20 * DAY  # pyright: ignore[reportAttributeAccessIssue] ours
        pruned = await memories.prune()
        assert (pruned.deleted, pruned.extended) == (1, 1)
        [left] = (await memories.list(SCOPE)).memories
        assert (left.id, left.links) == (used.id, ())
