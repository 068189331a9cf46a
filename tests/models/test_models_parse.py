"""From a model's text to the wanted object."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field, RootModel

from kagent_memory.errors import ModelError
from kagent_memory.llm import json_prompt, parse_answer


class Facts(BaseModel):
    facts: list[str]


class Lenient(BaseModel):
    facts: list[str] = Field(default_factory=list)
    note: str = ""


class Named(BaseModel):
    facts: list[str] = Field(alias="keyFacts")


Names = RootModel[list[str]]


@pytest.mark.parametrize(
    "text",
    [
        '{"facts": ["likes tea"]}',
        'Here you are:\n```json\n{"facts": ["likes tea"]}\n```\nAnything else?',
        '```\n{"facts": ["likes tea"]}\n```',
        '<think>{"facts": ["a wrong thought"]}</think>{"facts": ["likes tea"]}',
        'The set {1, 2} and [3] are no answer. {"facts": ["likes tea"]}',
        '{"oops": 1} {"facts": ["likes tea"]} {"facts": ["later"]}',
        '{"result": {"facts": ["likes tea"]}}',
        '["likes tea"]',
        'Sure: ["likes tea"]',
        '[] {"facts": ["likes tea"]}',
    ],
)
def test_the_first_json_that_fits_is_taken(text: str) -> None:
    assert parse_answer(text, Facts).facts == ["likes tea"]


def test_line_breaks_inside_strings_are_kept() -> None:
    assert parse_answer('{"facts": ["two\nlines"]}', Facts).facts == ["two\nlines"]


def test_an_empty_list_that_was_said_is_an_answer() -> None:
    assert parse_answer('{"facts": []}', Facts).facts == []
    assert parse_answer("[]", Facts).facts == []


def test_aliases_and_root_models_are_understood() -> None:
    assert parse_answer('{"keyFacts": ["a"]}', Named).facts == ["a"]
    assert parse_answer('["a"]', Named).facts == ["a"]
    assert parse_answer('As asked: ["a", "b"]', Names).root == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "   ",
        "I cannot help with that.",
        '{"facts": ["cut off',
        '{"facts": ["a",]}',
        '{"facts": "no list"}',
        '{"facts": [1]}',
        "<think>never closed",
        "{" * 5000,
        "[" * 5000,
        '{"a":' * 5000,
    ],
)
def test_anything_else_is_a_model_error(text: str | None) -> None:
    with pytest.raises(ModelError):
        parse_answer(text, Facts)


@pytest.mark.parametrize("text", ["{}", '{"error": "I am not allowed to"}', "[]", '["a"]'])
def test_an_object_without_any_wanted_field_never_passes_for_an_empty_answer(text: str) -> None:
    with pytest.raises(ModelError, match="no JSON that fits Lenient"):
        parse_answer(text, Lenient)


def test_an_error_does_not_repeat_what_the_model_said() -> None:
    with pytest.raises(ModelError) as caught:
        parse_answer("the user's card is 4111", Facts)
    assert "4111" not in str(caught.value)


def test_the_prompt_in_words_keeps_the_prompt_first_and_shows_the_schema() -> None:
    text: Any = json_prompt("What is known of {user}?", Facts)
    assert text.startswith("What is known of {user}?\n")
    assert '"facts"' in text
