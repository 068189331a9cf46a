"""What a summary provider is given, and what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, overload

from ...errors import ConfigurationError
from ...models.calls import plainly_sync
from ...models.llm import Llm
from ...records import Fact, Message
from ...settings import MemorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Sequence[Message]):
    """The part of a session that was not taken in yet; a sequence of its messages.

    Attributes:
        messages: in order; secrets masked, and without what memory itself had said.
        session_id: the session they belong to.
        ended: the session is over: one episodic summary of it is wanted too.
        earlier: what was taken in of the session before, oldest first; for the summary only.
        slots: (subject, attribute) pairs that the scope's memories state, the newest first.
        now: the time of the extraction (aware UTC).
    """

    messages: Sequence[Message]
    session_id: str = ""
    ended: bool = False
    earlier: tuple[str, ...] = ()
    slots: tuple[tuple[str, str], ...] = ()
    now: datetime

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self.messages[index]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def of(self, messages: Sequence[Message], *, ended: bool | None = None) -> Transcript:
        """Return the same session with other messages."""
        return replace(self, messages=messages, ended=self.ended if ended is None else ended)


class SummaryProvider(Protocol):
    """Turns a transcript into facts. Any object with this method will do; a `name` is used when it
    has one.

    One that works with a model may have `needs_llm` (True while it lacks one), `bind(llm)`, which
    returns the same provider with that model, and `with_settings(settings)`, which opens its own.
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
    facts = getattr(provider, "facts", None)
    if isinstance(provider, type) or not callable(facts) or plainly_sync(facts):
        kind = (
            f"the class {provider.__name__}"
            if isinstance(provider, type)
            else type(provider).__name__
        )
        raise ConfigurationError(
            "summary takes LlmSummary(…), PassthroughSummary(), CompactionAwareSummary(…), or "
            "an object with "
            f"`async facts(transcript)`; not {kind}."
        )
    return provider


def provider_name(provider: SummaryProvider) -> str:
    """Return the provider's `name` if it has one, else the name of its class."""
    name = getattr(provider, "name", None)
    return name if isinstance(name, str) and name else type(provider).__name__


def needs_llm(provider: SummaryProvider) -> bool:
    """Return True if the provider cannot work before it is given a model."""
    return bool(getattr(provider, "needs_llm", False))


def bind(provider: SummaryProvider, llm: Llm | None) -> SummaryProvider:
    """Return the provider with `llm` filled in where it lacks a model."""
    own = getattr(provider, "bind", None)
    return own(llm) if own and llm is not None else provider
