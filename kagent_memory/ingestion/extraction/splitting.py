"""A long transcript in parts that fit a model's window: in order, cut between messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...language.tokenizer import estimated_tokens, tokens_of
from ...records import Message

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])|\n+")
MESSAGE_TOKENS = 16  # the number, time and speaker that stand before each message
LEAST_HALF_TOKENS = 64


def parts(messages: Sequence[Message], most_tokens: int) -> list[list[Message]]:
    """The messages in as few parts as `most_tokens` allows; one that is too long alone is cut between sentences."""
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
    """The part in two or three that are about half as long; none when it is too short for that."""
    cost = sum(estimated_tokens(message.text) + MESSAGE_TOKENS for message in part)
    smaller = parts(part, max(cost // 2 + MESSAGE_TOKENS, LEAST_HALF_TOKENS))
    return smaller if len(smaller) > 1 else []


def pieces(text: str, most_tokens: int) -> Iterator[str]:
    """The text in as few pieces as `most_tokens` allows, cut between sentences; itself when it fits."""
    if estimated_tokens(text) <= most_tokens:
        yield text
        return
    held: list[str] = []
    ascii_chars = others = 0
    for sentence in _sentences(text, most_tokens):
        plain = len(sentence.encode("ascii", "ignore"))
        if held and tokens_of(ascii_chars + plain, others + len(sentence) - plain) > most_tokens:
            yield "".join(held).strip()
            held, ascii_chars, others = [], 0, 0
        held.append(sentence)
        ascii_chars, others = ascii_chars + plain, others + len(sentence) - plain
    if rest := "".join(held).strip():
        yield rest


def _sentences(text: str, most_tokens: int) -> Iterator[str]:
    """The sentences with the white space behind them; what has no end is cut where it must be."""
    at = 0
    for end in (*(match.end() for match in SENTENCE_END.finditer(text)), len(text)):
        while end - at > 4 * most_tokens or estimated_tokens(text[at:end]) > most_tokens:
            fits = max(most_tokens, 1)  # as many characters as tokens always fit
            if estimated_tokens(text[at : min(end, at + fits * 4)]) <= fits:
                fits *= 4
            space = text.rfind(" ", at + 1, min(end, at + fits))
            cut = space + 1 if space > at + fits // 2 else at + fits
            yield text[at:cut]
            at = cut
        if at < end:
            yield text[at:end]
            at = end
