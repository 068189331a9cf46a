"""Turns kept as they were said, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...language.tokenizer import EDGES, is_question, tokens
from ...records import Fact, MemoryType, Message
from ..splitting import SENTENCE_END
from .transcript import Transcript

MAX_ACKNOWLEDGEMENT_WORDS = 3
MAX_ACKNOWLEDGEMENT_CHARS = 80
# scripts whose words have no spaces between
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u3040-\u30ff\u4e00-\u9fff])")


class PassthroughSummary:
    """Keep messages word for word, each as one memory; the same words said twice are two memories.

    Every user turn is kept, a short answer ("Yes.") with the question that it answers. An agent's
    acknowledgement ("Understood.") is left out.
    """

    name = "passthrough"

    def __init__(self, type: MemoryType = "episodic"):
        self.type: MemoryType = type

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return a fact for each message that says something.

        Compaction summaries are not turns and are left out.
        """
        return [
            Fact(
                text=message.text,
                type=self.type,
                origin=message.role,
                author=message.author or None,
                session_id=transcript.session_id or None,
                event_ids=event_ids,
                happened_at=message.at,
                verbatim=True,
            )
            for message, event_ids in _kept(transcript)
        ]


def _kept(transcript: Transcript) -> Iterator[tuple[Message, tuple[str, ...]]]:
    """Yield the turns that are kept, each with the ids of the events that it comes from."""
    said = [
        message for message in transcript if message.text.strip() and message.compaction is None
    ]
    short = {number for number, message in enumerate(said) if says_little(message.text)}
    telling = (message.text for number, message in enumerate(said) if number not in short)
    topics = (
        frozenset(term for text in telling for term in tokens(text)) if short else frozenset[str]()
    )
    before = Message(text="")
    for number, message in enumerate(said):
        events = (message,)
        is_answer = number in short and is_question(before.text)
        if message.role == "user" and before.role == "agent" and is_answer:
            question = SENTENCE_END.split(before.text.strip())[-1]
            events = (before, message)
            message = replace(message, text=f"{question} {message.text}")
        is_idle = (
            number in short and message.role == "agent" and topics.isdisjoint(tokens(message.text))
        )
        if is_answer or not is_idle:
            yield message, tuple(event.event_id for event in events if event.event_id)
        before = said[number]


def says_little(text: str) -> bool:
    """Return True for at most three words without a number, a name or a symbol, and no question."""
    if len(text) > MAX_ACKNOWLEDGEMENT_CHARS:
        return False
    words = [word for chunk in _UNSPACED.sub(r" \1 ", text).split() if (word := chunk.strip(EDGES))]
    plain = all(word.replace("'", "").replace("’", "").isalpha() for word in words)
    names = any(word != word.lower() for word in words[1:])
    few = 0 < len(words) <= MAX_ACKNOWLEDGEMENT_WORDS
    return few and plain and not names and not is_question(text)
