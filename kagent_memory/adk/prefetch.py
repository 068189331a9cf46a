"""Putting what memory knows before the model, unasked: one recall an invocation, fenced, before the current turn."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from google.adk.agents.context import Context
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from ..errors import ConfigurationError
from ..records import ORIGINS, Filter
from . import door
from .convert import is_user_turn, text_of, user_turns
from .fence import OPENING, fenced, memory_line
from .given import checked_policy, checked_whole
from .handed import Key, session_key
from .service import KagentMemoryService

REMEMBERED_SESSIONS = 10_000
REMEMBERED_BLOCKS = 1_000
HISTORY_TURNS = 3
TOOL_QUERY = "tool_query"  # in the run's custom_metadata
NO_TOOLS = Filter(origins=tuple(origin for origin in ORIGINS if origin != "tool"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch:
    """When and how much is put before the model.

    Attributes:
        every_turn: on every user message; otherwise only on the first of a session.
        limit: memories at most; None: the service's setting.
        budget_tokens: of all of them together, in tokens of 4 ASCII characters or 1 other; None: the service's setting.
        tool_memories: also what tools said, which is the easiest way to smuggle something in.
        timeout_seconds: a turn waits no longer for memory.

    Raises:
        ConfigurationError: a number does not fit.
    """

    every_turn: bool = False
    limit: int | None = None
    budget_tokens: int | None = None
    tool_memories: bool = False
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        for name in ("limit", "budget_tokens"):
            checked_whole(f"Prefetch({name}=…)", getattr(self, name))
        if self.timeout_seconds <= 0:
            raise ConfigurationError("Prefetch(timeout_seconds=…) must be more than 0.")

    @classmethod
    def checked(cls, given: object) -> Prefetch | None:
        """A caller's `prefetch=`: how, or None for nothing.

        Raises:
            ConfigurationError: it is something else.
        """
        return checked_policy("prefetch", given, cls, "nothing")

    async def insert(self, context: Context, request: LlmRequest, service: BaseMemoryService | None) -> None:
        """Puts the block of this invocation into a request; nothing when there is nothing, or no answer in time."""
        if service is None or context.user_content is None:
            return
        block = await _blocks_of(service).get(self, context, service)
        if block and not any(_is_block(content) for content in request.contents):
            insert_before(request.contents, block, context.user_content)

    async def block(self, context: Context, service: BaseMemoryService) -> str:
        """What memory holds that may help with the current message, fenced; "" when it holds nothing or fails."""
        query = text_of(context.user_content, between=" ")
        if not query.strip():
            return ""
        search = door.find(
            service,
            context,
            query,
            limit=self.limit,
            filter=Filter() if self.tool_memories else NO_TOOLS,
            gate=True,
            tool=_marked_for_a_tool(context),
            history=_earlier_turns(context) if self.every_turn else (),
            budget_tokens=self.budget_tokens,
        )
        try:
            found = await asyncio.wait_for(search, self.timeout_seconds)
        except Exception as error:
            door.report("prefetch_memory", error)
            return ""
        # The search lends a hit's neighbours their place; what a tool said stays out however it was found.
        found = [memory for memory in found if self.tool_memories or memory.origin != "tool"]
        if isinstance(service, KagentMemoryService):
            service.handed.add(context.session, [memory.text for memory in found])
        return fenced([memory_line(memory.text, at=memory.at, origin=memory.origin) for memory in found])


def insert_before(contents: list[types.Content], block: str, turn: types.Content) -> None:
    """Inserts the block before the current turn, where no earlier part of the request changes.

    A turn that ADK rewrote on the way is taken to be the last run of user contents that answer no tool.
    """
    place = len(contents)
    for index in range(len(contents) - 1, -1, -1):
        if contents[index] == turn:
            place = index
            break
    else:
        while place and contents[place - 1].role == "user" and not _answers_a_tool(contents[place - 1]):
            place -= 1
    contents.insert(place, types.Content(role="user", parts=[types.Part(text=block)]))


def _marked_for_a_tool(context: Context) -> bool:
    """Whether whoever began this run marked the message as a tool query."""
    config = context.get_invocation_context().run_config
    return bool(config and (config.custom_metadata or {}).get(TOOL_QUERY))


def _answers_a_tool(content: types.Content) -> bool:
    return any(part.function_response for part in content.parts or [])


def _is_block(content: types.Content) -> bool:
    return any((part.text or "").startswith(OPENING) for part in content.parts or [])


def _earlier_turns(context: Context) -> Sequence[str]:
    said = [
        text_of(event.content, between=" ")
        for event in context.session.events
        if is_user_turn(event) and event.invocation_id != context.invocation_id
    ]
    return [text for text in said if text][-HISTORY_TURNS:]


class _Blocks:
    """The blocks of the last invocations of one service, each made once however many requests ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[Prefetch, Key, str], asyncio.Task[str]] = OrderedDict()
        self._first: OrderedDict[Key, str] = OrderedDict()

    async def get(self, prefetch: Prefetch, context: Context, service: BaseMemoryService) -> str:
        session = session_key(context.session)
        if not prefetch.every_turn and not self._is_first(session, context):
            return ""
        key = (prefetch, session, context.invocation_id)
        with self._lock:
            task = self._made.get(key)
            if task is None or not (task.done() or task.get_loop() is asyncio.get_running_loop()) or _cancelled(task):
                task = self._made[key] = asyncio.ensure_future(prefetch.block(context, service))
            while len(self._made) > REMEMBERED_BLOCKS:
                self._made.popitem(last=False)
        return task.result() if task.done() else await asyncio.shield(task)

    def _is_first(self, session: Key, context: Context) -> bool:
        """Whether this invocation began the session; a truncated session alone cannot tell."""
        if user_turns(context.session.events) != 1:
            return False
        with self._lock:
            first = self._first.setdefault(session, context.invocation_id)
            while len(self._first) > REMEMBERED_SESSIONS:
                self._first.popitem(last=False)
        return first == context.invocation_id


def _cancelled(task: asyncio.Task[str]) -> bool:
    return task.done() and task.cancelled()


_blocks: weakref.WeakKeyDictionary[BaseMemoryService, _Blocks] = weakref.WeakKeyDictionary()
_blocks_lock = threading.Lock()


def _blocks_of(service: BaseMemoryService) -> _Blocks:
    with _blocks_lock:
        return _blocks.setdefault(service, _Blocks())


class PrefetchMemoryTool(BaseTool):
    """Puts what memory knows before the model on the first user message of a session; never offered as a function.

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
        limit: int | None = None,
        budget_tokens: int | None = None,
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

    @classmethod
    @override
    def from_config(cls, config: ToolArgsConfig | None, config_abs_path: str) -> Self:
        """The tool of a YAML agent; `args` are the constructor's arguments."""
        return cls(**(config.model_dump() if config else {}))  # ADK < 2.4 gives None without `args`

    @override
    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        """Inserts the block of this invocation; it never raises."""
        try:
            service = door.service_of(tool_context, self.memory_service)
            await self.prefetch.insert(tool_context, llm_request, service)
        except Exception as error:
            door.report(self.name, error)


class PreloadMemoryTool(PrefetchMemoryTool):
    """PrefetchMemoryTool on every user message."""

    every_turn = True
