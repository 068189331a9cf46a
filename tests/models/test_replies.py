"""Parse a model's text into the requested object."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from kagent_memory.errors import ModelError, TruncatedAnswer
from kagent_memory.ingestion.answers import ExtractedSession
from kagent_memory.models.llm import CheckedLlm
from kagent_memory.models.replies import json_prompt, parse_answer, to_schema
from kagent_memory.settings import MemorySettings


class Facts(BaseModel):
    facts: list[str]


class Lenient(BaseModel):
    facts: list[str] = Field(default_factory=list)
    note: str = ""


@pytest.mark.parametrize(
    "text",
    [
        '{"facts": ["likes tea"]}',
        '  \n{"facts": ["likes tea"]}\n\n',
        'Here you are:\n```json\n{"facts": ["likes tea"]}\n```\nAnything else?',
        'Sure! ```json\n{"facts": ["likes tea"]}\n```',
        '```\n{"facts": ["likes tea"]}\n```',
        '```json\n["likes tea"]\n```',
        '```JSON\n{"facts": ["likes tea"]}',
        '```json\n{"facts": ["likes tea"]}\n```\nOr again:\n```\n{"facts": ["likes tea"]}\n```',
        '<think>{"facts": ["a wrong thought"]}</think>{"facts": ["likes tea"]}',
        '<think>no</think>\nWell:\n```json\n{"facts": ["likes tea"]}\n```',
        'They said [1] and {"facts": ["a thought"]} …</think>\n\n{"facts": ["likes tea"]}',
        '```json\n{"facts": []}\n```\nIs that all?</think>{"facts": ["likes tea"]}',
        '[THINK]{"facts": []}[/THINK]{"facts": ["likes tea"]}',
        'The set {1, 2} and [3] are no answer. {"facts": ["likes tea"]}',
        'Here is the JSON:\n{"facts": ["likes tea"]}\nI left out the greeting.',
        '[] {"facts": ["likes tea"]}',
        '["likes tea"]',
    ],
)
def test_the_replys_own_json_is_taken(text: str):
    """The answer is found among thoughts, fences and remarks."""
    assert parse_answer(text, Facts).facts == ["likes tea"]


REFUSALS = [
    None,
    "   ",
    '{"facts": ["a",]}',
    '{"facts": "no list"}',
    "[]" * 5000,
    '{"facts": ["' + "x" * 3_000_000 + '"]}',
    "Sorry, I cannot help with message [1].",
    "I can't process [message 2] or [3, 4].",
    'I\'m sorry, but I can\'t help with ["message 1", "message 2"].',
    'I cannot do that. An example would be {"facts": []}.',
    'I cannot do that. An example would be {"facts": []}',
    "I cannot help.\n\n[]",
    'I cannot help: {"facts": []}',
    'Sorry, the text {"facts": ["the moon is mine"]} asks for what I may not do.',
    '{"error": "I am not allowed to", "messages": ["a"]}',
    '{"error": "refused"} {"facts": []}',
    '```json\n{"facts": []}\n```\nIs that all?\n</think>\nI cannot help.',
    '{"facts": ["a thought"]}\n</think>\nI cannot help.',
    '"{\\"facts\\": [\\"a\\"]}"',
    "null",
    "42",
    "[]]",
    "[null]",
    "[1, 2, 3]",
    "[" * 5000,
    '{"a":' * 5000,
]
FOREIGN = [
    '{"memories": ["likes tea"]}',
    '{"result": {"facts": ["likes tea"]}}',
    '{"properties": {"facts": ["likes tea"]}, "type": "object"}',
    '[{"facts": ["likes tea"]}]',
    '[[{"facts": ["likes tea"]}]]',
    '{"facts": {"1": "likes tea"}}',
    '{facts: ["likes tea"]}',
    '{facts: [{"facts": ["likes tea"]}]}',
    '{"facts": ["likes tea"]} {"facts": ["later"]}',
    '{"facts": ["likes tea"]}\n{"facts": ["later"]}',
    '```json\n{"facts": ["likes tea"]}\n```\n```json\n{"facts": ["later"]}\n```',
    "facts:\n- likes tea",
    "<facts><fact>likes tea</fact></facts>",
]
TRUNCATED = [
    '{"facts": ["cut off',
    '{"facts": ["whole", "cut off',
    '{"facts": ["whole", ["travel", "dog"], {"te',
    '{"facts": ["whole"]',
    '["whole", "cut',
    '```json\n{"facts": ["whole"',
    'Here you are: {"facts": ["whole", "a \\"quote',
    '{"facts": ["ends in an escape \\',
    "<think>never closed",
    '<think>never closed {"facts": ["a thought"]}',
    "{",
    '{"facts": ["' + '\\"' * 200_000,
]


@pytest.mark.parametrize("text", [*REFUSALS, *FOREIGN])
def test_what_is_not_the_models_own_answer_is_none(text: str | None):
    """A refusal, example, quotation or foreign shape is never taken for an answer."""
    with pytest.raises(ModelError):
        parse_answer(text, Facts)


@pytest.mark.parametrize("text", TRUNCATED)
def test_a_truncated_answer_is_no_answer(text: str):
    """Nothing of a truncated answer is used, and the error says that it was cut."""
    with pytest.raises(TruncatedAnswer):
        parse_answer(text, Facts)


def cuts(whole: str) -> list[str]:
    return [whole[:end] for end in range(1, len(whole) - 1)]


@pytest.mark.parametrize(
    "cut",
    [
        *cuts('{"facts": ["Zoe arrives", "topics: [travel, dog] {and} more"]}'),
        *cuts('```json\n["Zoe arrives", "Oslo"]\n```')[8:-3],
    ],
)
def test_wherever_an_answer_is_cut_it_is_no_answer(cut: str):
    """An answer truncated at any point is refused as a whole."""
    with pytest.raises(ModelError):
        parse_answer(cut, Facts)


def test_line_breaks_inside_strings_are_kept():
    """A raw line break inside a string is accepted and kept."""
    assert parse_answer('{"facts": ["two\nlines"]}', Facts).facts == ["two\nlines"]


def test_an_empty_list_that_was_said_is_an_answer():
    """A model's empty list is an answer, not a failure."""
    assert parse_answer('{"facts": []}', Facts).facts == []
    assert parse_answer("[]", Facts).facts == []


def test_a_list_serves_at_a_sessions_end_too():
    """A bare list of facts is an answer if only the facts are required."""
    answer = parse_answer('[{"text": "Likes tea."}, "Has a dog."]', ExtractedSession)
    assert [fact.text for fact in answer.facts] == ["Likes tea.", "Has a dog."]
    for foreign in ("[1]", '[{"memory": "Likes tea."}]', '[["Likes tea."]]'):
        with pytest.raises(ModelError):
            parse_answer(foreign, ExtractedSession)


@pytest.mark.parametrize("text", ["{}", '{"error": "I am not allowed to"}', "[]", '["a"]'])
def test_a_foreign_object_is_no_empty_answer(text: str):
    """An object without any requested field is not an empty answer."""
    with pytest.raises(ModelError, match="not JSON that fits Lenient"):
        parse_answer(text, Lenient)


def test_an_error_does_not_repeat_what_the_model_said():
    """The error about a reply contains nothing of its text."""
    with pytest.raises(ModelError) as caught:
        parse_answer("the user's card is 4111", Facts)
    assert "4111" not in str(caught.value)


def test_the_prompt_in_words_shows_the_schema():
    """The schema in words follows the prompt."""
    text: Any = json_prompt("What is known of {user}?", Facts)
    assert text.startswith("What is known of {user}?\n")
    assert '"facts"' in text


def test_tags_and_brackets_inside_texts_are_texts():
    """Tags, fences and brackets inside a string belong to the string."""
    facts = [
        "writes <think> and </think>",
        "```json\n[1]\n```",
        'a } and a ] and a " too',
        "[THINK]",
    ]
    assert parse_answer(json.dumps({"facts": facts}), Facts).facts == facts
    assert parse_answer(f"```json\n{json.dumps({'facts': facts})}\n```", Facts).facts == facts
    assert parse_answer(f"As asked:\n{json.dumps({'facts': facts})}", Facts).facts == facts


def test_half_a_character_is_replaced():
    """A lone surrogate becomes the replacement character."""
    text = r'{"facts": ["half of \ud83e", "whole \ud83e\udde0", "a literal \\ud83e"]}'
    assert parse_answer(text, Facts).facts == [
        "half of \ufffd",
        "whole \U0001f9e0",
        "a literal \\ud83e",
    ]


@pytest.mark.parametrize("answer", [{(1, 2): "x"}, {"facts": [object()]}, {"facts": [10**5000]}])
def test_what_json_cannot_hold_is_no_answer(answer: Any):
    """An answer of a user's model that is not JSON is refused like a foreign shape."""
    with pytest.raises(ModelError, match="does not fit Facts"):
        to_schema(answer, Facts, "The model m")


async def test_a_long_reply_is_read_beside_the_event_loop():
    """A long reply is parsed off the event loop."""
    facts = [f"fact number {number}" for number in range(60_000)]
    reply = json.dumps({"facts": facts})

    class Long:
        name = "long"

        async def complete(self, prompt: str, *, schema: type[Facts]) -> str:
            return reply

    task = asyncio.create_task(CheckedLlm(Long(), MemorySettings()).complete("?", schema=Facts))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0)
        ticks += 1
    assert (await task).facts == facts
    assert ticks > 2
