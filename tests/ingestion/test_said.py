"""What was said last stands, whenever it was taken in; without a model nothing but equal words is united."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from kagent_memory.ingestion.extraction import Transcript
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Message, Scope

SCOPE = Scope("acme", "ada", "desk")
PAIRS = (
    "The spare key of the old house hangs on a hook behind the garage",
    "The spare key of the old house hangs on a hook behind the greenhouse",
    "Remote debugging of the main build server at work is enabled by default",
    "Remote debugging of the main build server at work is disabled by default",
)
CITIES = ("Oslo", "Lima", "Rome")  # on three days, in this order


class AsSaid:
    """Every message is a fact, those about where somebody lives with their slot."""

    name = "as said"

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        return [_fact(message) for message in transcript]


def _fact(message: Message) -> Fact:
    slot = {"subject": "user", "attribute": "home city"} if "live in" in message.text else {}
    return Fact(text=message.text, event_ids=(message.event_id,), **slot)


async def opened(uri: str) -> Memories:
    return await Memories.open(uri, llm=False, summary=AsSaid(), worker=False, prune_every_hours=0, consolidate_after=1)


async def contents(memories: Memories) -> list[str]:
    return sorted(memory.content for memory in (await memories.list(SCOPE)).memories)


@pytest.mark.parametrize("explicit", [True, False], ids=["saved", "in a session"])
async def test_texts_that_differ_in_one_plain_word_all_stay(store_uri: str, explicit: bool):
    async with await opened(store_uri) as memories:
        if explicit:
            for text in PAIRS:
                await memories.add(SCOPE, [text])
        else:
            said = [Message(text=text, event_id=f"e{n}") for n, text in enumerate(PAIRS)]
            await memories.remember(SCOPE, said, "s")
        await memories.work(until_idle=True)
        await memories.consolidate(SCOPE)
        assert (await contents(memories), list(await memories.jobs())) == (sorted(PAIRS), [])


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_the_last_word_stands_in_whatever_order_sessions_are_taken_in(store_uri: str, order: tuple[int, ...]):
    now = datetime.now(UTC)
    async with await opened(store_uri) as memories:
        for day in order:
            said = Message(text=f"I live in {CITIES[day]}.", event_id=f"e{day}", at=now - timedelta(days=9 - day))
            await memories.remember(SCOPE, [said], f"s{day}")
            await memories.work(until_idle=True)
        assert await contents(memories) == ["I live in Rome."]
