import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.ingestion.summaries import LlmSummary
from kagent_memory.ingestion.summary_provider import (
    PassthroughSummary,
    Transcript,
    needs_llm,
    provider_name,
)
from kagent_memory.language.tokenizer import estimated_tokens
from kagent_memory.records import Fact, Message
from kagent_memory.testing import ScriptedLlm

NOW = datetime(2024, 5, 8, 12, 0, tzinfo=UTC)


def a_message(text: str, *, event="e1", minutes=0, **more: Any) -> Message:
    return Message(text=text, event_id=event, at=NOW + timedelta(minutes=minutes), **more)


def transcript(*messages, ended=False):
    return Transcript(messages=messages, session_id="s1", ended=ended, now=NOW)


def answering(*facts, **more):
    return ScriptedLlm(lambda prompt: {"facts": list(facts), **more})


async def facts_of(llm, *messages, ended=False, **options):
    return await LlmSummary(llm, **options).facts(transcript(*messages, ended=ended))


async def test_a_fact_keeps_its_type_topics_time_slot_and_sources():
    """A model's fact keeps its type, topics, time, slot and real sources, tidied."""
    slot: Any = {"subject": "Ada", "attribute": "home city"}
    llm = answering(
        {
            "text": "Ada  moved to Oslo.",
            "type": " Episodic ",
            "topics": ["Home", "home", "#Move"],
            "importance": 0.9,
            "happened_at": "2024-05-07",
            "sources": ["2", "[2]", "9"],
            **slot,
        }
    )
    messages = a_message("hi"), a_message("I moved to Oslo yesterday", event="e2", author="Ada")
    assert await facts_of(llm, *messages) == [
        Fact(
            "Ada moved to Oslo.",
            "episodic",
            ("home", "move"),
            importance=0.9,
            happened_at=datetime(2024, 5, 7, tzinfo=UTC),
            event_ids=("e2",),
            author="Ada",
            **slot,
        )
    ]


async def test_items_of_unknown_type_or_without_text_are_dropped(
    caplog: pytest.LogCaptureFixture,
):
    """An item without text or of unknown type is dropped, not quoted in the log, and
    those beside it are kept.
    """
    unfit = [{"text": "Ada", "type": "opinion"}, {"text": "  "}, {"text": None}, 7, None, ["x"]]
    facts = await facts_of(
        answering(*unfit, {"text": "kept", "type": " Episodic "}), a_message("x")
    )
    assert [fact.text for fact in facts] == ["kept"]
    assert "Left out 5 of a model's facts" in caplog.text
    assert "Ada" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("importance", 5, 1.0),
        ("importance", -1, 0.0),
        ("importance", "0.7", 0.7),
        *(("importance", odd, 0.5) for odd in ("high", "?", None, float("nan"), [])),
        ("happened_at", "2024-05-07T09:30:00Z", datetime(2024, 5, 7, 9, 30, tzinfo=UTC)),
        ("happened_at", "2024-05-07T09:30:00+02:00", datetime(2024, 5, 7, 7, 30, tzinfo=UTC)),
        ("happened_at", "2024-05", datetime(2024, 5, 1, tzinfo=UTC)),
        ("happened_at", "1999", datetime(1999, 1, 1, tzinfo=UTC)),
        *(
            ("happened_at", odd, NOW)
            for odd in ("yesterday", "0001-01-01", "9999-12-31T23:59:59-12:00", None)
        ),
        *(("subject", odd, None) for odd in ("", "u" * 200)),
        *(("attribute", odd, None) for odd in ("", "compaction:1.0")),
    ],
)
async def test_what_a_model_says_is_brought_into_its_bounds(name, value, expected):
    """Importance becomes a number from 0 to 1, by default 0.5; an impossible time becomes the time
    of the statement; an incomplete, reserved or long slot is left out.
    """
    item = {"text": "x", "subject": "user", "attribute": "city", name: value}
    (fact,) = await facts_of(answering(item), a_message("x"))
    assert getattr(fact, name) == expected
    assert (fact.subject is None) is (fact.attribute is None)


async def test_a_fact_that_a_tool_is_a_source_of_stays_the_tools():
    """A fact has the origin "tool" if a tool is among its sources, by default all messages."""
    llm = answering({"text": "x", "sources": [1, 2]}, {"text": "y", "sources": [1]}, {"text": "z"})
    facts = await facts_of(llm, a_message("a"), a_message("b", role="tool", event="e2"))
    assert [(fact.origin, fact.event_ids) for fact in facts] == [
        ("tool", ("e1", "e2")),
        ("user", ("e1",)),
        ("tool", ("e1", "e2")),
    ]


async def test_nothing_said_asks_no_model():
    """A session of blanks and compactions asks no model and makes no fact."""
    llm = answering({"text": "x"})
    summary = Message(text="a summary", compaction=(1.0, 2.0))
    assert await facts_of(llm, a_message("  "), summary, ended=True) == []
    assert llm.prompts == []


async def test_a_summary_takes_its_own_model_before_the_one_at_hand():
    """A summary uses its own model before the transcript's, and is refused without any."""
    with pytest.raises(ConfigurationError, match="llm="):
        await facts_of(None, a_message("x"))
    own, other = answering({"text": "own"}), answering({"text": "other"})
    at_hand = replace(transcript(a_message("x")), llm=other)
    for summary, needs, text in ((LlmSummary(), True, "other"), (LlmSummary(own), False, "own")):
        assert needs_llm(summary) is needs
        assert [fact.text for fact in await summary.facts(at_hand)] == [text]


async def test_wishes_examples_and_times_reach_the_prompt():
    """The prompt contains topics, excluded topics, examples, and each message with speaker and
    time; braces in a message are no placeholder.
    """
    llm = answering()
    options = {
        "topics": ["tea"],
        "exclude_topics": ["politics"],
        "examples": [("I drink Assam", ["Drinks Assam."])],
    }
    await facts_of(llm, a_message("The card says {now}", role="agent", author="helper"), **options)
    (prompt,) = llm.prompts
    for part in (
        "concerns: tea",
        "concerns: politics",
        "I drink Assam",
        "[1] 2024-05-08T12:00+00:00 agent helper: The card says {now}",
    ):
        assert part in prompt
    assert prompt.count("{") == 1


async def test_a_prompt_of_ones_own_gets_the_transcript():
    """A custom prompt is used and gets the transcript."""
    llm = answering()
    await facts_of(llm, a_message("hello"), prompt='Only names, as {"facts": []}.')
    assert llm.prompts[0].startswith('Only names, as {"facts": []}.')
    assert "<transcript>\n[1]" in llm.prompts[0]


async def test_a_long_transcript_is_split_between_messages():
    """A long transcript is split between messages in order and within the window."""
    messages = [
        a_message(f"Message {number}. " + "word " * 150, event=f"e{number}") for number in range(40)
    ]
    llm = ScriptedLlm(
        lambda prompt: {"facts": [{"text": prompt.split("Message ")[1][:3], "sources": ["1"]}]}
    )
    facts = await facts_of(llm, *messages, max_prompt_tokens=2500)
    assert 2 < len(llm.prompts) < 20
    assert all(estimated_tokens(prompt) <= 2500 for prompt in llm.prompts)
    shown = [int(n) for prompt in llm.prompts for n in re.findall(r"Message (\d+)\.", prompt)]
    assert shown == list(range(40))
    assert facts[1].event_ids == (f"e{facts[1].text.rstrip('. ')}",)


@pytest.mark.parametrize(
    "text", [("One long sentence " * 400 + "here. ") * 9, "x" * 60_000, "这是一个句子。" * 6000]
)
async def test_a_huge_message_is_cut_between_sentences(text):
    """A huge message is cut between sentences and loses nothing."""
    llm = answering()
    await facts_of(llm, a_message(text), max_prompt_tokens=4000)
    assert all(estimated_tokens(prompt) <= 4000 for prompt in llm.prompts)
    bodies = [prompt.split("user: ")[1].rsplit("\n</transcript>")[0] for prompt in llm.prompts]
    assert "".join("".join(bodies).split()) == "".join(text.split())
    if ". " in text:
        assert all(body.endswith(".") for body in bodies)


async def test_the_end_of_a_session_gives_one_summary():
    """The end of a session gives one episodic summary over all parts."""
    messages = [
        a_message(f"Message {number}. " + "word " * 300, event=f"e{number}") for number in range(10)
    ]
    numbers = iter(range(100))
    llm = ScriptedLlm(lambda prompt: {"facts": [], "summary": f"Summary {next(numbers)}."})
    (fact,) = await facts_of(llm, *messages, ended=True, max_prompt_tokens=2500)
    assert len(llm.prompts) > 1
    assert "<earlier>\nSummary 0.\n</earlier>" in llm.prompts[1]
    assert fact.text == f"Summary {len(llm.prompts) - 1}."
    assert (fact.type, fact.origin, len(fact.event_ids)) == ("episodic", "agent", 10)
    assert "summary" not in (await facts_of(answering(), *messages[:1]))


async def turns_of(*turns):
    said_turns = [
        a_message(text, role=role, event=f"e{n}", author=role)
        for n, (role, text) in enumerate(turns)
    ]
    return await PassthroughSummary().facts(transcript(*said_turns))


async def test_turns_are_kept_word_for_word():
    """Turns are kept word for word and the same words twice are two turns."""
    turns = await turns_of(("user", "I eat no meat"), ("agent", "I eat no meat"), ("user", " "))
    assert [(turn.text, turn.origin, turn.author, turn.event_ids) for turn in turns] == [
        ("I eat no meat", role, role, (event,)) for role, event in (("user", "e0"), ("agent", "e1"))
    ]
    assert {(turn.verbatim, turn.type, turn.happened_at) for turn in turns} == {
        (True, "episodic", NOW)
    }


ACKNOWLEDGEMENTS = [
    "¡Entendido!",
    "**Ok** – got it!",
    "Βεβαίως.",
    "好的。",
    "D'accord, merci !",
    "Sure thing! 👍",
    "了解です。",
]
TELLING = [
    "Room 12.",
    "Ask Grace.",
    "Flight cancelled.",
    "Why not?",
    "All is well now.",
    "Kubernetes.",
    "Graz, probably.",
    "Yes, Kafka.",
    "北京。",
]


@pytest.mark.parametrize("a_message", [*ACKNOWLEDGEMENTS, *TELLING])
async def test_an_agents_acknowledgement_is_not_kept(a_message):
    """An agent's acknowledgement is left out; short turns with content and all turns of users are
    kept.
    """
    turns = await turns_of(
        ("user", "Please cancel my flight, it is late."), ("agent", a_message), ("user", a_message)
    )
    assert [turn.text for turn in turns[1:]] == [a_message] * (1 + (a_message in TELLING))


async def test_a_short_answer_is_kept_and_a_users_with_its_question():
    """A user's bare answer is kept with the question that it answers, and the events of both."""
    book, when = "Noted. Shall I book a table at 寿司大？", "When does it open?"
    turns = await turns_of(("agent", book), ("user", "Yes."), ("user", when), ("agent", "Soon."))
    texts = [book, "Shall I book a table at 寿司大？ Yes.", when, "Soon."]
    assert [turn.text for turn in turns] == texts
    assert (turns[1].origin, turns[1].event_ids) == ("user", ("e0", "e1"))


def test_a_provider_without_a_name_is_called_by_its_class():
    """A summary provider without a name has the name of its class."""

    class Mine:
        async def facts(self, transcript):
            return []

    assert provider_name(Mine()) == "Mine"
    assert provider_name(LlmSummary()) == "llm"
