"""Put memories before the model without a tool call: one recall per invocation, fenced, before the
current turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from google.adk.agents.context import Context
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from ..memories.tool_answers import report
from ..models.prompts.fence import OPENING, fenced, memory_line, moment
from ..records import MAX_QUERY_CHARS, ORIGINS, Filter
from .arguments import Number, Positive, check_fields, from_yaml
from .context import Run, service_of
from .converter import is_user_turn, text_of
from .service import KagentMemoryService
from .sessions import SessionState, mode_of

HISTORY_TURNS = 3
NO_TOOLS = Filter(origins=tuple(origin for origin in ORIGINS if origin != "tool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """The settings of prefetch.

    Attributes:
        every_turn: True to search for every user message; otherwise once per session and process,
            for the first message that memories fit.
        limit: the most memories; None: the setting `search_limit`.
        budget_tokens: the most tokens of all memories, at 4 ASCII characters or 1 other per token.
        tool_memories: True to include what tools said, which is the easiest way for an injection.
        timeout_seconds: the most seconds that a turn waits for memory; the search falls back to
            keywords if the embedder does not answer in time.

    Raises:
        ConfigurationError: a field is invalid.
    """

    every_turn: bool = False
    limit: Number | None = 10
    budget_tokens: Number = 1024
    tool_memories: bool = False
    timeout_seconds: Positive = 5.0
    __post_init__ = check_fields

    async def insert(
        self, context: Context, request: LlmRequest, explicit: KagentMemoryService | None = None
    ) -> None:
        """Insert the block of this invocation into a request; leave the request unchanged if
        nothing is found in time, and after a failure.

        Args:
            context: the context of the run.
            request: the request, changed in place.
            explicit: the service to use; None: the run's.
        """
        try:
            service, turn = service_of(context, explicit), context.user_content
            if not service or not turn or mode_of(context.get_invocation_context()) == "off":
                return
            block = await self._block(context, service)
            parts = (part for content in request.contents for part in content.parts or [])
            if block and not any((part.text or "").startswith(OPENING) for part in parts):
                insert_before(request.contents, block, turn)
        except Exception as error:
            report("prefetch_memory", error)

    async def _block(self, context: Context, service: KagentMemoryService) -> str:
        """Return the block of this invocation, searching once; "" if there is none."""
        state = service.state(context.session)
        invocation, block = state.prefetched.get(self, ("", ""))
        if invocation == context.invocation_id:
            return block
        if block and not self.every_turn:
            return ""
        block = await self._search(context, service, state)
        state.prefetched[self] = context.invocation_id, block
        return block

    async def _search(
        self, context: Context, service: KagentMemoryService, state: SessionState
    ) -> str:
        """Return the memories that may help with the current message, fenced, oldest first.

        Return "" after a failure.
        """
        query = _query_of(context.user_content)
        if not query.strip():
            return ""
        history = [
            _query_of(event.content)
            for event in context.session.events
            if is_user_turn(event) and event.invocation_id != context.invocation_id
        ]
        search = Run(service, context).find(
            query,
            limit=self.limit,
            filter=Filter() if self.tool_memories else NO_TOOLS,
            budget_tokens=self.budget_tokens,
            gate=True,
            handover=True,
            history=list(filter(None, history))[-HISTORY_TURNS:] if self.every_turn else (),
            timeout_seconds=self.timeout_seconds,
        )
        try:
            entries = await asyncio.wait_for(
                service.availability.guard(search), self.timeout_seconds
            )
        except Exception as error:
            report("prefetch_memory", error)
            return ""
        # a search may add the neighbours of a hit; a tool's words stay out all the same
        entries = [entry for entry in entries if self.tool_memories or entry["origin"] != "tool"]
        entries.sort(key=moment)
        state.add_recalled(
            text for entry in entries for text in (entry["text"], *entry.get("said", ()))
        )
        return fenced([*map(memory_line, entries)])


def _query_of(content: types.Content | None) -> str:
    """Return the text of a message as a query; of a longer text, its beginning and end."""
    text = text_of(content, between=" ")
    half = MAX_QUERY_CHARS // 2 - 1
    return text if len(text) <= MAX_QUERY_CHARS else f"{text[:half]}\n{text[-half:]}"


def insert_before(contents: list[types.Content], block: str, turn: types.Content) -> None:
    """Insert the block before the current turn, without changing earlier parts of the request.

    If ADK rewrote the turn, it is the last user content that is not a tool's answer.
    """
    indexes = (
        [index for index, content in enumerate(contents) if content == turn]
        or [
            index
            for index, content in enumerate(contents)
            if content.role == "user"
            and not any(part.function_response for part in content.parts or [])
        ]
        or [len(contents)]
    )
    contents.insert(indexes[-1], types.Content(role="user", parts=[types.Part(text=block)]))


class PrefetchMemoryTool(BaseTool):
    """Put memories before the model once per session, at the first user message that memories fit;
    it is never offered as a function.

    Args:
        memory_service: the service, for use inside AgentTool; None: the run's.
        **options: `limit`, `budget_tokens`, `tool_memories` and `timeout_seconds` of `Prefetch`.

    Raises:
        ConfigurationError: an option is invalid.
    """

    every_turn = False

    def __init__(
        self, *, memory_service: KagentMemoryService | None = None, **options: Any
    ) -> None:
        name = "preload_memory" if self.every_turn else "prefetch_memory"
        super().__init__(name=name, description=name)
        self.memory_service = memory_service
        self.prefetch = Prefetch(every_turn=self.every_turn, **options)

    from_config = from_yaml

    @override
    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Insert the block of this invocation; never raise."""
        await self.prefetch.insert(tool_context, llm_request, self.memory_service)


class PreloadMemoryTool(PrefetchMemoryTool):
    """A PrefetchMemoryTool that searches for every user message."""

    every_turn = True
