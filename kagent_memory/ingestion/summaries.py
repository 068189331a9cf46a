"""Summaries of transcripts: typed facts, found by a model, and those that ADK has made already."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta

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
    """Facts by a model: typed, dated, with their sources; at a session's end one summary of it too.

    Args:
        llm: the model, as a LiteLLM model name or an object with `complete`; None: the one that
            comes with a transcript.
        prompt: your own template in place of ours. `{topics}`, `{examples}`, `{now}`, `{summary}`,
            `{slots}`, `{earlier}` and `{transcript}` are filled in; a template without
            `{transcript}` has it added at its end.
        topics: what to keep; empty: whatever is worth keeping.
        exclude_topics: what to leave out.
        examples: (what is said, facts it gives) pairs that show the model what you want.
        max_prompt_tokens: the longest prompt, in estimated tokens; longer transcripts take several
            calls.

    Raises:
        ConfigurationError: `llm` is neither.
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
        # the provider of a name is checked when a store is opened: looking it up takes seconds
        settings = MemorySettings()
        self._llm = (
            provider_llm(self.llm, settings)
            if isinstance(self.llm, str)
            else _opened(self.llm, settings)
        )

    @property
    def needs_llm(self) -> bool:
        """Return True if it has no model of its own."""
        return self._llm is None

    @property
    def keeps_turns(self) -> bool:
        """Return True if turns are kept beside the facts: not where topics are left out."""
        return not self.exclude_topics

    def with_settings(self, settings: MemorySettings) -> LlmSummary:
        """Return the same summary with its own model opened by these settings.

        Raises:
            ConfigurationError: the model's name has no known provider.
        """
        summary: LlmSummary = copy(self)
        summary._llm = _opened(self.llm, settings)
        return summary

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return what the model finds worth keeping; nothing said, no call.

        Raises:
            ConfigurationError: it has no model.
            ModelError: the model is unavailable, or an answer of it cannot be used; then no part
                gives anything. A part whose answer is cut off is asked for again in halves first.
        """
        llm = self._llm or transcript.llm
        if llm is None:
            raise ConfigurationError("LlmSummary has no model; give it llm=, or the service llm=.")
        said = transcript.said
        earlier = (escaped(memory.content, one_line=True) for memory in transcript.earlier)
        summary = "\n".join(earlier)[: self.max_prompt_tokens] if transcript.ended else ""
        if not said and not summary:
            return []
        room = self.max_prompt_tokens - estimated_tokens(self._filled([], transcript, summary))
        facts: list[Fact] = []
        new_summary = ""
        schema = ExtractedSession if transcript.ended else ExtractedFacts
        waiting = deque(await asyncio.to_thread(parts, said, max(room, MIN_PART_TOKENS)) or [[]])
        while waiting:
            part = waiting.popleft()
            try:
                answer = await llm.complete(self._filled(part, transcript, summary), schema=schema)
            except TruncatedAnswer:
                if len(smaller := halves(part)) < 2:
                    raise
                waiting.extendleft(reversed(smaller))
                continue
            extracted = (read_fact(item, part, transcript) for item in answer.facts)
            facts += (fact for fact in extracted if fact is not None)
            if isinstance(answer, ExtractedSession):
                new_summary = answer.summary or new_summary
                summary = new_summary or summary
        return [*facts, session_fact(new_summary, said, transcript)] if new_summary else facts

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
        shown: list[str] = []
        for number, message in enumerate(part, 1):
            when = f" {message.at.isoformat(timespec='minutes')}" if message.at else ""
            who = " ".join(escaped(message.author).split())
            who = f" {who}" if who and who.lower() != message.role else ""
            # the further lines of a message are indented, so that none can pass for another message
            text = escaped(message.text.strip()).replace("\n", "\n    ")
            shown.append(f"[{number}]{when} {message.role}{who}: {text}")
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
            transcript="\n".join(shown),
        )


class CompactionAwareSummary:
    """ADK's compaction summaries as episodic memories; `inner` only for what they do not cover, and
    to sum up short-term memories.

    A summary fills the slot (session, its start), so that a longer one of the same start takes the
    place of the shorter.

    Args:
        inner: for the remainder; None: `LlmSummary()`.

    Raises:
        ConfigurationError: `inner` has no async method `facts`.
    """

    def __init__(self, inner: SummaryProvider | None = None) -> None:
        self._inner = LlmSummary() if inner is None else checked_provider(inner)
        self.name = f"{REUSING}+{provider_name(self._inner)}"
        self.needs_llm = needs_llm(self._inner)
        self.keeps_turns = bool(getattr(self._inner, "keeps_turns", False))

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
            (*message.compaction, message)
            for message in reversed(transcript)
            if message.compaction and message.text.strip()
        ]
        for start, end, summary in sorted(summaries, key=lambda summary: (summary[0], -summary[1])):
            if end <= latest:  # its range is within another one's, or just that of a later summary
                continue
            latest = end
            # messages tell their times in microseconds, cut by some session services and rounded by
            # others
            first = datetime.fromtimestamp(start, UTC) - timedelta(microseconds=1)
            last = datetime.fromtimestamp(end, UTC)
            within = [message for message in said if message.at and first <= message.at <= last]
            covered = [summary, *within]
            rest = [
                message for message in rest if not message.at or not first <= message.at <= last
            ]
            fact = Fact(
                text=summary.text.strip(),
                type="episodic",
                importance=COMPACTION_IMPORTANCE,
                origin="tool" if any(message.role == "tool" for message in covered) else "agent",
                event_ids=event_ids(covered),
                subject=transcript.session_id or "session",
                attribute=f"compaction:{start!r}",
                metadata={"compaction": [start, end]},
                happened_at=last,
            )
            facts.append(fact)
        lapsing = (memory.state == "short_term" for memory in transcript.earlier)
        remainder = transcript.of(rest)
        if remainder.said or (transcript.ended and any(lapsing)):
            facts += await self._inner.facts(remainder)
        return facts


def _opened(choice: Llm | str | None, settings: MemorySettings) -> Llm | None:
    llm = open_llm(choice, settings)
    if llm is None and choice is not None:
        raise ConfigurationError(
            "LlmSummary takes a model's name, or an object with complete(); it got neither."
        )
    return llm
