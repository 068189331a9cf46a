"""What memory holds is not learnt again from whoever recites it, however much of it is recited, in one search."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Message, Scope
from kagent_memory.testing import ScriptedLlm

SCOPE = Scope("acme", "u-17", "desk")
NOW = datetime(2026, 5, 6, 9, 30, tzinfo=UTC)
CITIES = ["Oslo", "Lima", "Kyoto", "Accra", "Porto", "Tbilisi", "Quito"]


def visits(count):
    return [f"The user visited {CITIES[n % 7]} in {1970 + n // 2} with {n % 5 + 2} friends." for n in range(count)]


def to_you(text):
    return text.replace("The user's", "Your").replace("The user", "You")


def learnt(llm):
    """What the model was asked to learn from."""
    return "\n".join(llm.prompts)


@pytest.fixture
async def memories(store_uri):
    llm = ScriptedLlm(lambda _: {"facts": [], "decisions": [], "groups": [], "summary": ""})
    async with await Memories.open(
        store_uri, llm=llm, worker=False, prune_every_hours=0, clock=lambda: NOW
    ) as memories:
        yield memories, llm


async def heard(memories, *messages):
    """What of these messages a model would learn from."""
    opened, llm = memories
    await opened.remember(SCOPE, list(messages), "s1")
    before = len(llm.prompts)
    assert await opened.work(until_idle=True)
    return "\n".join(llm.prompts[before:])


@pytest.mark.parametrize("together", [True, False])
async def test_dozens_of_recited_memories_are_not_learnt_again(memories, together):
    stored = visits(70)
    await memories[0].add(SCOPE, ["The user's name is Grace Hopper.", *stored])
    said = [f"No problem, Grace: {to_you(text)[:-1]}, right?" for text in stored]
    news = "Your hotel in Quito burnt down."
    texts = ["\n".join((*said, news))] if together else [*said, news]
    asked = await heard(
        memories,
        Message(text="Where have I been?", event_id="u"),
        *(Message(text=text, role="agent", event_id=f"a{n}") for n, text in enumerate(texts)),
    )
    assert news in asked
    assert "visited" not in asked


async def test_our_own_labels_do_not_make_an_echo_new(memories):
    (stored,) = await memories[0].add(SCOPE, ["The user is allergic to plums."])
    asked = await heard(
        memories,
        Message(text="What can I eat?", event_id="u"),
        Message(text="On 6 May 2026 you told me that you are allergic to plums.", role="agent", event_id="a"),
        Message(text="[2026-05-06] You are allergic to plums.", role="agent", event_id="b"),
        Message(text="As of 2026-05-06, you are allergic to plums.", role="agent", event_id="c"),
        Message(text="You are allergic to plums since 7 May 2026.", role="agent", event_id="d"),
    )
    assert "7 May" in asked
    assert "6 May" not in asked
    assert "[2026-05-06]" not in asked
    assert stored


async def test_news_beside_a_known_booking_is_learnt(memories):
    await memories[0].add(SCOPE, ["The user has booked flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15."])
    asked = await heard(
        memories,
        Message(text="All well with my flight?", event_id="u"),
        Message(
            text="Flight LH 4711 from Oslo to Lima on 3 June 2026 at 9:15 is overbooked.", role="tool", event_id="t"
        ),
        Message(text="You have booked flight LH 4711 from Oslo to Lima on 3 June 2026.", role="agent", event_id="a"),
    )
    assert "is overbooked" in asked
    assert "You have booked" not in asked
