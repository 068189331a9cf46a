"""The memory tools: what a model may do, with plain answers; whose memories they are is never the
model's choice.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.tools.base_tool import BaseTool
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
    Found,
    affordable,
    answered,
    given,
    of_memory,
    whole,
)
from ..models.prompts.fence import fenced_answer, memory_line
from ..records import MEMORY_TYPES, Fact, Filter, Scope
from . import backend
from .arguments import asked_filter, checked_whole, from_yaml, labels, narrowed
from .service import KagentMemoryService
from .sessions import mode_of

if TYPE_CHECKING:
    from ..memories import Memories

MAX_DECIDED = 10  # memories that are forgotten or confirmed at once
MAX_WAITING = 50  # that a list of confirm_memory holds
SHOWN_TOKENS = 500  # of one memory that somebody decides about
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

    def __init__(
        self, name: str, description: str, memory_service: BaseMemoryService | None
    ) -> None:
        super().__init__(name=name, description=description)
        self.memory_service = memory_service

    from_config = from_yaml

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
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=schema
        )

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
        answer = self._answer(service, args, tool_context)
        return await answered(self.name, backend.guarded(service, answer))


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
        super().__init__("save_memory", SAVE_MEMORY, memory_service)
        if isinstance(tags, str):
            raise ConfigurationError(
                f"SaveMemoryTool(tags=…) takes a list of strings, such as [{tags!r}]."
            )
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
        memory_id = await backend.store(
            service, context, fact, str(args.get("replaces") or "") or None
        )
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
    has_floor = True

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        limit: int | None = None,
        filter: Filter = Filter(),
        budget_tokens: int = DEFAULT_ANSWER_TOKENS,
        name: str = "load_memory",
    ) -> None:
        super().__init__(name, LOAD_MEMORY, memory_service)
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
        findings = await backend.find(
            service,
            context,
            query,
            limit=limit,
            filter=wanted,
            budget_tokens=budget,
            handover=self.has_floor,
        )
        return fenced_answer([memory.fields for memory in findings])

    def _narrowed(self, args: Mapping[str, Any], context: ToolContext) -> tuple[Filter, int | None]:
        """Return the filter of a search, and the most memories that it returns."""
        return self.filter, self.limit


class RecallMemoryTool(LoadMemoryTool):
    """`recall_memory(query, …)`: LoadMemoryTool with filters that a model can use.

    The model may ask for a number of memories, and narrow by types, topics, tags, importance, dates
    and to this session; metadata and the rest of a `Filter` are the developer's, by `filter=`.

    Args:
        limit: memories at most, and as many as come when the model names no number; None: 5 come,
            and the model may ask for up to 50.
        memory_service: for use inside AgentTool; None: the run's.
        filter: which memories count, whatever the model asks.
        budget_tokens: see `LoadMemoryTool`.

    Raises:
        ConfigurationError: a number does not fit.
    """

    has_floor = False

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
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": f"Max results (default: {self._default})",
            },
            "types": {"type": "array", "items": {"type": "string", "enum": list(MEMORY_TYPES)}},
            "topics": {**_TEXTS, "description": "Any of these."},
            "tags": {**_TEXTS, "description": "All of these."},
            "min_importance": {"type": "number", "minimum": 0, "maximum": 1},
            "after": day,
            "before": day,
            "this_session": {
                "type": "boolean",
                "description": "Only what was remembered in this conversation.",
            },
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


LINKED = "These say the same in other words and are not erased, unless their ids are named too."
_FORGET = {
    "model": "Erases memories for good. First call it with a query, or with ids that "
    "load_memory showed: it lists what"
    " would be erased and erases nothing. Tell the user; after they agree call it again with "
    "those ids and the token.",
    "person": (
        "Erases memories for good. With a query it lists what fits; with ids it asks the "
        "user, who decides."
    ),
}


class ForgetMemoryTool(_MemoryTool):
    """`forget_memory(ids=None, query=None, token=None)`: erases memories for good, once somebody
    agreed.

    A first call erases nothing: it lists what would go, up to 10 memories, with a token for the
    second call. The token fits these memories and no others, in this conversation only.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
        confirm: "model": the model gives the token once the user agreed; "person": there is no
            token, ADK's tool confirmation asks the user, and only their answer decides.

    Raises:
        ConfigurationError: `confirm` is something else.
    """

    def __init__(
        self,
        *,
        memory_service: BaseMemoryService | None = None,
        confirm: Literal["model", "person"] | None = None,
    ) -> None:
        self.confirm = confirm or "model"
        if self.confirm not in _FORGET:
            raise ConfigurationError(
                f'ForgetMemoryTool(confirm=…) takes "model" or "person", not {confirm!r}.'
            )
        super().__init__("forget_memory", _FORGET[self.confirm], memory_service)

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        ids = {**_TEXTS, "description": f"Ids of the memories to erase, {MAX_DECIDED} at most."}
        query = {**_TEXT, "description": "What the memories to erase are about."}
        token = {
            **_TEXT,
            "description": "Of the answer that listed these memories; only after the user agreed.",
        }
        more = {"token": token} if self.confirm == "model" else {}
        return {"properties": {"ids": ids, "query": query, **more}}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        ids = _named(args)
        if not ids:
            query = str(args.get("query") or "").strip()
            if not query:
                raise InvalidInput("ids or query is required.")
            fitting = await backend.find(
                service, context, query, limit=MAX_DECIDED, budget_tokens=DEFAULT_ANSWER_TOKENS
            )
            return self._listed(context, fitting)
        memories = [_cut(memory) for memory in await backend.read(service, context, ids)]
        same = fenced_answer(
            [memory.fields for memory in await backend.linked_with(service, context, ids)]
        )
        linked = {"linked": {**same, "message": LINKED}} if same["memories"] else {}
        if self.confirm == "person":
            if (asked := _asked(context, "Erase these memories for good?", memories)) is not None:
                return {**asked, **linked}
        elif args.get("token") != _token(context, memories):
            return {**self._listed(context, memories), **linked}
        return {"status": "forgotten", "ids": await backend.erase(service, context, ids), **linked}

    def _listed(self, context: ToolContext, memories: Sequence[Found]) -> dict[str, Any]:
        """Return what would be erased, and how to go on."""
        if not memories:
            return {"status": "nothing found", **fenced_answer([])}
        again = "Call again with the ids to erase"
        going_on = {"message": f"Nothing was erased. {again}."}
        if self.confirm == "model":
            told = (
                f"Nothing was erased. Tell the user what would be. {again} and the token "
                "once they agreed."
            )
            going_on = {"message": told, "token": _token(context, memories)}
        return {
            "status": "confirmation required",
            **going_on,
            **fenced_answer([one.fields for one in memories]),
        }


class ConfirmMemoryTool(_MemoryTool):
    """`confirm_memory(ids=None, decision="confirm")`: what waits in quarantine is let in or erased
    if a person agrees.

    Without ids it lists what waits, which the model then reads. With ids it changes nothing, but
    asks by ADK's tool confirmation and shows the memories' texts; only a person's answer to that
    request decides, nothing that a model or a tool says. It takes up to 10 memories at once.

    Args:
        memory_service: for use inside AgentTool; None: the run's.
    """

    def __init__(self, *, memory_service: BaseMemoryService | None = None) -> None:
        super().__init__(
            "confirm_memory",
            "Lists the memories that wait in quarantine until a person confirms them; with "
            "their ids it asks the user"
            " to confirm them, or to erase them (decision=reject). Only call it with ids when "
            "the user wants that.",
            memory_service,
        )

    @property
    @override
    def _arguments(self) -> Mapping[str, Any]:
        ids = {
            **_TEXTS,
            "description": (
                f"Ids from this tool's list, {MAX_DECIDED} at most; none: list what waits."
            ),
        }
        decision = {
            **_TEXT,
            "enum": list(_QUESTIONS),
            "description": "Default: confirm. reject erases.",
        }
        return {"properties": {"ids": ids, "decision": decision}}

    @override
    async def _answer(
        self, service: BaseMemoryService, args: Mapping[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        if not isinstance(service, KagentMemoryService):
            raise InvalidInput("Quarantine is not supported by this memory service.")
        ids, decision = _named(args), args.get("decision")
        decision = "confirm" if decision is None or decision == "" else decision
        if decision not in ("confirm", "reject"):
            raise InvalidInput("decision must be confirm or reject.")
        memories, scope = service.memories, backend.scope_of(service, context)
        if not ids:
            return await _waiting(memories, scope)
        held = [await memories.get(scope, id, superseded=True) for id in ids]
        if settled := [memory.id for memory in held if memory.state != "quarantined"]:
            raise NotFound(f"No memory {settled[0]} waits in the quarantine of this scope.")
        shown = [_cut(of_memory(memory)) for memory in held]
        if (asked := _asked(context, _QUESTIONS[decision], shown)) is not None:
            return asked

        async def decide(id: str) -> dict[str, Any]:
            verb = memories.confirm if decision == "confirm" else memories.reject
            return {"decided": await verb(scope, id, who=self.name)}

        answers = {id: await answered(self.name, decide(id)) for id in ids}
        failed = {id: answer["error"] for id, answer in answers.items() if "error" in answer}
        if len(failed) == len(ids):
            return {"error": " ".join(dict.fromkeys(failed.values()))}
        status = "confirmed" if decision == "confirm" else "rejected"
        done = [id for id in ids if id not in failed]
        return {"status": status, "ids": done, **({"failed": failed} if failed else {})}


async def _waiting(memories: Memories, scope: Scope) -> dict[str, Any]:
    """Return what waits, newest first, as far as a tool's answer may be long."""
    page = await memories.list(scope, filter=Filter(superseded="quarantined"), limit=MAX_WAITING)
    shown = affordable([of_memory(memory) for memory in page.memories], DEFAULT_ANSWER_TOKENS)
    more = page.cursor is not None or len(shown) < len(page.memories)
    note = {"message": "More wait than are shown here."} if more else {}
    return {**fenced_answer([memory.fields for memory in shown]), **note}


def _named(args: Mapping[str, Any]) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(labels(args, "ids")))
    if len(ids) > MAX_DECIDED:
        raise InvalidInput(f"ids may name {MAX_DECIDED} memories at once.")
    return ids


def _cut(memory: Found) -> Found:
    """Return a memory as somebody reads it who decides about it: cut where it is long."""
    return affordable([memory], SHOWN_TOKENS)[0]


def _token(context: ToolContext, memories: Sequence[Found]) -> str:
    """Return what only an answer that listed exactly these memories can have told."""
    session = context.session
    listed = sorted(str(memory.fields.get("id")) for memory in memories)
    raw = json.dumps([session.app_name, session.user_id, session.id, listed])
    return blake2b(raw.encode(), digest_size=8).hexdigest()


def _asked(context: ToolContext, question: str, memories: Sequence[Found]) -> dict[str, Any] | None:
    """Ask a person by ADK's tool confirmation; None once they agreed to exactly this.

    Raises:
        InvalidInput: what they agreed to was something else.
    """
    lines = [
        f"{memory_line(one.text, at=one.at, origin=one.origin)} ({one.fields['id']})"
        for one in memories
    ]
    hint = "\n".join([question, *lines])
    if not context.tool_confirmation:
        context.request_confirmation(hint=hint)
        context.actions.skip_summarization = True
        return {
            "status": "confirmation required",
            "message": "Nothing was changed yet: the user is asked.",
        }
    if not context.tool_confirmation.confirmed:
        return {"status": "declined", "message": "Nothing was changed: the user did not agree."}
    if hint != backend.confirmed_hint(context):
        raise InvalidInput(
            "Nothing was changed: it is not what the user was shown. Call the tool again."
        )
    return None
