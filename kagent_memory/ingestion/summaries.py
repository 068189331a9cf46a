"""Summarize transcripts: typed facts extracted by a model, and ADK's own compaction summaries."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta

from ..concurrency import LONG, run_in_thread
from ..errors import ConfigurationError, TruncatedAnswer
from ..language.tokenizer import estimated_tokens
from ..models.llm import Llm, open_llm, provider_llm
from ..models.prompts import filled, prompt
from ..models.prompts.escaping import escaped
from ..records import Fact, Message
from ..settings import MemorySettings
from .answers import ExtractedFacts, ExtractedSession, event_ids, read_fact, session_fact
from .splitting import halves, parts
from .summary_provider import (
    SummaryProvider,
    Transcript,
    checked_provider,
    needs_llm,
    provider_name,
    with_settings,
)

MIN_PART_TOKENS = 256
COMPACTION_IMPORTANCE = 0.6
REUSING = "compaction-aware"


@dataclass(eq=False, repr=False)
class LlmSummary:
    """Facts extracted by a model, with type, date and sources; at the end of a session also a
    summary of it.

    Args:
        llm: a LiteLLM model name or an object with `complete`; None: the model that comes with
            a transcript.
        prompt: a template that replaces the built-in one. `{topics}`, `{examples}`, `{now}`,
            `{summary}`, `{slots}`, `{earlier}` and `{transcript}` are filled in; `{transcript}` is
            appended if it is missing.
        topics: topics to keep; empty: all.
        exclude_topics: topics to leave out.
        examples: pairs of a statement and its facts, which show the model the expected answers.
        max_prompt_tokens: the longest prompt, in estimated tokens; a longer transcript takes
            several calls.

    Raises:
        ConfigurationError: `llm` is neither a name nor such an object.
    """

    name = "llm"

    llm: Llm | str | None = None
    _: KW_ONLY
    prompt: str | None = None
    topics: Sequence[str] = ()
    exclude_topics: Sequence[str] = ()
    examples: Sequence[tuple[str, Sequence[str]]] = ()
    max_prompt_tokens: int = 16_000

    def __post_init__(self) -> None:
        # a name is checked when a store is opened: finding its provider takes seconds
        settings = MemorySettings()
        self._llm = (
            provider_llm(self.llm, settings)
            if isinstance(self.llm, str)
            else open_llm(self.llm, settings)
        )
        if self._llm is None and self.llm is not None:
            raise ConfigurationError(
                "LlmSummary takes a model's name or an object with complete()."
            )

    @property
    def needs_llm(self) -> bool:
        """Return True if the summary has no model of its own."""
        return self._llm is None

    @property
    def keeps_turns(self) -> bool:
        """Return True if turns are kept beside the facts, which needs empty `exclude_topics`."""
        return not self.exclude_topics

    def with_settings(self, settings: MemorySettings) -> LlmSummary:
        """Return a copy whose own model is opened with these settings.

        Raises:
            ConfigurationError: the model's name has no known provider.
        """
        summary: LlmSummary = copy(self)
        summary._llm = open_llm(self.llm, settings)
        return summary

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Extract facts with the model; an empty transcript makes no call.

        A part whose answer is cut off is tried again in halves. If any part fails, all do.

        Raises:
            ConfigurationError: there is no model.
            ModelError: the model is unavailable or its answer cannot be used.
        """
        llm = self._llm or transcript.llm
        if llm is None:
            raise ConfigurationError("LlmSummary has no model; set its llm= or the service's llm=.")
        utterances = transcript.said

        def split() -> tuple[str, Sequence[Sequence[Message]]]:
            earlier = (escaped(memory.content, one_line=True) for memory in transcript.earlier)
            summary = "\n".join(earlier)[: self.max_prompt_tokens] if transcript.ended else ""
            room = self.max_prompt_tokens - estimated_tokens(self._filled([], transcript, summary))
            return summary, parts(utterances, max(room, MIN_PART_TOKENS))

        summary, ready = await run_in_thread(LONG, split)
        if not utterances and not summary:
            return []
        facts: list[Fact] = []
        new_summary = ""
        schema = ExtractedSession if transcript.ended else ExtractedFacts
        queue = deque(ready or [[]])
        while queue:
            part = queue.popleft()
            try:
                prompt = await run_in_thread(LONG, self._filled, part, transcript, summary)
                answer = await llm.complete(prompt, schema=schema)
            except TruncatedAnswer:
                if len(smaller := halves(part)) < 2:
                    raise
                queue.extendleft(reversed(smaller))
                continue
            extracted = (read_fact(item, part, transcript) for item in answer.facts)
            facts += filter(None, extracted)
            if isinstance(answer, ExtractedSession):
                new_summary = answer.summary or new_summary
                summary = new_summary or summary
        return [*facts, session_fact(new_summary, utterances, transcript)] if new_summary else facts

    def _filled(self, part: Sequence[Message], transcript: Transcript, earlier: str) -> str:
        template = self.prompt or prompt("extract_facts")
        if "{transcript}" not in template:
            template += "\n\n<transcript>\n{transcript}\n</transcript>"
        examples = [
            f'Said: "{said}" Facts: {"; ".join(facts) or "none"}' for said, facts in self.examples
        ]
        keep = f"Keep only what concerns: {', '.join(self.topics)}.\n" if self.topics else ""
        leave = (
            f"Leave out whatever concerns: {', '.join(self.exclude_topics)}.\n"
            if self.exclude_topics
            else ""
        )
        lines: list[str] = []
        for number, message in enumerate(part, 1):
            when = f" {message.at.isoformat(timespec='minutes')}" if message.at else ""
            who = escaped(message.author, one_line=True)
            who = f" {who}" if who and who.lower() != message.role else ""
            # further lines are indented, so that none can pass for another message
            text = escaped(message.text.strip()).replace("\n", "\n    ")
            lines.append(f"[{number}]{when} {message.role}{who}: {text}")
        slots = "\n".join(
            f"{escaped(subject, one_line=True)} · {escaped(attribute, one_line=True)}"
            for subject, attribute in transcript.slots
        )
        return filled(
            template,
            topics=keep + leave,
            examples="\n".join(("Examples:", *examples, "")) if examples else "",
            now=transcript.now.isoformat(timespec="minutes"),
            summary=prompt("session_summary") if transcript.ended else "",
            slots=f"<slots>\n{slots}\n</slots>\n" if slots else "",
            earlier=f"<earlier>\n{escaped(earlier)}\n</earlier>\n" if earlier else "",
            transcript="\n".join(lines),
        )


class CompactionAwareSummary:
    """ADK's compaction summaries as episodic memories; `inner` extracts facts from uncovered
    messages and sums up short-term memories.

    A summary has the slot (session, start of its range), so that a longer one with the same start
    supersedes it.

    Args:
        inner: the provider for the remainder; None: `LlmSummary()`.

    Raises:
        ConfigurationError: `inner` has no async method `facts`.
    """

    def __init__(self, inner: SummaryProvider | None = None) -> None:
        self._inner = LlmSummary() if inner is None else checked_provider(inner)
        self.name = f"{REUSING}+{provider_name(self._inner)}"
        self.needs_llm = needs_llm(self._inner)
        self.keeps_turns = bool(getattr(self._inner, "keeps_turns", False))

    def with_settings(self, settings: MemorySettings) -> CompactionAwareSummary:
        """Return a copy whose inner provider's model is opened with these settings."""
        return CompactionAwareSummary(with_settings(self._inner, settings))

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return each summary outside a longer one as a fact, and the inner provider's facts.

        Raises:
            ModelError: the inner provider failed.
        """
        utterances = [message for message in transcript if not message.compaction]
        uncovered = utterances
        facts: list[Fact] = []
        latest = -math.inf
        summaries = [
            (*message.compaction, message)
            for message in reversed(transcript)
            if message.compaction and message.text.strip()
        ]
        for start, end, summary in sorted(summaries, key=lambda summary: (summary[0], -summary[1])):
            if end <= latest:  # within the range of another summary, or replaced by a later one
                continue
            latest = end
            # message times have microseconds, which session services truncate or round
            first = datetime.fromtimestamp(start, UTC) - timedelta(microseconds=1)
            last = datetime.fromtimestamp(end, UTC)
            within = [
                message for message in utterances if message.at and first <= message.at <= last
            ]
            covered = [summary, *within]
            uncovered = [
                message
                for message in uncovered
                if not message.at or not first <= message.at <= last
            ]
            facts.append(
                Fact(
                    text=summary.text.strip(),
                    type="episodic",
                    importance=COMPACTION_IMPORTANCE,
                    origin="tool" if any(turn.role == "tool" for turn in covered) else "agent",
                    event_ids=event_ids(covered),
                    subject=transcript.session_id or "session",
                    attribute=f"compaction:{start!r}",
                    metadata={"compaction": [start, end]},
                    happened_at=last,
                )
            )
        lapse = any(memory.state == "short_term" for memory in transcript.earlier)
        remainder = replace(transcript, messages=uncovered)
        if remainder.said or (transcript.ended and lapse):
            facts += await self._inner.facts(remainder)
        return facts
