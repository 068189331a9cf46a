"""Summaries that ADK has made already, used again instead of paid for again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ..llm import Llm
from ..records import Fact, Message
from .llm import LlmSummary
from .transcript import SummaryProvider, Transcript, bind, checked_provider, needs_llm, provider_name

COMPACTION_IMPORTANCE = 0.6


class CompactionAwareSummary:
    """ADK's compaction summaries as episodic memories; `inner` only for what they do not cover.

    A summary fills the slot (session, its start), so that a longer one of the same start takes the place of the
    shorter.

    Args:
        inner: for the remainder; None: `LlmSummary()`.

    Raises:
        ConfigurationError: `inner` has no async method `facts`.
    """

    def __init__(self, inner: SummaryProvider | None = None) -> None:
        self._inner = LlmSummary() if inner is None else checked_provider(inner)

    @property
    def name(self) -> str:
        """What jobs call it: by what it does with the remainder."""
        return f"compaction-aware+{provider_name(self._inner)}"

    @property
    def needs_llm(self) -> bool:
        """Whether the inner provider has to be given a model."""
        return needs_llm(self._inner)

    def bind(self, llm: Llm) -> CompactionAwareSummary:
        """The same with this model for the remainder."""
        return CompactionAwareSummary(bind(self._inner, llm))

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """One fact per surviving summary, and the inner provider's of the remainder; no remainder, no call.

        Raises:
            ModelError: the inner provider's.
        """
        summaries = _surviving([message for message in transcript if message.compaction])
        said = [message for message in transcript if not message.compaction]
        rest = [message for message in said if not any(_covers(summary, message) for summary in summaries)]
        facts = [_fact(summary, said, transcript) for summary in summaries]
        if any(message.text.strip() for message in rest):
            facts += await self._inner.facts(transcript.of(rest))
        return facts


def _surviving(summaries: Sequence[Message]) -> list[Message]:
    """Those whose range no other one holds; of equal ranges the last."""
    kept: list[Message] = []
    for summary in reversed([summary for summary in summaries if summary.text.strip()]):
        if not any(_holds(other, summary) for other in kept):
            kept = [other for other in kept if not _holds(summary, other)] + [summary]
    return sorted(kept, key=_range)


def _range(summary: Message) -> tuple[float, float]:
    return summary.compaction or (0.0, -1.0)


def _holds(outer: Message, inner: Message) -> bool:
    return _range(outer)[0] <= _range(inner)[0] and _range(inner)[1] <= _range(outer)[1]


def _covers(summary: Message, message: Message) -> bool:
    start, end = _range(summary)
    return message.at is not None and start <= message.at.timestamp() <= end


def _fact(summary: Message, said: Sequence[Message], transcript: Transcript) -> Fact:
    start, end = _range(summary)
    covered = (message.event_id for message in said if _covers(summary, message))
    return Fact(
        text=summary.text.strip(),
        type="episodic",
        importance=COMPACTION_IMPORTANCE,
        origin="agent",
        session_id=transcript.session_id or None,
        event_ids=tuple(dict.fromkeys(filter(None, (summary.event_id, *covered)))),
        subject=transcript.session_id or "session",
        attribute=f"compaction:{start!r}",
        metadata={"compaction": [start, end]},
        happened_at=datetime.fromtimestamp(end, UTC),
    )
