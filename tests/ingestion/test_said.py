"""What was said last stands, whenever it was taken in; without a model nothing but equal words is
united.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from kagent_memory.ingestion.summary_provider import Transcript
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Filter, Message, Scope
from kagent_memory.testing import ScriptedLlm

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
    return await Memories.open(
        uri, llm=False, summary=AsSaid(), worker=False, prune_every_hours=0, consolidate_after=1
    )


async def contents(memories: Memories) -> list[str]:
    return sorted(memory.content for memory in (await memories.list(SCOPE)).memories)


@pytest.mark.parametrize("explicit", [True, False], ids=["saved", "in a session"])
async def test_texts_that_differ_in_one_plain_word_all_stay(store_uri: str, explicit: bool):
    """Without a model, texts that differ in a single word are never united."""
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
async def test_the_last_word_stands_in_whatever_order(store_uri: str, order: tuple[int, ...]):
    """The last word stands in whatever order sessions are taken in."""
    now = datetime.now(UTC)
    async with await opened(store_uri) as memories:
        for day in order:
            said = Message(
                text=f"I live in {CITIES[day]}.",
                event_id=f"e{day}",
                at=now - timedelta(days=9 - day),
            )
            await memories.remember(SCOPE, [said], f"s{day}")
            await memories.work(until_idle=True)
        assert await contents(memories) == ["I live in Rome."]


@pytest.mark.parametrize("slots", [True, False], ids=["by their slot", "by a model"])
@pytest.mark.parametrize("seed", range(3))
async def test_values_are_valid_one_after_the_other(slots: bool, seed: int):
    """Each from when it was said until the next one was, without a gap and without two at a
    time.
    """
    now = datetime.now(UTC)
    texts = [
        f"I live in {city}" for city in ("Oslo", "Lima", "Rome", "Bonn", "Graz", "Nice", "Kyiv")
    ]
    order = random.Random(seed).sample(range(7), 7)

    def replaces(prompt: str) -> dict[str, list[dict[str, str]]]:
        shown = re.findall(r"^(F\d+): .*\n  (M\d+): ", prompt, re.MULTILINE)
        return {
            "decisions": [
                {"fact": fact, "action": "SUPERSEDE", "memory": memory} for fact, memory in shown
            ]
        }

    class Said(AsSaid):
        async def facts(self, transcript: Transcript) -> Sequence[Fact]:
            return [
                replace(fact, **({} if slots else {"subject": None}))
                for fact in await super().facts(transcript)
            ]

    llm = False if slots else ScriptedLlm(replaces)
    async with await Memories.open(
        "libsql:///:memory:", llm=llm, summary=Said(), worker=False
    ) as memories:
        for day in order:
            said = Message(text=texts[day], event_id=f"e{day}", at=now - timedelta(days=9 - day))
            await memories.remember(SCOPE, [said], f"s{day}")
            await memories.work(until_idle=True)
        page = await memories.list(SCOPE, filter=Filter(superseded=True))
        since = {value.content: value.valid_from or value.said_at for value in page.memories}
        values = sorted(page.memories, key=lambda value: since[value.content] or now)
        assert [value.content for value in values] == texts
        assert [value.valid_to for value in values] == [*map(since.get, texts[1:]), None]
        for day, text in enumerate(texts):
            then = now - timedelta(days=9 - day, hours=-1)
            past = await memories.recall(SCOPE, "I live in", as_of=then, limit=20)
            assert [hit.memory.content for hit in past] == [text]
