"""Summary providers: what they are given and return, and the one that works without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from ..errors import ConfigurationError
from ..language.tokenizer import EDGES, is_question, tokens
from ..models.calls import has_async
from ..models.llm import Llm
from ..records import Fact, Memory, MemoryType, Message
from ..settings import MemorySettings
from .splitting import SENTENCE_END

MAX_ACKNOWLEDGEMENT_WORDS = 3
MAX_ACKNOWLEDGEMENT_CHARS = 80
# scripts whose words have no spaces between
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u3040-\u30ff\u4e00-\u9fff])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Sequence[Message]):
    """The part of a session that was not taken in yet; a sequence of its messages.

    Attributes:
        messages: in order; secrets masked, and without what memory itself had said.
        session_id: the session they belong to.
        ended: the session is over, or has become long: one episodic summary of it is wanted too.
        earlier: the last summary of the session and what was learnt in it since, oldest first; for
            its next summary only.
        slots: (subject, attribute) pairs that the scope's memories state, the newest first.
        llm: the model at hand, for a provider that has none of its own.
        now: the time of the extraction (aware UTC).
    """

    messages: Sequence[Message]
    session_id: str = ""
    ended: bool = False
    earlier: tuple[Memory, ...] = ()
    slots: tuple[tuple[str, str], ...] = ()
    llm: Llm | None = None
    now: datetime

    def __getitem__(self, index: Any) -> Any:
        messages: Any = self.messages
        return messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def said(self) -> list[Message]:
        """The messages that say something; compaction summaries are none."""
        return [message for message in self if message.text.strip() and message.compaction is None]

    def of(self, messages: Sequence[Message]) -> Transcript:
        """Return the same session with other messages."""
        return replace(self, messages=messages)


class SummaryProvider(Protocol):
    """Turns a transcript into facts. Any object with this method will do; a `name` is used when it
    has one.

    One that works with a model may have `needs_llm` (True while it lacks one and takes that of the
    transcript) and `with_settings(settings)`, which opens its own.
    """

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return what is worth keeping of the transcript; nothing is a good answer.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used; the transcript is
                tried again later.
        """
        ...


def with_settings(provider: SummaryProvider, settings: MemorySettings) -> SummaryProvider:
    """Return the provider with its own model, if any, opened by these settings."""
    own = getattr(provider, "with_settings", None)
    return own(settings) if own else provider


def checked_provider(provider: SummaryProvider) -> SummaryProvider:
    """Return the provider itself.

    Raises:
        ConfigurationError: it has no async method `facts`.
    """
    if not has_async(provider, "facts"):
        raise ConfigurationError(
            "summary takes LlmSummary(…), PassthroughSummary(), CompactionAwareSummary(…), or "
            "an object with `async facts(transcript)`; not "
            f"{getattr(provider, '__name__', type(provider).__name__)}."
        )
    return provider


def provider_name(provider: SummaryProvider) -> str:
    """Return the provider's `name` if it has one, else the name of its class."""
    name = getattr(provider, "name", None)
    return name if isinstance(name, str) and name else type(provider).__name__


def needs_llm(provider: SummaryProvider) -> bool:
    """Return True if the provider cannot work before it is given a model."""
    return bool(getattr(provider, "needs_llm", False))


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
                event_ids=event_ids,
                happened_at=message.at,
                verbatim=True,
            )
            for message, event_ids in _kept(transcript)
        ]


def _kept(transcript: Transcript) -> Iterator[tuple[Message, tuple[str, ...]]]:
    """Yield the turns that are kept, each with the ids of the events that it comes from."""
    said = transcript.said
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
