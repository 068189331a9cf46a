"""Summary providers: their input and output, and the provider that needs no model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from ..concurrency import LONG, run_in_thread
from ..errors import ConfigurationError
from ..language.tokenizer import is_question, normalised
from ..language.word_lists import all_words
from ..models.calls import has_async
from ..models.llm import Llm
from ..records import Fact, Memory, Message
from ..settings import MemorySettings
from .splitting import sentences_of

MAX_ACKNOWLEDGEMENT_WORDS = 3
MAX_ACKNOWLEDGEMENT_CHARS = 80
_ACKNOWLEDGING = frozenset(map(normalised, all_words("acknowledgements")))
_BETWEEN_WORDS = re.compile('[\\s,.:;!¡*"“”„«»()–—~、。।،☀-➿\ufe0f\u200d🌀-🫿]+')
# scripts without spaces between words
_UNSPACED = re.compile(r"([\u0e00-\u0eff\u3040-\u30ff\u4e00-\u9fff])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Sequence[Message]):
    """The new part of a session, as a sequence of its messages.

    Attributes:
        messages: the messages in order, with secrets masked and echoes of memory removed.
        session_id: the session.
        ended: True to summarize the session too: it has ended or become long.
        earlier: the last summary of the session and the memories learned since, oldest first; only
            for its next summary.
        slots: (subject, attribute) pairs of the scope's memories, newest first.
        llm: the model for a provider that has none of its own.
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
        """The messages with text, without compaction summaries."""
        return [message for message in self if message.text.strip() and message.compaction is None]


class SummaryProvider(Protocol):
    """Extracts facts from a transcript; any object with this method, and optionally a `name`.

    A provider that uses a model may have `needs_llm` (True if it uses the transcript's model
    because it has none) and `with_settings(settings)`, which opens its own.
    """

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return the facts worth keeping, possibly none.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used; the transcript is
                tried again later.
        """
        ...


def with_settings(provider: SummaryProvider, settings: MemorySettings) -> SummaryProvider:
    """Return the provider with its own model, if any, opened with these settings."""
    own = getattr(provider, "with_settings", None)
    return own(settings) if own else provider


def checked_provider(provider: SummaryProvider) -> SummaryProvider:
    """Return the provider.

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
    """Return True if the provider needs a model and has none."""
    return bool(getattr(provider, "needs_llm", False))


class PassthroughSummary:
    """Keep messages unchanged, each as one memory, including literal repeats.

    Every user turn is kept; a short answer ("Yes.") gets the question before it. An agent's
    acknowledgement ("Understood.") is left out.
    """

    name = "passthrough"

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return a fact for each message with text, without compaction summaries."""
        facts = (
            Fact(
                text=message.text,
                type="episodic",
                origin=message.role,
                author=message.author or None,
                event_ids=event_ids,
                happened_at=message.at,
                verbatim=True,
            )
            for message, event_ids in _kept(transcript)
        )
        return await run_in_thread(LONG, list, facts)


def _kept(transcript: Transcript) -> Iterator[tuple[Message, tuple[str, ...]]]:
    """Yield the turns to keep, each with the ids of its events."""
    before = Message(text="")
    for turn in transcript.said:
        message, events = turn, (turn,)
        answers = is_question(before.text)
        if turn.role == "user" and before.role == "agent" and answers and says_little(turn.text):
            asking = before.text.strip()
            *_, question = sentences_of(asking, len(asking))
            events = (before, turn)
            message = replace(turn, text=f"{question} {turn.text}")
        if answers or turn.role != "agent" or not acknowledges(turn.text):
            yield message, tuple(event.event_id for event in events if event.event_id)
        before = turn


def acknowledges(text: str) -> bool:
    """Return True for at most three words that only show that the speaker understood or agrees."""
    words = _few_words(normalised(text.replace("’", "'")))
    return bool(words) and _ACKNOWLEDGING.issuperset(words)


def says_little(text: str) -> bool:
    """Return True for at most three words that are no question and contain no number, name or
    symbol.
    """
    words = _few_words(_UNSPACED.sub(r" \1 ", text))
    plain = all(word.replace("'", "").replace("’", "").isalpha() for word in words)
    return bool(words) and plain and all(word == word.lower() for word in words[1:])


def _few_words(text: str) -> list[str]:
    """Return the words of a text; none of a question or of a text with more than three."""
    if len(text) > MAX_ACKNOWLEDGEMENT_CHARS or is_question(text):
        return []
    words = [*filter(None, _BETWEEN_WORDS.split(text))]
    return words if len(words) <= MAX_ACKNOWLEDGEMENT_WORDS else []
