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

from ..errors import ConfigurationError, InvalidInput, NotFound
from ..memories.tool_answers import (
    DEFAULT_ANSWER_TOKENS,
    LOAD_MEMORY,
    QUERY,
    SAVE_ARGUMENTS,
    SAVE_MEMORY,
    SAVED,
    SOURCE,
    affordable,
    answered,
    given,
    of_memory,
    whole,
)
from ..models.prompts.fence import fenced_answer, memory_line
from ..records import MEMORY_TYPES, Fact, Filter, Scope
from . import backend
from .off_record import mode_of
from .service import KagentMemoryService
from .tool_args import asked_filter, holds_all, labels, narrowed
from .validation import checked_whole

MAX_FORGOTTEN = MAX_CONFIRMED = 10
MAX_WAITING = 50  # that a list of confirm_memory holds
HINT_TOKENS = 500  # of one memory in what a person is asked
_QUESTIONS = {
    "confirm": "Let these memories out of quarantine, so that agents find them?",
    "reject": "Erase these memories, which wait in quarantine, for good?",
}
DEFAULT_LIMIT, MAX_LIMIT = 5, 50  # of recall_memory
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}


class _MemoryTool(BaseTool):
    """A tool that a model calls with plain arguments and that answers with a plain dict."""

    changes_memory = True

    def __init__(self, name: str, description: str, memory_service: BaseMemoryService | None) -> None:
        super().__init__(name=name, description=description)
        self.memory_service = memory_service

    @classmethod
    @override
    def from_config(cls, config: ToolArgsConfig | None, config_abs_path: str) -> Self:
        """Return the tool of a YAML agent; `args` are the constructor's arguments, None where it gives none."""
        return cls(**(config.model_dump() if config else {}))

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
        mode = mode_of(tool_context.get_invocation_context())
        if mode == "off":
            return backend.OFF_RECORD
        if mode == "read" and self.changes_memory:
            return backend.READ_ONLY
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
        budget_tokens: of all their texts together, in tokens of 4 ASCII characters or 1 other.
        name: what the model calls it.

    Raises:
        ConfigurationError: a number does not fit.
    """

    changes_memory = False

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        limit: int | None = None,
        filter: Filter = Filter(),
        budget_tokens: int = DEFAULT_ANSWER_TOKENS,
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
        wanted, limit = self._narrowed(args, context)
        budget = self.budget_tokens
        findings = await backend.find(service, context, query, limit=limit, filter=wanted, budget_tokens=budget)
        return fenced_answer([memory.fields for memory in findings])

    def _narrowed(self, args: Mapping[str, Any], context: ToolContext) -> tuple[Filter, int | None]:
        """Which memories count, and how many at most."""
        return self.filter, self.limit


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
        budget_tokens: int = DEFAULT_ANSWER_TOKENS,
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

    @property
    def _default(self) -> int:
        return DEFAULT_LIMIT if self.limit is None else self.limit

    @override
    def _narrowed(self, args: Mapping[str, Any], context: ToolContext) -> tuple[Filter, int]:
        asked = asked_filter(args)
        if str(args.get("this_session")).lower() == "true":  # models write booleans as texts too
            asked = replace(asked, session_id=context.session.id)
        wanted, limit = narrowed(self.filter, asked), whole(args, "limit")
        most = MAX_LIMIT if self.limit is None else self.limit
        return wanted, self._default if limit is None else min(limit, most)


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
        findings = await backend.find(service, context, query, limit=MAX_FORGOTTEN)
        certain = [
            str(memory.fields["id"]) for memory in findings if "id" in memory.fields and holds_all(memory.text, query)
        ]
        if args.get("confirm") is True and certain:
            return {"status": "forgotten", "ids": await backend.erase(service, context, certain)}
        message = "Nothing was erased. Call again with the ids to erase and confirm=true."
        shown = affordable(findings, DEFAULT_ANSWER_TOKENS)
        return {"status": "confirmation required", "message": message, **fenced_answer([m.fields for m in shown])}


class ConfirmMemoryTool(_MemoryTool):
    """`confirm_memory(ids=None, decision="confirm")`: what waits in quarantine is let in or erased if a person agrees.

    Without ids it lists what waits, which the model then reads. With ids it changes nothing, but asks by ADK's tool
    confirmation and shows the memories' texts; only a person's answer to that request decides, nothing that a model or
    a tool says. It takes up to 10 memories at once.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
    """

    def __init__(self, *, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(
            "confirm_memory",
            "Lists the memories that wait in quarantine until a person confirms them; with their ids it asks the user"
            " to confirm them, or to erase them (decision=reject). Only call it with ids when the user wants that.",
            memory_service,
        )

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        ids = {**_TEXTS, "description": f"Ids from this tool's list, {MAX_CONFIRMED} at most; none: list what waits."}
        decision = {"type": "string", "enum": list(_QUESTIONS), "description": "Default: confirm. reject erases."}
        return {"properties": {"ids": ids, "decision": decision}}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        if not isinstance(service, KagentMemoryService):
            raise InvalidInput("Quarantine is not supported by this memory service.")
        ids, decision = tuple(dict.fromkeys(labels(args, "ids"))), args.get("decision")
        decision = "confirm" if decision is None or decision == "" else decision
        if decision not in ("confirm", "reject"):
            raise InvalidInput("decision must be confirm or reject.")
        if len(ids) > MAX_CONFIRMED:
            raise InvalidInput(f"ids may name {MAX_CONFIRMED} memories at once.")
        scope = service.scope(context.session.app_name, context.session.user_id)
        if not ids:
            return await _waiting(service, scope)
        if context.tool_confirmation and not context.tool_confirmation.confirmed:
            return {"status": "declined", "message": "Nothing was changed: the user did not agree."}
        hint = await _hint(service, scope, ids, _QUESTIONS[decision])
        if not context.tool_confirmation:
            context.request_confirmation(hint=hint)
            context.actions.skip_summarization = True
            return {"status": "confirmation required", "message": "Nothing was changed yet: the user is asked."}
        if hint != backend.confirmed_hint(context):
            raise InvalidInput("Nothing was changed: it is not what the user was shown. Call the tool again.")
        return await self._decided(service, scope, ids, decision)

    async def _decided(
        self, service: KagentMemoryService, scope: Scope, ids: Sequence[str], decision: str
    ) -> dict[str, Any]:
        """Does what a person agreed to; one that fails does not keep the others from it."""
        status = "confirmed" if decision == "confirm" else "rejected"

        async def decide(id: str) -> dict[str, Any]:
            if decision == "confirm":
                await service.memories.confirm(scope, id, who=self.name)
            else:
                await service.memories.reject(scope, id, who=self.name)
            return {"status": status}

        answers = {id: await answered(self.name, decide(id)) for id in ids}
        failed = {id: answer["error"] for id, answer in answers.items() if "error" in answer}
        if len(failed) == len(ids):
            return {"error": " ".join(dict.fromkeys(failed.values()))}
        done = [id for id in ids if id not in failed]
        return {"status": status, "ids": done, **({"failed": failed} if failed else {})}


async def _waiting(service: KagentMemoryService, scope: Scope) -> dict[str, Any]:
    """What waits, newest first, as far as a tool's answer may be long."""
    waiting = await service.memories.list(scope, filter=Filter(superseded="quarantined"), limit=MAX_WAITING)
    shown = affordable([of_memory(memory) for memory in waiting.memories], DEFAULT_ANSWER_TOKENS)
    more = waiting.cursor is not None or len(shown) < len(waiting.memories)
    note = {"message": "More wait than are shown here."} if more else {}
    return {**fenced_answer([memory.fields for memory in shown]), **note}


async def _hint(service: KagentMemoryService, scope: Scope, ids: Sequence[str], question: str) -> str:
    """What a person reads before they agree: each memory on a line of its own, cut where it is long.

    Raises:
        NotFound: one of them does not wait in quarantine.
    """
    lines = [question]
    for id in ids:
        memory = await service.memories.get(scope, id, superseded=True)
        if memory.state != "quarantined":
            raise NotFound(f"No memory {id} waits in the quarantine of this scope.")
        [shown] = affordable([of_memory(memory)], HINT_TOKENS)
        lines.append(f"{memory_line(shown.text, at=memory.created_at, origin=memory.origin)} ({memory.id})")
    return "\n".join(lines)
