"""Typed facts, found by a model."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy

from ..errors import ConfigurationError, TruncatedAnswer
from ..language.tokenizer import estimated_tokens
from ..models.llm import Llm, open_llm, provider_llm
from ..models.prompts import filled, prompt
from ..models.prompts.escaping import escaped
from ..records import Fact, Message
from ..settings import MemorySettings
from .answers import ExtractedFacts, ExtractedSession
from .facts import read_fact, session_fact
from .splitting import halves, parts
from .summary_provider import Transcript

LEAST_PART_TOKENS = 256


class LlmSummary:
    """Facts by a model: typed, dated, with their sources; at a session's end one summary of it too.

    Args:
        llm: the model, as a LiteLLM model name or an object with `complete`; None: the one that
            `bind` brings.
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

    def __init__(
        self,
        llm: Llm | str | None = None,
        *,
        prompt: str | None = None,
        topics: Sequence[str] = (),
        exclude_topics: Sequence[str] = (),
        examples: Sequence[tuple[str, Sequence[str]]] = (),
        max_prompt_tokens: int = 16_000,
    ) -> None:
        self._choice = llm
        # the provider of a name is checked when a store is opened: looking it up takes seconds
        self._llm = (
            provider_llm(llm, MemorySettings())
            if isinstance(llm, str)
            else _opened(llm, MemorySettings())
        )
        self._prompt = prompt
        self._topics = tuple(topics)
        self._exclude_topics = tuple(exclude_topics)
        self._examples = tuple(examples)
        self._max_prompt_tokens = max_prompt_tokens

    @property
    def needs_llm(self) -> bool:
        """Return True if it has no model of its own."""
        return self._llm is None

    @property
    def keeps_turns(self) -> bool:
        """Return True if turns are kept beside the facts: not where topics are left out."""
        return not self._exclude_topics

    def bind(self, llm: Llm) -> LlmSummary:
        """Return the same summary with this model, unless it has its own."""
        return self if self._llm is not None else self._with(llm)

    def with_settings(self, settings: MemorySettings) -> LlmSummary:
        """Return the same summary with its own model opened by these settings.

        Raises:
            ConfigurationError: the model's name has no known provider.
        """
        return self if self._choice is None else self._with(_opened(self._choice, settings))

    def _with(self, llm: Llm | None) -> LlmSummary:
        made: LlmSummary = copy(self)
        made._llm = llm
        return made

    async def facts(self, transcript: Transcript) -> Sequence[Fact]:
        """Return what the model finds worth keeping; nothing said, no call.

        Raises:
            ConfigurationError: it has no model.
            ModelError: the model is unavailable, or an answer of it cannot be used; then no part
                gives anything. A part whose answer is cut off is asked for again in halves first.
        """
        if self._llm is None:
            raise ConfigurationError("LlmSummary has no model; give it llm=, or the service llm=.")
        said = [
            message for message in transcript if message.text.strip() and message.compaction is None
        ]
        earlier = (escaped(memory.content, one_line=True) for memory in transcript.earlier)
        summary = "\n".join(earlier)[: self._max_prompt_tokens] if transcript.ended else ""
        if not said and not summary:
            return []
        room = self._max_prompt_tokens - estimated_tokens(self._filled([], transcript, summary))
        facts: list[Fact] = []
        told = ""
        schema = ExtractedSession if transcript.ended else ExtractedFacts
        waiting = deque(await asyncio.to_thread(parts, said, max(room, LEAST_PART_TOKENS)) or [[]])
        while waiting:
            part = waiting.popleft()
            try:
                answer = await self._llm.complete(
                    self._filled(part, transcript, summary), schema=schema
                )
            except TruncatedAnswer:
                if not (smaller := halves(part)):
                    raise
                waiting.extendleft(reversed(smaller))
                continue
            extracted = (read_fact(item, part, transcript) for item in answer.facts)
            facts += (fact for fact in extracted if fact is not None)
            if isinstance(answer, ExtractedSession):
                told = answer.summary.strip() or told
                summary = told or summary
        return [*facts, session_fact(told, said, transcript)] if told else facts

    def _filled(self, part: Sequence[Message], transcript: Transcript, earlier: str) -> str:
        template = self._prompt or prompt("extract_facts")
        if "{transcript}" not in template:
            template += "\n\n<transcript>\n{transcript}\n</transcript>"
        examples = [
            f'Said: "{said}" Facts: {"; ".join(given) or "none"}' for said, given in self._examples
        ]
        keep = f"Keep only what concerns: {', '.join(self._topics)}.\n" if self._topics else ""
        leave = (
            f"Leave out whatever concerns: {', '.join(self._exclude_topics)}.\n"
            if self._exclude_topics
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
        return filled(
            template,
            topics=keep + leave,
            examples="\n".join(("Examples:", *examples, "")) if examples else "",
            now=transcript.now.isoformat(timespec="minutes"),
            summary=prompt("session_summary") if transcript.ended else "",
            slots=_shown_slots(transcript.slots),
            earlier=f"<earlier>\n{escaped(earlier)}\n</earlier>\n" if earlier else "",
            transcript="\n".join(shown),
        )


def _shown_slots(slots: Sequence[tuple[str, str]]) -> str:
    """Return the slots that exist as a block of the prompt; "" without any."""
    if not slots:
        return ""
    lines = (
        f"{escaped(subject, one_line=True)} · {escaped(attribute, one_line=True)}"
        for subject, attribute in slots
    )
    return f"<slots>\n{chr(10).join(lines)}\n</slots>\n"


def _opened(choice: Llm | str | None, settings: MemorySettings) -> Llm | None:
    if choice is None:
        return None
    llm = open_llm(choice, settings)
    if llm is None:
        raise ConfigurationError(
            "LlmSummary takes a model's name, or an object with complete(); it got neither."
        )
    return llm
