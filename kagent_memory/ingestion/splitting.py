"""A long transcript in parts that fit a model's window: in order, cut between messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ..language.tokenizer import estimated_tokens
from ..records import Message

_NO_TITLE = r"(?<!\b(?:Dr|Mr|Ms|St|Sr)\.)(?<!\bMrs\.)(?<!\bProf\.)"
SENTENCE_END = re.compile(rf"(?<=[.!?…]){_NO_TITLE}\s+|(?<=[。！？])|\n+")
MESSAGE_TOKENS = 16  # the number, time and speaker that stand before each message
MIN_HALF_TOKENS = 64
MAX_SENTENCE_CHARS = 500


def parts(messages: Sequence[Message], most_tokens: int) -> list[list[Message]]:
    """Return the messages in as few parts as `most_tokens` allows; cut a too long one between
    sentences.
    """
    done: list[list[Message]] = []
    used = most_tokens + 1
    for message in messages:
        for piece in pieces(message.text, most_tokens - MESSAGE_TOKENS):
            cost = estimated_tokens(piece) + MESSAGE_TOKENS
            if used + cost > most_tokens:
                done.append([])
                used = 0
            done[-1].append(message if piece == message.text else replace(message, text=piece))
            used += cost
    return done


def halves(part: Sequence[Message]) -> list[list[Message]]:
    """Return the part in two or three of about half its length; none if it is too short."""
    cost = sum(estimated_tokens(message.text) + MESSAGE_TOKENS for message in part)
    smaller = parts(part, max(cost // 2 + MESSAGE_TOKENS, MIN_HALF_TOKENS))
    return smaller if len(smaller) > 1 else []


def pieces(text: str, most_tokens: int) -> Iterator[str]:
    """Yield the text in as few pieces as `most_tokens` allows, cut between sentences."""
    if estimated_tokens(text) <= most_tokens:
        yield text
        return
    sentences: list[str] = []
    used = 0
    for sentence in _fitting(text, max(most_tokens, 1)):
        cost = estimated_tokens(sentence)
        if sentences and used + cost > most_tokens:
            yield "".join(sentences).strip()
            sentences, used = [], 0
        sentences.append(sentence)
        used += cost
    if rest := "".join(sentences).strip():
        yield rest


def _fitting(text: str, most_tokens: int) -> Iterator[str]:
    """Yield the sentences; what has no end is cut where it must be."""
    for sentence in sentences_of(text, 4 * most_tokens):
        # as many characters as tokens always fit
        fits = estimated_tokens(sentence) <= most_tokens
        yield from (sentence,) if fits else sentences_of(sentence, most_tokens)


def sentences_of(text: str, most_chars: int = MAX_SENTENCE_CHARS) -> Iterator[str]:
    """Yield the sentences with the white space behind them; what is too long to be one, in
    parts.
    """
    for start, end in pairwise(
        (0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text))
    ):
        while end - start > most_chars:
            cut = text.rfind(" ", start, start + most_chars) + 1 or start + most_chars
            yield text[start:cut]
            start = cut
        if start < end:
            yield text[start:end]
