"""The memory tools that a model calls. The scope is never the model's choice.

The keyword arguments of a tool's `answer` are those that it declares to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import AfterValidator, Field
from typing_extensions import override

from ..checks import parsed_time
from ..errors import Conflict, InvalidInput, NotFound
from ..memories.tool_answers import (
    CONTENT,
    DEFAULT_ANSWER_TOKENS,
    LOAD_MEMORY,
    QUERY,
    REPLACES,
    SAVE_MEMORY,
    SAVED,
    SOURCE,
    affordable,
    answered,
    forgotten,
    saved_id,
    to_decide,
    with_token,
)
from ..models.prompts.fence import Entry, fenced_answer, of_memory
from ..records import EVERYTHING, Fact, Filter, MemoryType
from .arguments import AS_LABELS, Labels, Number, arguments_of, check_option, from_yaml, parse
from .context import Run, ask_person, service_of
from .converter import is_user_turn
from .service import KagentMemoryService
from .sessions import mode_of

MAX_DECIDED = 10  # memories to forget or confirm in one call
MAX_LISTED = 50  # memories in a list of confirm_memory
DEFAULT_LIMIT, MAX_LIMIT = 5, 50  # of recall_memory
NO_SERVICE = {"error": "Memory service is not available."}
OFF_RECORD = {"error": "This conversation is off the record: nothing was read, saved or changed."}


def _required(text: str) -> str:
    if not text.strip():
        raise ValueError("is required")
    return text


Text = Annotated[str, AfterValidator(_required)]
Query = Annotated[Text, Field(description=QUERY)]
Ids = Annotated[
    tuple[str, ...],
    Field(max_length=MAX_DECIDED),
    AfterValidator(lambda ids: tuple(dict.fromkeys(ids))),
    AS_LABELS,
]
Types = Annotated[tuple[MemoryType, ...], AS_LABELS]
Day = Annotated[str, Field(description="ISO 8601 date or time; when it happened.")]


class _MemoryTool(BaseTool):
    """A tool that a model calls with plain arguments and that answers with a plain dict.

    Args:
        name: its name for the model.
        description: its description for the model.
        memory_service: the service, for use inside AgentTool; None: the run's.
        undeclared: an argument of `answer` that is not declared to the model.
    """

    changes_memory = True
    from_config = from_yaml

    def __init__(
        self,
        name: str,
        description: str,
        memory_service: KagentMemoryService | None,
        undeclared: str = "",
    ) -> None:
        super().__init__(name=name, description=description)
        self.memory_service = memory_service
        self._arguments = arguments_of(type(self).answer, undeclared)

    async def answer(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Answer a call; the arguments are the run and, by keyword, those of the model."""
        raise NotImplementedError

    @override
    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=self._arguments.json_schema(),
        )

    @override
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> dict[str, Any]:
        """Return the tool's answer; never raise."""
        service = service_of(tool_context, self.memory_service)
        if service is None:
            return NO_SERVICE
        mode = mode_of(tool_context.get_invocation_context())
        if mode == "off" or (mode == "read" and self.changes_memory):
            return OFF_RECORD

        async def answer() -> dict[str, Any]:
            # models pass "" and null for arguments that they leave out
            arguments = {name: value for name, value in args.items() if value not in (None, "")}
            return await self.answer(
                Run(service, tool_context), **parse(self._arguments, arguments)
            )

        return await answered(self.name, service.availability.guard(answer()))


class SaveMemoryTool(_MemoryTool):
    """`save_memory(content, replaces=None)`: let the model save a memory.

    Args:
        memory_service: the service, for use inside AgentTool; None: the run's.
        ttl_days: days until what it saves expires; 0: never; None: the setting.
        tags: labels for everything it saves.

    Raises:
        ConfigurationError: `ttl_days` or `tags` is invalid.
    """

    def __init__(
        self,
        *,
        memory_service: KagentMemoryService | None = None,
        ttl_days: int | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        super().__init__("save_memory", SAVE_MEMORY, memory_service)
        self.ttl_days = check_option("SaveMemoryTool(ttl_days=…)", ttl_days, Number | None)
        self.tags = tuple(check_option("SaveMemoryTool(tags=…)", tags, Sequence[str]))

    @override
    async def answer(
        self,
        run: Run,
        *,
        content: Annotated[Text, Field(description=CONTENT)],
        replaces: Annotated[str, Field(description=REPLACES)] = "",
    ) -> dict[str, Any]:
        context, session = run.context, run.context.session
        # the user's turn of this invocation, so that forgetting it holds for this memory too
        turn_ids = [
            event.id
            for event in session.events
            if event.invocation_id == context.invocation_id and is_user_turn(event)
        ]
        fact = Fact(
            content,
            origin="agent",
            author=context.agent_name,
            session_id=session.id,
            event_ids=tuple(turn_ids[-1:]),
            tags=self.tags,
            ttl_days=self.ttl_days,
            metadata=SOURCE,
        )
        ids = await run.memories.add(
            run.scope, [fact], who=context.agent_name, replaces=replaces or None
        )
        return {"status": "saved", "id": saved_id(ids), "message": SAVED}


class LoadMemoryTool(_MemoryTool):
    """`load_memory(query)`: let the model search for memories, best first.

    Args:
        memory_service: the service, for use inside AgentTool; None: the run's.
        limit: the most memories; None: the setting.
        filter: limits every search, whatever the model asks.
        budget_tokens: the most tokens of all texts, at 4 ASCII characters or 1 other per token.
        name: its name for the model.

    Raises:
        ConfigurationError: a number is invalid.
    """

    changes_memory = False

    def __init__(
        self,
        *,
        memory_service: KagentMemoryService | None = None,
        limit: int | None = None,
        filter: Filter = Filter(),
        budget_tokens: int = DEFAULT_ANSWER_TOKENS,
        name: str = "load_memory",
    ) -> None:
        super().__init__(name, LOAD_MEMORY, memory_service)
        self.limit = check_option(f"The limit of {name}", limit, Number | None)
        self.budget_tokens = check_option(f"The budget_tokens of {name}", budget_tokens, Number)
        self.filter = filter

    @override
    async def answer(self, run: Run, *, query: Query) -> dict[str, Any]:
        return await self._search(run, query, limit=self.limit, filter=self.filter, handover=True)

    async def _search(self, run: Run, query: str, **options: Any) -> dict[str, Any]:
        return fenced_answer(await run.find(query, budget_tokens=self.budget_tokens, **options))


class RecallMemoryTool(LoadMemoryTool):
    """`recall_memory(query, …)`: a LoadMemoryTool with filters for the model.

    The model may choose the number of memories, and narrow by types, topics, tags, importance,
    dates and to this session; metadata and the rest of a `Filter` are the developer's, by
    `filter=`.

    Args:
        limit: the most memories, and the default if the model names no number; None: 5 by default
            and at most 50.
        **options: see `LoadMemoryTool`.

    Raises:
        ConfigurationError: a number is invalid.
    """

    def __init__(self, limit: int | None = None, **options: Any) -> None:
        super().__init__(limit=limit, name="recall_memory", **options)

    @override
    async def answer(
        self,
        run: Run,
        *,
        query: Query,
        limit: Annotated[int | None, Field(ge=1, description="Max results.")] = None,
        types: Types = (),
        topics: Annotated[Labels, Field(description="Any of these.")] = (),
        tags: Annotated[Labels, Field(description="All of these.")] = (),
        min_importance: Annotated[float, Field(ge=0, le=1)] = 0,
        after: Day = "",
        before: Day = "",
        this_session: Annotated[
            bool, Field(description="Only what was remembered in this conversation.")
        ] = False,
    ) -> dict[str, Any]:
        requested = Filter(
            types=types,
            topics=topics,
            tags=tags,
            min_importance=min_importance or None,
            happened_after=parsed_time(after, "after") if after else None,
            happened_before=parsed_time(before, "before") if before else None,
            session_id=run.context.session.id if this_session else None,
        )
        # the fields of the developer's filter win
        fixed = {
            field.name: value
            for field in fields(Filter)
            if (value := getattr(self.filter, field.name)) != getattr(EVERYTHING, field.name)
        }
        limit = min(limit or self.limit or DEFAULT_LIMIT, self.limit or MAX_LIMIT)
        return await self._search(run, query, limit=limit, filter=replace(requested, **fixed))


Who = Literal["model", "person"]
NOT_YET = (
    "Nothing was erased. Tell the user what would be. Call again with the ids to erase "
    "and the token once they agreed."
)
_FORGET = {
    "model": "Erases memories for good. First call it with a query, or with ids that "
    "load_memory showed: it lists what would be erased and erases nothing. Tell the user; after "
    "they agree call it again with those ids and the token.",
    "person": (
        "Erases memories for good. With a query it lists what fits; with ids it asks the "
        "user, who decides."
    ),
}


class ForgetMemoryTool(_MemoryTool):
    """`forget_memory(ids=None, query=None, token=None)`: erase memories for good, after the
    user agreed.

    A first call erases nothing: it lists up to 10 memories that would be erased, with a token for
    the second call. The token is valid for exactly these memories in this conversation.

    Args:
        memory_service: the service, for use inside AgentTool; None: the run's.
        confirm: "model": the model passes the token once the user agreed; "person": there is no
            token; ADK's tool confirmation asks the user, and only their answer decides.

    Raises:
        ConfigurationError: `confirm` is anything else.
    """

    def __init__(
        self,
        *,
        memory_service: KagentMemoryService | None = None,
        confirm: Who = "model",
    ) -> None:
        self.confirm: Who = check_option("ForgetMemoryTool(confirm=…)", confirm, Who)
        undeclared = "token" if self.confirm == "person" else ""
        super().__init__("forget_memory", _FORGET[self.confirm], memory_service, undeclared)

    @override
    async def answer(
        self,
        run: Run,
        *,
        ids: Annotated[
            Ids, Field(description=f"Ids of the memories to erase, {MAX_DECIDED} at most.")
        ] = (),
        query: Annotated[str, Field(description="What the memories to erase are about.")] = "",
        token: Annotated[
            str,
            Field(
                description="Of the answer that listed these memories; only after the user agreed."
            ),
        ] = "",
    ) -> dict[str, Any]:
        if ids:
            return await forgotten(
                run.memories,
                run.scope,
                ids,
                who=self.name,
                token=token,
                ask=lambda entries: self._ask(run, entries),
            )
        if not query.strip():
            raise InvalidInput("ids or query is required.")
        entries = await run.find(query, limit=MAX_DECIDED, budget_tokens=DEFAULT_ANSWER_TOKENS)
        if not entries:
            return {"status": "nothing found", **fenced_answer(())}
        if self.confirm == "person":
            return {"status": "confirmation required", **fenced_answer(entries)}
        return _with_token(run, entries)

    def _ask(self, run: Run, entries: Sequence[Entry]) -> dict[str, Any] | None:
        """Return the answer to give before these memories are erased; None once a person agreed."""
        if self.confirm == "person":
            return ask_person(run.context, "Erase these memories for good?", entries)
        return _with_token(run, entries)


def _with_token(run: Run, entries: Sequence[Entry]) -> dict[str, Any]:
    session = run.context.session
    return with_token(entries, (session.app_name, session.user_id, session.id), NOT_YET)


_QUESTIONS = {
    "confirm": "Let these memories out of quarantine, so that agents find them?",
    "reject": "Erase these memories, which wait in quarantine, for good?",
}


class ConfirmMemoryTool(_MemoryTool):
    """`confirm_memory(ids=None, decision="confirm")`: release quarantined memories or erase them,
    if a person agrees.

    Without ids it lists quarantined memories for the model. With ids it asks a person by ADK's tool
    confirmation, which shows the memories' texts; only the person's answer to that request
    decides, never a model or a tool. It takes up to 10 memories at once.

    Args:
        memory_service: the service, for use inside AgentTool; None: the run's.
    """

    def __init__(self, *, memory_service: KagentMemoryService | None = None) -> None:
        super().__init__(
            "confirm_memory",
            "Lists the memories that wait in quarantine until a person confirms them; with "
            "their ids it asks the user"
            " to confirm them, or to erase them (decision=reject). Only call it with ids when "
            "the user wants that.",
            memory_service,
        )

    @override
    async def answer(
        self,
        run: Run,
        *,
        ids: Annotated[
            Ids,
            Field(
                description=f"Ids from this tool's list, {MAX_DECIDED} at most; none: list what "
                "waits."
            ),
        ] = (),
        decision: Annotated[
            Literal["confirm", "reject"], Field(description="Default: confirm. reject erases.")
        ] = "confirm",
    ) -> dict[str, Any]:
        memories, scope = run.memories, run.scope
        if not ids:  # list the newest, as many as fit an answer
            quarantined = Filter(superseded="quarantined")
            page = await memories.list(scope, filter=quarantined, limit=MAX_LISTED)
            entries = await affordable(
                [of_memory(memory) for memory in page.memories], DEFAULT_ANSWER_TOKENS
            )
            is_partial = page.cursor is not None or len(entries) < len(page.memories)
            note = {"message": "More wait than are shown here."} if is_partial else {}
            return {**fenced_answer(entries), **note}
        chosen = [await memories.get(scope, id, superseded=True) for id in ids]
        for memory in chosen:
            if memory.state != "quarantined":
                raise NotFound(f"No memory {memory.id} waits in the quarantine of this scope.")
        entries = await to_decide(chosen)
        if (pending := ask_person(run.context, _QUESTIONS[decision], entries)) is not None:
            return pending

        decide = memories.confirm if decision == "confirm" else memories.reject
        failed = dict[str, str]()
        for id in ids:
            try:
                await decide(scope, id, who=self.name)
            except (Conflict, NotFound) as error:  # the others are decided all the same
                failed[id] = str(error)
        if len(failed) == len(ids):
            return {"error": " ".join(dict.fromkeys(failed.values()))}
        decided = [id for id in ids if id not in failed]
        return {"status": f"{decision}ed", "ids": decided, **({"failed": failed} if failed else {})}
