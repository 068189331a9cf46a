"""Split a long transcript, in order and between messages, into parts that fit a model's window."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from ..language.tokenizer import estimated_tokens
from ..models.prompts import batches
from ..records import Message

_NO_TITLE = r"(?<!\b(?:Dr|Mr|Ms|St|Sr)\.)(?<!\bM\.)(?<!\b(?:Mrs|Sra|Dra)\.)(?<!\bProf\.)"
_SENTENCE_END = re.compile(
    rf"(?<=[.!?…]){_NO_TITLE}"
    # a day of a month: "am 4. November", "vom 3. bis 10. August"
    r"(?!(?<=\d\.)(?<!\d{3}\.)\s(?:[a-zäöü]|(?:J[aä]n(?:uar|ner)?|Feb(?:ruar)?|März?|Apr(?:il)?|"
    r"Mai|Ju[nl]i?|Aug(?:ust)?|Sept?(?:ember)?|Okt(?:ober)?|Nov(?:ember)?|Dez(?:ember)?)\b))"
    r"\s+|(?<=[。！？])|\n+"
)
MESSAGE_TOKENS = 16  # the number, time and speaker before each message
MAX_SENTENCE_CHARS = 500


def parts(messages: Sequence[Message], most_tokens: int) -> list[list[Message]]:
    """Return the messages in as few parts as `most_tokens` allows, with longer messages cut between
    sentences.
    """
    cut = (
        message if piece == message.text else replace(message, text=piece)
        for message in messages
        for piece in pieces(message.text, most_tokens - MESSAGE_TOKENS)
    )
    return list(batches(cut, _cost, most_tokens))


def halves(part: Sequence[Message]) -> list[list[Message]]:
    """Return a part in two or three of about half its length; a short part stays whole."""
    return parts(part, sum(map(_cost, part)) // 2 + MESSAGE_TOKENS)


def _cost(message: Message) -> int:
    return estimated_tokens(message.text) + MESSAGE_TOKENS


def pieces(text: str, most_tokens: int) -> Iterator[str]:
    """Yield the text in as few pieces as `most_tokens` allows, cut between sentences."""
    if estimated_tokens(text) <= most_tokens:
        yield text
        return
    fitting = (
        piece
        for sentence in sentences_of(text, len(text))
        for piece in (
            [sentence]
            if estimated_tokens(sentence) <= most_tokens
            # a character is never more than one token
            else sentences_of(sentence, max(most_tokens, 1))
        )
    )
    joined = map("".join, batches(fitting, estimated_tokens, most_tokens))
    yield from filter(None, map(str.strip, joined))


def sentences_of(text: str, most_chars: int = MAX_SENTENCE_CHARS) -> Iterator[str]:
    """Yield the sentences with the white space after them; cut sentences over `most_chars`."""
    for start, end in pairwise(
        (0, *(match.end() for match in _SENTENCE_END.finditer(text)), len(text))
    ):
        while end - start > most_chars:
            cut = text.rfind(" ", start, start + most_chars) + 1 or start + most_chars
            yield text[start:cut]
            start = cut
        if start < end:
            yield text[start:end]
