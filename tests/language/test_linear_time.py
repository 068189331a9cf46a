"""Reading a text from strangers takes time in proportion to its length."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from kagent_memory.errors import ModelError
from kagent_memory.language.dates import asks_when, bare_dates, named_spans
from kagent_memory.language.follow_ups import complete
from kagent_memory.language.passages import passage
from kagent_memory.language.preferences import states_preference
from kagent_memory.language.tokenizer import index_terms, query_terms
from kagent_memory.language.word_forms import word_forms
from kagent_memory.models.prompts.escaping import escaped, unescaped
from kagent_memory.models.prompts.fence import without_fenced
from kagent_memory.models.replies import parse_answer
from kagent_memory.redaction import redact
from kagent_memory.retrieval.query import WordGate

SIZE = 30_000  # characters
SECONDS = 0.5  # what is linear takes a third of it at most, what is quadratic half as much again


class Answer(BaseModel):
    facts: list[str]


def parsed(text: str) -> None:
    with suppress(ModelError):
        parse_answer(text, Answer)


READERS: Sequence[Callable[[str], object]] = [
    redact,
    index_terms,
    query_terms,
    word_forms,
    states_preference,
    asks_when,
    bare_dates,
    escaped,
    unescaped,
    without_fenced,
    parsed,
    WordGate().searches,
    lambda text: named_spans(text, datetime(2026, 5, 6, tzinfo=UTC)),
    lambda text: complete(text, [text]),
    lambda text: passage(text, text[:1_000], max_tokens=100),
]

PIECES = [
    *"aA0 \n.,-_/<{[\"'`#:&\u4e00\u0301İé",
    *("1/", "a-", "a.", "A1", "a\n", "<a", '{"a":', "://a:b", "。", "ok ", "not ", "may "),
    *("Anna ", "4111 ", "Hello. ", "in may 2024 ", "2024-01-01 ", "what is ", "password: "),
    *("bye ", "thanks a lot "),
    *("password='a", "eyJaaaaaaaa.", "role: ", "System: ", "[/inst ", "P_A_S_T "),
    *("<PAST_CONVERSATIONS>a", "</PAST_CONVERSATIONS>", "a@b.", "AKIA", "-----BEGIN ", "\\u0061"),
    *("```json\n", "{ ", "[x", "[ ", "</think>", "\n_-", "# \n", "system "),
]


@pytest.mark.parametrize("piece", PIECES, ids=repr)
def test_reading_takes_linear_time(piece: str):
    """30,000 characters of one piece, repeated, take every reader less than half a second."""
    text = piece * (SIZE // len(piece)) + "\0"
    for read in READERS:
        begin = time.process_time()
        read(text)
        assert time.process_time() - begin < SECONDS, read
