"""The latest statement is current in any order of ingestion; without a model only equal words are
merged.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from kagent_memory.records import Filter, Message
from kagent_memory.testing import ScriptedLlm

from .ground import SCOPE, AsSaid, contents, deciding, opened, taken_in

PAIRS = (
    "The spare key of the old house hangs on a hook behind the garage",
    "The spare key of the old house hangs on a hook behind the greenhouse",
    "Remote debugging of the main build server at work is enabled by default",
    "Remote debugging of the main build server at work is disabled by default",
)


def slot(message: Message) -> dict[str, str]:
    """Return the slot of statements about a home."""
    return {"subject": "user", "attribute": "home city"} if "live in" in message.text else {}


async def test_texts_that_differ_in_one_plain_word_all_stay(store_uri: str):
    """Without a model, texts that differ in a single word are never united."""
    async with opened(store_uri, summary=AsSaid(), llm=False) as memories:
        await memories.add(SCOPE, PAIRS[:2])
        await taken_in(memories, [Message(text=text, event_id=text) for text in PAIRS[2:]])
        await memories.consolidate(SCOPE)
        assert (await contents(memories), list(await memories.jobs())) == (sorted(PAIRS), [])


@pytest.mark.parametrize("slots", [True, False], ids=["by their slot", "by a model"])
@pytest.mark.parametrize("seed", range(3))
async def test_values_are_valid_one_after_the_other(
    store_uri: str, slots: bool, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Each value is valid from its statement to the next one, which succeeds it, without gaps or
    overlaps, though the former ones are read two at a time.
    """
    monkeypatch.setattr("kagent_memory.retention.prune.PAGE", 2)
    now = datetime.now(UTC)
    texts = [
        f"I live in {city}" for city in ("Oslo", "Lima", "Rome", "Bonn", "Graz", "Nice", "Kyiv")
    ]
    order = random.Random(seed).sample(range(7), 7)

    options = (
        {"llm": False, "summary": AsSaid(slot)}
        if slots
        else {"llm": ScriptedLlm(deciding(action="SUPERSEDE")), "summary": AsSaid()}
    )
    async with opened(store_uri, **options) as memories:
        for day in order:
            message = Message(text=texts[day], event_id=f"e{day}", at=now - timedelta(days=9 - day))
            await taken_in(memories, [message], f"s{day}")
        page = await memories.list(SCOPE, filter=Filter(superseded=True))
        since = {value.content: value.valid_from or value.said_at for value in page.memories}
        values = sorted(page.memories, key=lambda value: since[value.content] or now)
        assert [value.content for value in values] == texts
        assert [value.valid_to for value in values] == [*map(since.get, texts[1:]), None]
        successors = [value.superseded_by for value in values]
        assert successors == [*(value.id for value in values[1:]), None]
        for day, text in enumerate(texts):
            then = now - timedelta(days=9 - day, hours=-1)
            past = await memories.recall(SCOPE, "I live in", as_of=then, limit=20)
            assert [hit.memory.content for hit in past] == [text]
