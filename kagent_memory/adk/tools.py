"""The memory tools: what a model may do, with plain answers; whose memories they are is never the model's choice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

from ..errors import ConfigurationError, InvalidInput
from ..memories.tool_answers import (
    LOAD_MEMORY,
    QUERY,
    SAVE_ARGUMENTS,
    SAVE_MEMORY,
    SAVED,
    SOURCE,
    affordable,
    answered,
    given,
    whole,
)
from ..models.prompts.fence import fenced_answer
from ..records import MEMORY_TYPES, Fact, Filter
from ..settings import MemorySettings
from . import backend
from .service import KagentMemoryService
from .tool_args import asked_filter, holds_all, labels, narrowed
from .validation import checked_whole

MAX_FORGOTTEN = 10
DEFAULT_LIMIT, MAX_LIMIT = 5, 50  # of recall_memory
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


class _MemoryTool(BaseTool):
    """A tool that a model calls with plain arguments and that answers with a plain dict."""

    def __init__(self, name: str, description: str, memory_service: BaseMemoryService | None) -> None:
        super().__init__(name=name, description=description)
        self.memory_service = memory_service

    @classmethod
    @override
    def from_config(cls, config: ToolArgsConfig | None, config_abs_path: str) -> Self:
        """The tool of a YAML agent; `args` are the constructor's arguments."""
        return cls(**(config.model_dump() if config else {}))  # ADK < 2.4 gives None without `args`

    @property
    @abstractmethod
    def _arguments(self) -> Mapping[str, Any]:
        """The JSON schema of the arguments."""

    @abstractmethod
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]: ...

    @override
    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = {"type": "object", **self._arguments}
        return types.FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=schema)

    @override
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """The tool's answer; it never raises."""
        service = backend.service_of(tool_context, self.memory_service)
        if service is None:
            return backend.NO_SERVICE
        return await answered(self.name, self._answer(service, args, tool_context))


class SaveMemoryTool(_MemoryTool):
    """`save_memory(content, replaces=None)`: the model's own decision to remember something.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
        ttl_days: days that what it saves lives; 0: for ever; None: the service's setting.
        tags: labels on everything it saves.

    Raises:
        ConfigurationError: `ttl_days` or `tags` does not fit.
    """

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        ttl_days: int | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        super().__init__(
            "save_memory",
            SAVE_MEMORY,
            memory_service,
        )
        if isinstance(tags, str):
            raise ConfigurationError(f"SaveMemoryTool(tags=…) takes a list of strings, such as [{tags!r}].")
        self.ttl_days = checked_whole("SaveMemoryTool(ttl_days=…)", ttl_days)
        self.tags = tuple(tags)

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        return {"properties": SAVE_ARGUMENTS, "required": ["content"]}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        content = given(args, "content")
        fact = Fact(
            content,
            origin="agent",
            author=context.agent_name,
            session_id=context.session.id,
            event_ids=backend.user_event_ids(context),
            tags=self.tags,
            ttl_days=self.ttl_days,
            metadata=SOURCE,
        )
        memory_id = await backend.store(service, context, fact, str(args.get("replaces") or "") or None)
        return {"status": "saved", **({"id": memory_id} if memory_id else {}), "message": SAVED}


class LoadMemoryTool(_MemoryTool):
    """`load_memory(query)`: the memories that answer a question, best first.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
        limit: memories at most; None: the service's setting.
        filter: which memories count, whatever the model asks.
        budget_tokens: of all their texts together, in tokens of 4 ASCII characters or 1 other; None: the service's
            `load_tokens`.
        name: what the model calls it.

    Raises:
        ConfigurationError: a number does not fit.
    """

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        limit: int | None = None,
        filter: Filter = Filter(),
        budget_tokens: int | None = None,
        name: str = "load_memory",
    ) -> None:
        super().__init__(
            name,
            LOAD_MEMORY,
            memory_service,
        )
        self.limit = checked_whole(f"The limit of {name}", limit)
        self.budget_tokens = checked_whole(f"The budget_tokens of {name}", budget_tokens)
        self.filter = filter

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        return {"properties": {"query": QUERY}, "required": ["query"]}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        query = given(args, "query")
        wanted, limit = self._wanted(args, context), self._limit(args)
        budget = _budget(self.budget_tokens, service)
        found = await backend.find(service, context, query, limit=limit, filter=wanted, budget_tokens=budget)
        return fenced_answer([memory.fields for memory in found])

    def _wanted(self, args: Mapping[str, Any], context: ToolContext) -> Filter:
        return self.filter

    def _limit(self, args: Mapping[str, Any]) -> int | None:
        return self.limit


class RecallMemoryTool(LoadMemoryTool):
    """`recall_memory(query, …)`: LoadMemoryTool with filters that a model can use.

    The model may ask for a number of memories, and narrow by types, topics, tags, importance, dates and to this
    session; metadata and the rest of a `Filter` are the developer's, by `filter=`.

    Args:
        limit: memories at most, and as many as come when the model names no number; None: 5 come, and the model may ask
            for up to 50.
        memory_service: for use inside AgentTool; None: the run's.
        filter: which memories count, whatever the model asks.
        budget_tokens: see `LoadMemoryTool`.

    Raises:
        ConfigurationError: a number does not fit.
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        memory_service: BaseMemoryService | None = None,
        filter: Filter = Filter(),
        budget_tokens: int | None = None,
    ) -> None:
        super().__init__(
            memory_service=memory_service,
            limit=limit,
            filter=filter,
            budget_tokens=budget_tokens,
            name="recall_memory",
        )

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        plain = super()._arguments
        day = {"type": "string", "description": "ISO 8601 date or time; when it happened."}
        more = {
            "limit": {"type": "integer", "minimum": 1, "description": f"Max results (default: {self._default})"},
            "types": {"type": "array", "items": {"type": "string", "enum": list(MEMORY_TYPES)}},
            "topics": {**_TEXTS, "description": "Any of these."},
            "tags": {**_TEXTS, "description": "All of these."},
            "min_importance": {"type": "number", "minimum": 0, "maximum": 1},
            "after": day,
            "before": day,
            "this_session": {"type": "boolean", "description": "Only what was remembered in this conversation."},
        }
        return {"properties": {**plain["properties"], **more}, "required": plain["required"]}

    @override
    def _wanted(self, args: Mapping[str, Any], context: ToolContext) -> Filter:
        asked = asked_filter(args)
        if str(args.get("this_session")).lower() == "true":  # models write booleans as texts too
            asked = replace(asked, session_id=context.session.id)
        return narrowed(self.filter, asked)

    @property
    def _default(self) -> int:
        return DEFAULT_LIMIT if self.limit is None else self.limit

    @override
    def _limit(self, args: Mapping[str, Any]) -> int:
        asked = whole(args, "limit")
        return self._default if asked is None else min(asked, MAX_LIMIT if self.limit is None else self.limit)


def _budget(given: int | None, service: BaseMemoryService) -> int:
    """The tokens that an answer may hold of memories' texts."""
    settings = service.settings if isinstance(service, KagentMemoryService) else MemorySettings()
    return settings.load_tokens if given is None else given


class ForgetMemoryTool(_MemoryTool):
    """`forget_memory(ids=None, query=None, confirm=False)`: erases memories for good, after a confirmation.

    Without `confirm` it only shows what it would erase. A confirmed query erases, of at most 10 matches, those that
    hold all of its words: nearness alone is no reason to erase.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
    """

    def __init__(self, *, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(
            "forget_memory",
            "Erases memories for good. First call it with a query, or with ids that load_memory showed; tell the user"
            " what would be erased; after the user agrees call it again with the ids and confirm=true.",
            memory_service,
        )

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        ids = {**_TEXTS, "description": "Ids of the memories to erase."}
        query = {"type": "string", "description": "What the memories to erase are about."}
        confirm = {"type": "boolean", "description": "True only after the user agreed."}
        return {"properties": {"ids": ids, "query": query, "confirm": confirm}}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        ids = labels(args, "ids")
        query = str(args.get("query") or "").strip()
        if not ids and not query:
            raise InvalidInput("ids or query is required.")
        if ids and args.get("confirm") is not True:
            return {"status": "confirmation required", "ids": list(ids), "message": "Call again with confirm=true."}
        if ids:
            return {"status": "forgotten", "ids": await backend.erase(service, context, ids)}
        found = await backend.find(service, context, query, limit=MAX_FORGOTTEN)
        certain = [
            str(memory.fields["id"]) for memory in found if "id" in memory.fields and holds_all(memory.text, query)
        ]
        if args.get("confirm") is True and certain:
            return {"status": "forgotten", "ids": await backend.erase(service, context, certain)}
        message = "Nothing was erased. Call again with the ids to erase and confirm=true."
        shown = affordable(found, _budget(None, service))
        return {"status": "confirmation required", "message": message, **fenced_answer([m.fields for m in shown])}
