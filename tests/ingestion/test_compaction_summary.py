import math
import random
from datetime import UTC, datetime

import pytest
from adk.scripted import user_message
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction

from kagent_memory.adk.converter import messages
from kagent_memory.ingestion.summaries import CompactionAwareSummary
from kagent_memory.ingestion.summary_provider import PassthroughSummary, Transcript, needs_llm
from kagent_memory.records import Message
from kagent_memory.testing import ScriptedLlm

NOW = datetime(2024, 5, 8, tzinfo=UTC)


def turn(at):
    return Message(text=f"turn {at}", event_id=f"e{at}", at=datetime.fromtimestamp(at, UTC))


def summary(start, end, text="summary"):
    return Message(
        text=text, role="agent", event_id=f"c{start}-{end}", compaction=(float(start), float(end))
    )


def transcript(*messages, **more):
    return Transcript(messages=messages, session_id="s1", now=NOW, **more)


@pytest.fixture
def llm():
    return ScriptedLlm(lambda prompt: {"facts": [{"text": "from the rest"}], "summary": "all"})


async def test_a_covered_session_costs_no_call_and_its_remainder_one(llm):
    """Messages covered by a compaction cost no model call, and the remainder costs one."""
    provider = CompactionAwareSummary()
    turns = [turn(at) for at in range(1, 21)]
    (fact,) = await provider.facts(transcript(*turns, summary(1, 20), llm=llm))
    assert llm.prompts == []
    assert fact.event_ids[0] == "c1-20"
    assert len(fact.event_ids) == 21
    facts = await provider.facts(transcript(*turns, summary(1, 15), llm=llm))
    assert [fact.text for fact in facts] == ["summary", "from the rest"]
    assert len(llm.prompts) == 1
    assert "turn 16" in llm.prompts[0]
    assert "turn 15" not in llm.prompts[0]


async def test_a_longer_summary_takes_the_shorter_ones_place():
    """A longer summary of the same start takes the shorter one's place."""
    provider = CompactionAwareSummary(PassthroughSummary())
    ranges = (
        summary(1, 4, "a"),
        summary(1, 8, "b"),
        summary(2, 6, "c"),
        summary(7, 12, "d"),
        summary(7, 12, "e"),
    )
    facts = await provider.facts(transcript(*ranges))
    assert [(fact.text, fact.attribute) for fact in facts] == [
        ("b", "compaction:1.0"),
        ("e", "compaction:7.0"),
    ]
    assert {(fact.subject, fact.type, fact.verbatim) for fact in facts} == {
        ("s1", "episodic", False)
    }


async def test_without_summaries_it_is_its_inner_provider():
    """A session without compactions is summarised by the inner provider alone."""
    provider = CompactionAwareSummary(PassthroughSummary())
    assert not needs_llm(provider)
    assert needs_llm(CompactionAwareSummary())
    assert [fact.text for fact in await provider.facts(transcript(turn(1), turn(2)))] == [
        "turn 1",
        "turn 2",
    ]
    assert await provider.facts(transcript()) == []


async def test_turns_outside_of_ranges_are_not_covered():
    """Turns before, between and without a time are not covered."""
    provider = CompactionAwareSummary(PassthroughSummary())
    untimed = Message(text="no time", event_id="x")
    facts = await provider.facts(
        transcript(turn(1), turn(3), turn(5), untimed, summary(2, 4), summary(6, 7))
    )
    assert [fact.text for fact in facts] == ["summary", "summary", "turn 1", "turn 5", "no time"]


def event(text, at, compaction=None):
    content = user_message(text)
    actions = EventActions()
    if compaction:
        start, end = compaction
        actions.compaction = EventCompaction(
            start_timestamp=start, end_timestamp=end, compacted_content=content
        )
    return Event(
        author="user", content=None if compaction else content, timestamp=at, actions=actions
    )


def cut_to_microseconds(at):
    return math.floor(at * 1e6) / 1e6


def rounded_to_microseconds(at):
    return datetime.fromtimestamp(at, UTC).timestamp()


@pytest.mark.parametrize("rounded", [float, cut_to_microseconds, rounded_to_microseconds])
async def test_the_ends_of_a_range_are_covered(rounded):
    """The first and the last turn of a range are covered whatever their fractions."""
    chance = random.Random(8)
    provider = CompactionAwareSummary(PassthroughSummary())
    for step in (1e-5, 1e-3, 1.0, 900.0) * 50:
        at = chance.uniform(1e6, 2e9)
        times = [at := at + step * chance.uniform(1, 9) for _ in range(4)]
        turns = [event(f"turn {number}", rounded(at)) for number, at in enumerate(times)]
        compacted = event("summary", times[-1] + 1, (times[1], times[2]))
        facts = await provider.facts(transcript(*messages([*turns, compacted])))
        assert [fact.text for fact in facts] == ["summary", "turn 0", "turn 3"], times
