"""From an ADK context to memory: whose it is, which service serves it, and the verbs a tool needs of any service."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, cast, overload

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from ..errors import ConfigurationError, Conflict, InvalidInput, NotFound
from ..language.tokenizer import beginning, estimated_tokens
from ..models.prompts.escaping import escaped
from ..records import Fact, Filter, Hit
from ..redaction import redact
from ..retrieval.retriever import GATED
from .answers import storable_id
from .event_converter import is_user_turn, text_of
from .service import KagentMemoryService

log = logging.getLogger("kagent_memory")
NO_SERVICE = {"error": "Memory service is not available."}
UNAVAILABLE = {"error": "memory unavailable"}
SOURCE = {"source": "explicit_save"}


@dataclass(frozen=True, slots=True)
class Found:
    """One memory as any service gives it.

    Attributes:
        fields: what a model may read of it, null and empty ones left out.
    """

    text: str
    at: datetime | None
    origin: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Findings(Sequence[Found]):
    """What a search found, best first, and whether it was held back as asking for nothing."""

    found: Sequence[Found] = ()
    gated: bool = False

    @overload
    def __getitem__(self, index: int) -> Found: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Found]: ...
    def __getitem__(self, index: int | slice) -> Found | Sequence[Found]:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)


def service_of(context: Context, explicit: BaseMemoryService | None = None) -> BaseMemoryService | None:
    """The given service, else the run's; AgentTool gives its runs a throw-away one, hence the first."""
    return explicit or context.get_invocation_context().memory_service


def user_event_ids(context: Context) -> tuple[str, ...]:
    """The event that began this invocation, so that forgetting what came of it holds."""
    events = reversed(context.session.events)
    begun = (e.id for e in events if e.invocation_id == context.invocation_id and is_user_turn(e))
    return tuple(storable_id(id) for id in islice(begun, 1))


async def answered(tool: str, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """A tool's answer; no failure of memory ends an agent's run, and none is logged with content."""
    try:
        return await work
    except (InvalidInput, NotFound, Conflict) as error:
        return {"error": str(error)}
    except Exception as error:
        report(tool, error)
        return UNAVAILABLE


def report(what: str, error: Exception) -> None:
    """Logs a failure by its kinds, for messages of drivers and models may quote content; only what the operator has
    to change is said in words.
    """
    causes = [type(error).__name__]
    advice = f": {redact(str(error))}" if isinstance(error, ConfigurationError) else ""
    while (cause := error.__cause__) and isinstance(cause, Exception) and len(causes) < 5:
        causes.append(type(cause).__name__)
        error = cause
    log.warning("%s: memory unavailable (%s)%s", what, " from ".join(causes), advice)


async def find(
    service: BaseMemoryService,
    context: Context,
    query: str,
    *,
    limit: int | None = None,
    filter: Filter = Filter(),
    budget_tokens: int | None = None,
    **more: Any,
) -> Findings:
    """The memories that answer a query, within a budget of tokens; services of others know only the query.

    Args:
        service: any memory service.
        context: whose memories.
        query: what for.
        limit: memories at most; None: the service's setting.
        filter: which memories count.
        budget_tokens: of all their texts and labels; a memory that is longer alone is cut.
        **more: further arguments of `Memories.recall`.
    """
    session = context.session
    if not isinstance(service, KagentMemoryService):
        answer = await service.search_memory(app_name=session.app_name, user_id=session.user_id, query=query)
        return Findings(affordable([_of_entry(entry) for entry in answer.memories[:limit]], budget_tokens))
    scope = service.scope(session.app_name, session.user_id)
    recall = service.memories.recall
    found = await recall(scope, query, limit=limit, filter=filter, budget_tokens=budget_tokens, **more)
    hits = affordable([_of_hit(hit) for hit in found], budget_tokens)
    return Findings(hits, gated=GATED in found.degraded)


def affordable(found: Sequence[Found], budget_tokens: int | None) -> list[Found]:
    """The first of them that the budget allows for, as a model will read them; the very first is cut if need be."""
    if budget_tokens is None:
        return list(found)
    kept: list[Found] = []
    spent = 0
    for one in found:
        spent += sum(map(_weight, one.fields.values()))
        if spent > budget_tokens and not kept:
            return [_cut(one, budget_tokens)]
        if spent > budget_tokens:
            break
        kept.append(one)
    return kept


def _weight(value: object) -> int:
    """The tokens of a field as a model will read it; what is no text is short."""
    if isinstance(value, str):
        return estimated_tokens(escaped(value, one_line=True))
    return sum(map(_weight, cast("list[object]", value))) if isinstance(value, list) else 0


def _cut(one: Found, budget_tokens: int) -> Found:
    """A memory that is longer than the budget alone: without its labels, and the beginning of its text."""
    whole = escaped(one.text, one_line=True)
    text = beginning(whole, budget_tokens)
    if text != whole:
        text += f" … [cut off; it has {len(one.text):,} characters in all]"
    fields = {name: value for name, value in one.fields.items() if not isinstance(value, list) and name != "author"}
    return replace(one, text=text, fields={**fields, "text": text})


async def store(service: BaseMemoryService, context: Context, fact: Fact, replaces: str | None) -> str | None:
    """Stores a fact; gives its id where the service tells it.

    Raises:
        InvalidInput: it does not fit, or a service of others was asked to replace.
    """
    session = context.session
    if isinstance(service, KagentMemoryService):
        scope = service.scope(session.app_name, session.user_id)
        ids = await service.memories.add(scope, [fact], who=context.agent_name, replaces=replaces)
        return ids[0]
    if replaces is not None:
        raise InvalidInput("replaces is not supported by this memory service.")
    content = types.Content(role="model", parts=[types.Part(text=fact.text)])
    app, user = session.app_name, session.user_id
    try:
        entry = MemoryEntry(content=content, author=context.agent_name)
        marks = {"session_id": session.id, **SOURCE}
        await service.add_memory(app_name=app, user_id=user, memories=[entry], custom_metadata=marks)
    except NotImplementedError:
        event = Event(author=context.agent_name, content=content, invocation_id=context.invocation_id)
        await service.add_events_to_memory(app_name=app, user_id=user, events=[event], session_id=session.id)
    return None


async def erase(service: BaseMemoryService, context: Context, ids: Sequence[str]) -> list[str]:
    """Erases memories by id; gives those erased.

    Raises:
        NotFound: one of them is not there.
    """
    session = context.session
    if isinstance(service, KagentMemoryService):
        return list(await service.memories.forget(service.scope(session.app_name, session.user_id), ids))
    if not hasattr(service, "delete_memory"):  # ADK < 2.13
        raise InvalidInput("Forgetting is not supported by this memory service.")
    for memory_id in ids:
        await service.delete_memory(app_name=session.app_name, user_id=session.user_id, memory_id=memory_id)
    return list(ids)


def _of_hit(hit: Hit) -> Found:
    memory = hit.memory
    fields = {
        "id": memory.id,
        "text": memory.content,
        "relevance": round(hit.score, 3),
        "happened_at": memory.happened_at.isoformat() if memory.happened_at else None,
        "stored_at": None if memory.happened_at else memory.created_at.isoformat(),
        "type": memory.type,
        "origin": memory.origin,
        "author": memory.author,
        "topics": list(memory.topics),
        "tags": list(memory.tags),
    }
    at = memory.happened_at or memory.created_at
    return Found(memory.content, at, memory.origin, _filled(fields))


def _of_entry(entry: MemoryEntry) -> Found:
    text = text_of(entry.content)
    fields = {"id": entry.id, "text": text, "happened_at": entry.timestamp, "author": entry.author}
    try:
        at = datetime.fromisoformat(entry.timestamp) if entry.timestamp else None
    except ValueError:
        at = None
    return Found(text, at, "", _filled(fields))


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
