"""Turns kept beside facts are found, handed over once, and deleted with their facts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from kagent_memory import ConfigurationError, Fact, Filter, LlmSummary, Memories, Message, Scope
from kagent_memory.testing import FrozenClock, HashEmbedder, ScriptedLlm

from . import ground

ADA = Scope("acme", "ada", "notes")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURN = "My favourite tea is oolong, and my sister Mia lives in Oslo."
FACT = "Ada's favourite tea is oolong."
BICYCLE = "My bicycle has a flat tyre."
LATER = "My favourite tea is sencha these days."
TEAS = ("oolong", "sencha", "matcha")


def extracted(prompt: str) -> Any:
    """Extract the favourite tea, and nothing else; refuse to decide."""
    if "F1:" in prompt:
        return ConfigurationError("It decides nothing.")
    transcript = prompt.rpartition("<transcript>")[2]
    tea = next((tea for tea in TEAS if tea in transcript), None)
    if tea is None:
        return {"facts": []}
    slot = {"subject": "Ada", "attribute": "favourite tea"}
    return {"facts": [{"text": f"Ada's favourite tea is {tea}.", "sources": [1], **slot}]}


def opened(
    uri: str, clock: Callable[[], datetime] = FrozenClock(NOW), **options: Any
) -> AbstractAsyncContextManager[Memories]:
    settings = {
        "llm": ScriptedLlm(extracted),
        "embedding": HashEmbedder(),
        "clock": clock,
        **options,
    }
    return ground.opened(uri, **settings)


async def say(
    memories: Memories, session: str, *texts: str, at: datetime = NOW, **more: Any
) -> None:
    messages = [
        Message(
            text=text, event_id=f"{session}-{number}", at=at + timedelta(minutes=number), **more
        )
        for number, text in enumerate(texts)
    ]
    await memories.remember(ADA, messages, session_id=session)
    await memories.work(until_idle=True)


async def turns(memories: Memories) -> list[str]:
    page = await memories.list(ADA, filter=Filter(superseded="source"), order="oldest")
    return [turn.content for turn in page.memories]


async def listed(memories: Memories) -> list[str]:
    return [memory.content for memory in (await memories.list(ADA)).memories]


async def test_turn_is_no_memory_of_its_own_in_lists_and_counts(store_uri):
    """A kept turn is neither listed nor counted, but a fact names it, and get returns it."""
    async with opened(store_uri) as memories:
        await say(memories, "s1", TURN)
        assert await listed(memories) == [FACT]
        assert await turns(memories) == [TURN]
        assert (await memories.stats(ADA)).visible == 1
        assert (await memories.facets(ADA)).total == 1
        [fact] = (await memories.list(ADA)).memories
        assert (await memories.get(ADA, fact.source_ids[0])).content == TURN


@pytest.mark.parametrize("question", ["What is the favourite tea?", "Where does sister Mia live?"])
async def test_fact_and_its_turn_are_one_answer(store_uri, question):
    """A fact is handed over with the words of its turn, which also contain details without
    a fact.
    """
    async with opened(store_uri) as memories:
        await say(memories, "s1", TURN)
        [hit] = await memories.recall(ADA, question)
        assert (hit.memory.content, [turn.content for turn in hit.sources]) == (FACT, [TURN])


async def test_what_no_fact_holds_is_found_in_the_turn(store_uri):
    """A detail without a fact is found in its turn, also with a filter, and handed over once,
    behind a changed fact of the turn.
    """
    async with opened(store_uri, embedding=None) as memories:
        await say(memories, "s1", BICYCLE)
        [hit] = await memories.recall(ADA, "bicycle tyre", filter=Filter(session_id="s1"))
        assert (hit.memory.content, hit.memory.state) == (BICYCLE, "source")
        await say(memories, "s2", TURN)
        await memories.pin(ADA, (await memories.list(ADA)).memories[0].id)
        fact, _ = await memories.recall(ADA, "sister Mia")
        assert not fact.sources


async def test_a_turn_stands_behind_what_superseded_its_fact(store_uri):
    """A turn never ranks before the memory that superseded its fact, which can be sent as JSON."""
    async with opened(store_uri) as memories:
        await say(memories, "s1", TURN)
        await say(memories, "s2", LATER)
        await say(
            memories,
            "s3",
            *(f"Nothing but sister Mia and Oslo, part {number}." for number in range(40)),
        )
        contents = [hit.memory.content for hit in await memories.recall(ADA, TURN, limit=3)]
        assert TURN in contents
        successor, *_ = await memories.recall(ADA, "sister Mia lives in Oslo", limit=3)
        assert (
            to_jsonable_python(successor)["memory"]["content"] == "Ada's favourite tea is sencha."
        )
        assert contents.index("Ada's favourite tea is sencha.") < contents.index(TURN)
        assert FACT not in contents


async def test_a_former_fact_comes_back_with_its_turn(store_uri):
    """A search as of a past time finds the fact and turn of that time, and every search does once
    the change is undone.
    """
    clock = FrozenClock(NOW)
    async with opened(store_uri, clock) as memories:
        await say(memories, "s1", TURN)
        clock.now += timedelta(days=2)
        await say(memories, "s2", LATER, at=clock.now)
        [then] = await memories.recall(ADA, "favourite tea", as_of=NOW + timedelta(days=1))
        [fact] = (await memories.list(ADA)).memories
        await memories.undo(ADA, fact.id)
        [now, *_] = await memories.recall(ADA, "favourite tea oolong")
        for hit in (then, now):
            assert (hit.memory.content, [turn.content for turn in hit.sources]) == (FACT, [TURN])


@pytest.mark.parametrize(
    ("role", "options", "facts"),
    [
        ("tool", {}, [FACT]),
        ("agent", {"quarantine": ("agent",)}, []),
        ("user", {"keep_turns": False}, [FACT]),
        ("user", {"summary": LlmSummary(exclude_topics=["health"])}, [FACT]),
    ],
)
async def test_turns_are_kept_only_where_they_may_be(store_uri, role, options, facts):
    """No turn is kept from a tool, from a quarantined origin, with `keep_turns` off, or with
    excluded topics.
    """
    async with opened(store_uri, **options) as memories:
        await say(memories, "s1", TURN, role=role)
        assert (await listed(memories), await turns(memories)) == (facts, [])


async def test_forgetting_a_fact_forgets_its_turns(store_uri):
    """A fact is handed over with its turn and the turns that repeated it, and forgotten with
    them.
    """
    async with opened(store_uri) as memories:
        await say(memories, "s1", TURN)
        await say(memories, "s2", "As I said: oolong!", BICYCLE)
        [fact] = (await memories.list(ADA)).memories
        [hit, *_] = await memories.recall(ADA, "oolong")
        assert len(hit.sources) == 2
        assert len(await memories.forget(ADA, ids=[fact.id], dry_run=True)) == 3
        await memories.forget(ADA, ids=[fact.id])
        assert await turns(memories) == [BICYCLE]
        await say(memories, "s1", TURN)
        assert (await listed(memories), await turns(memories)) == (
            [],
            [BICYCLE],
        )


@pytest.mark.parametrize("by", ["turn", "session"])
async def test_forgetting_a_turn_or_session_takes_both(store_uri, by):
    """Forgetting a turn or a session forgets the facts that came from it alone, and no others."""
    async with opened(store_uri) as memories:
        await say(memories, "s1", TURN)
        await say(memories, "s2", BICYCLE)
        await memories.add(ADA, [Fact(text="Ada rows at dawn.")])
        [turn, _] = (
            await memories.list(ADA, filter=Filter(superseded="source"), order="oldest")
        ).memories
        target: dict[str, Any] = {"ids": [turn.id]} if by == "turn" else {"session_id": "s1"}
        await memories.forget(ADA, **target)
        assert (await listed(memories), await turns(memories)) == (["Ada rows at dawn."], [BICYCLE])


async def test_turn_lives_as_long_as_its_fact(store_uri):
    """A turn is not pruned while its fact lives; a turn without a fact goes at its own time."""
    clock = FrozenClock(NOW)
    async with opened(store_uri, clock, ttl_days_by={"episodic": 5, "semantic": 30}) as memories:
        await say(memories, "s1", TURN)
        await say(memories, "s2", BICYCLE)
        clock.now += timedelta(days=20)
        await memories.prune()
        assert await turns(memories) == [TURN]
        [fact] = (await memories.list(ADA)).memories
        await memories.pin(ADA, fact.id)
        clock.now += timedelta(days=20)
        await memories.prune()
        assert await turns(memories) == [TURN]
        [hit] = await memories.recall(ADA, "favourite tea")
        assert [turn.content for turn in hit.sources] == [TURN]


async def test_said_again_renews_the_turn_with_its_fact(store_uri):
    """A fact that is said again renews also the turn that it came from before."""
    clock = FrozenClock(NOW)
    async with opened(store_uri, clock) as memories:
        await say(memories, "s1", TURN)
        clock.now += timedelta(days=10)
        await say(memories, "s2", "Still oolong for me.")
        clock.now += timedelta(days=10)
        assert await turns(memories) == [TURN, "Still oolong for me."]


async def test_budget_takes_the_passage_that_fits_the_question(store_uri):
    """Of a turn longer than the budget, the passage that fits the question is handed over."""
    filler = " ".join(f"The {number}th day was quiet and the sea was calm." for number in range(60))
    async with opened(store_uri) as memories:
        await say(
            memories,
            "s1",
            f"I drink oolong. {filler} The spare key hangs behind the blue door. {filler}",
        )
        [hit] = await memories.recall(ADA, "Where does the spare key hang?", budget_tokens=100)
        [turn] = hit.sources
        assert "spare key hangs behind the blue door" in turn.content
        assert len(turn.content) < 400
