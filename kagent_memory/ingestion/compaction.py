"""Summaries that ADK has made already, used again instead of paid for again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from ..models.llm import Llm
from ..records import Fact
from ..settings import MemorySettings
from .llm_summary import LlmSummary
from .summary_provider import (
    SummaryProvider,
    Transcript,
    bind,
    checked_provider,
    needs_llm,
    provider_name,
    with_settings,
)

COMPACTION_IMPORTANCE = 0.6
REUSING = "compaction-aware"


class CompactionAwareSummary:
    """ADK's compaction summaries as episodic memories; `inner` only for what they do not cover.

    A summary fills the slot (session, its start), so that a longer one of the same start takes the
    place of the shorter.

    Args:
        inner: for the remainder; None: `LlmSummary()`.

    Raises:
        ConfigurationError: `inner` has no async method `facts`.
    """

    def __init__(self, inner: SummaryProvider | None = None) -> None:
        self._inner = LlmSummary() if inner is None else checked_provider(inner)

    @property
    def name(self) -> str:
        """Return the name that jobs know it by."""
        return f"{REUSING}+{provider_name(self._inner)}"

    @property
    def needs_llm(self) -> bool:
        """Return True if the inner provider has to be given a model."""
        return needs_llm(self._inner)

    @property
    def keeps_turns(self) -> bool:
        """Return True if turns are kept beside the inner provider's facts."""
        return bool(getattr(self._inner, "keeps_turns", False))

    def bind(self, llm: Llm) -> CompactionAwareSummary:
        """Return the same provider with this model for the remainder."""
        return CompactionAwareSummary(bind(self._inner, llm))

    def with_settings(self, settings: MemorySettings) -> CompactionAwareSummary:
        """Return the same provider with the inner one's model opened by these settings."""
        return CompactionAwareSummary(with_settings(self._inner, settings))

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return a fact for each surviving summary, and the inner provider's facts of the
        remainder.

        Raises:
            ModelError: the inner provider's.
        """
        said = [message for message in transcript if not message.compaction]
        rest = said
        facts: list[Fact] = []
        latest = -math.inf
        summaries = [
            (*one.compaction, one)
            for one in reversed(transcript)
            if one.compaction and one.text.strip()
        ]
        for start, end, summary in sorted(summaries, key=lambda one: (one[0], -one[1])):
            if end <= latest:  # its range is within another one's, or just that of a later summary
                continue
            latest = end
            # messages tell their times in microseconds, cut by some session services and rounded by
            # others
            first = datetime.fromtimestamp(start, UTC) - timedelta(microseconds=1)
            last = datetime.fromtimestamp(end, UTC)
            within = [one for one in said if one.at is not None and first <= one.at <= last]
            covered = [summary, *within]
            rest = [one for one in rest if one.at is None or not first <= one.at <= last]
            fact = Fact(
                text=summary.text.strip(),
                type="episodic",
                importance=COMPACTION_IMPORTANCE,
                origin="tool" if any(one.role == "tool" for one in covered) else "agent",
                session_id=transcript.session_id or None,
                event_ids=tuple(dict.fromkeys(filter(None, (one.event_id for one in covered)))),
                subject=transcript.session_id or "session",
                attribute=f"compaction:{start!r}",
                metadata={"compaction": [start, end]},
                happened_at=last,
            )
            facts.append(fact)
        if any(message.text.strip() for message in rest):
            facts += await self._inner.facts(transcript.of(rest))
        return facts
