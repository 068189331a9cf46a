"""Putting what memory knows before the model, unasked: one recall an invocation, fenced, before the
current turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache
from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from ..errors import ConfigurationError
from ..memories.tool_answers import report
from ..models.prompts.fence import OPENING, fenced, memory_line
from ..records import MAX_QUERY_CHARS, ORIGINS, Filter
from ..retrieval.query import WordGate
from . import backend
from .arguments import checked_whole, from_yaml
from .event_converter import is_user_turn, text_of
from .service import KagentMemoryService
from .sessions import Key, PerService, mode_of, session_key

REMEMBERED_SESSIONS = 10_000
REMEMBERED_BLOCKS = 1_000
HISTORY_TURNS = 3
DEFAULT_PREFETCH_TOKENS = 1024
DEFAULT_PREFETCH_LIMIT = 10
NOBODY = ""  # no invocation
TOOL_QUERY, IS_FACT = "tool_query", "is_fact"  # in the run's custom_metadata
NO_TOOLS = Filter(origins=tuple(origin for origin in ORIGINS if origin != "tool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """Settings of prefetch: how often it searches and how much it puts before the model.

    Attributes:
        every_turn: on every user message; otherwise once a session, for the first message that
            memories fit.
        limit: memories at most; None: the service's setting.
        budget_tokens: of all of them together, in tokens of 4 ASCII characters or 1 other.
        tool_memories: also what tools said, which is the easiest way to smuggle something in.
        timeout_seconds: a turn waits no longer for memory. The search knows it, and goes by words
            in time when the embedder does not answer.

    Raises:
        ConfigurationError: a number does not fit.
    """

    every_turn: bool = False
    limit: int | None = DEFAULT_PREFETCH_LIMIT
    budget_tokens: int = DEFAULT_PREFETCH_TOKENS
    tool_memories: bool = False
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        for name in ("limit", "budget_tokens"):
            checked_whole(f"Prefetch({name}=…)", getattr(self, name))
        if self.timeout_seconds <= 0:
            raise ConfigurationError("Prefetch(timeout_seconds=…) must be more than 0.")

    async def insert(
        self, context: Context, request: LlmRequest, service: BaseMemoryService | None
    ) -> None:
        """Put the block of this invocation into a request; nothing when there is nothing, or no
        answer in time.
        """
        if service is None or context.user_content is None:
            return
        if mode_of(context.get_invocation_context()) == "off":
            return
        block = await _blocks.of(service).get(self, context, service)
        texts = (part.text or "" for content in request.contents for part in content.parts or [])
        if block and not any(text.startswith(OPENING) for text in texts):
            insert_before(request.contents, block, context.user_content)

    async def block(self, context: Context, service: BaseMemoryService) -> Block:
        """Return the memories that may help with the current message, fenced, oldest first; empty
        on a failure.
        """
        query = shortened(text_of(context.user_content, between=" "))
        if not query.strip():
            return Block(searched=False)
        run_config = context.get_invocation_context().run_config
        earlier = (text_of(event.content, between=" ") for event in _earlier_events(context))
        search = backend.find(
            service,
            context,
            query,
            limit=self.limit,
            filter=Filter() if self.tool_memories else NO_TOOLS,
            budget_tokens=self.budget_tokens,
            gate=True,
            handover=True,
            **_marks(run_config.custom_metadata if run_config else None),
            history=[shortened(text) for text in earlier if text][-HISTORY_TURNS:]
            if self.every_turn
            else (),
            timeout_seconds=self.timeout_seconds,
        )
        try:
            recalled = await asyncio.wait_for(
                backend.guarded(service, search), self.timeout_seconds
            )
        except Exception as error:
            report("prefetch_memory", error)
            # else it heals by itself: the next turn tries again
            return Block(searched=isinstance(error, TimeoutError))
        # The search lends a hit's neighbours their place; what a tool said stays out however it was
        # found.
        shown = sorted(
            (memory for memory in recalled if self.tool_memories or memory.origin != "tool"),
            key=lambda memory: memory.at.timestamp() if memory.at else 0.0,
        )
        if isinstance(service, KagentMemoryService):
            service.injected.add(
                context.session, [text for one in shown for text in (one.text, *one.said)]
            )
        lines = [
            memory_line(one.text, at=one.at, origin=one.origin, said=one.said) for one in shown
        ]
        text = fenced(lines)
        return Block(text, searched=bool(shown))


@dataclass(frozen=True, slots=True)
class Block:
    """Text put before the model in one invocation; `searched` means later ones need no search."""

    text: str = ""
    searched: bool = True


def shortened(text: str) -> str:
    """A message as a search takes it: of a longer one its beginning and its end."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2 - 1
    return f"{text[:half]}\n{text[-half:]}"


def insert_before(contents: list[types.Content], block: str, turn: types.Content) -> None:
    """Insert the block before the current turn, where no earlier part of the request changes.

    A turn that ADK rewrote on the way is taken to be the last run of user contents that answer no
    tool.
    """
    place = len(contents)
    for index in range(len(contents) - 1, -1, -1):
        if contents[index] == turn:
            place = index
            break
    else:
        for content in reversed(contents):
            if content.role != "user" or any(
                part.function_response for part in content.parts or []
            ):
                break
            place -= 1
    contents.insert(place, types.Content(role="user", parts=[types.Part(text=block)]))


def _marks(metadata: Mapping[str, Any] | None) -> dict[str, bool | None]:
    """Return the caller's marks on a message: a tool query, a question of general knowledge."""
    marks = metadata or {}
    fact = marks.get(IS_FACT)
    return {"tool": bool(marks.get(TOOL_QUERY)), "is_fact": None if fact is None else bool(fact)}


def _earlier_events(context: Context) -> list[Event]:
    events = context.session.events
    return [
        event
        for event in events
        if is_user_turn(event) and event.invocation_id != context.invocation_id
    ]


class _Blocks:
    """The blocks of the last invocations of one service, each made once however many requests ask
    for it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = LRUCache[tuple[Prefetch, Key, str], asyncio.Task[Block]](REMEMBERED_BLOCKS)
        # which invocation of a session searches, or did
        self._searching = LRUCache[Key, str](REMEMBERED_SESSIONS)

    async def get(self, prefetch: Prefetch, context: Context, service: BaseMemoryService) -> str:
        session = session_key(context.session)
        if not prefetch.every_turn and not self._may_search(session, context):
            return ""
        key = (prefetch, session, context.invocation_id)
        with self._lock:
            task = self._made.get(key)
            usable = task and (
                not task.cancelled()
                if task.done()
                else task.get_loop() is asyncio.get_running_loop()
            )
            if task is None or not usable:
                task = self._made[key] = asyncio.ensure_future(prefetch.block(context, service))
        block = task.result() if task.done() else await asyncio.shield(task)
        if not block.searched:
            with self._lock:  # the next invocation may search
                if self._searching.get(session) == context.invocation_id:
                    self._searching[session] = NOBODY
        return block.text

    def _may_search(self, session: Key, context: Context) -> bool:
        """Return True if this invocation is the one of its session that searches.

        Of a session that this process did not see begin, its earlier turns tell, on which ADK notes
        how their runs were marked: a truncated one may tell wrong.
        """
        gate = WordGate()
        with self._lock:
            searching = self._searching.get(session)
            turns = _earlier_events(context) if searching is None else []
            for event in turns:
                text, marks = (
                    shortened(text_of(event.content, between=" ")),
                    _marks(event.custom_metadata),
                )
                if gate.searches(text, tool=bool(marks["tool"]), is_fact=marks["is_fact"]):
                    return False
            if searching in (None, NOBODY):
                self._searching[session] = searching = context.invocation_id
            return searching == context.invocation_id


_blocks = PerService(_Blocks)


class PrefetchMemoryTool(BaseTool):
    """Puts what memory knows before the model once a session, on the first user message that
    memories fit; never offered as a function.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
        limit, budget_tokens, tool_memories, timeout_seconds: see `Prefetch`.

    Raises:
        ConfigurationError: a number does not fit.
    """

    every_turn = False

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        limit: int | None = DEFAULT_PREFETCH_LIMIT,
        budget_tokens: int = DEFAULT_PREFETCH_TOKENS,
        tool_memories: bool = False,
        timeout_seconds: float = 5.0,
    ) -> None:
        name = "preload_memory" if self.every_turn else "prefetch_memory"
        super().__init__(name=name, description=name)
        self.memory_service = memory_service
        self.prefetch = Prefetch(
            every_turn=self.every_turn,
            limit=limit,
            budget_tokens=budget_tokens,
            tool_memories=tool_memories,
            timeout_seconds=timeout_seconds,
        )

    from_config = from_yaml

    @override
    async def process_llm_request(
        self, *, tool_context: ToolContext, llm_request: LlmRequest
    ) -> None:
        """Insert the block of this invocation; it never raises."""
        try:
            service = backend.service_of(tool_context, self.memory_service)
            await self.prefetch.insert(tool_context, llm_request, service)
        except Exception as error:
            report(self.name, error)


class PreloadMemoryTool(PrefetchMemoryTool):
    """PrefetchMemoryTool on every user message."""

    every_turn = True
