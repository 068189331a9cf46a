"""From an ADK context to memory: whose it is, which service serves it, and the verbs a tool needs of any service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from ..errors import InvalidInput
from ..memories.tool_answers import SOURCE, Found, affordable, of_hit, saved_id
from ..records import GATED, Fact, Filter
from .answers import storable_id
from .entry_converter import to_found
from .event_converter import CONFIRMATION, is_user_turn
from .service import KagentMemoryService

log = logging.getLogger("kagent_memory")
NO_SERVICE = {"error": "Memory service is not available."}
OFF_RECORD = {"error": "This conversation is off the record: memory is not used, and nothing was changed."}
READ_ONLY = {"error": "This conversation is off the record: nothing was changed. Memory may only be read."}


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
        entries = [to_found(entry) for entry in answer.memories[:limit]]
        # In a thread, for the first time loads what ours has loaded when it is opened.
        return Findings(await asyncio.to_thread(affordable, entries, budget_tokens))
    reading, own = service.scopes(session.app_name, session.user_id)
    recall = service.memories.recall
    asking = session.id if storable_id(session.id) == session.id else None  # of another nothing can be kept
    recalled = await recall(
        reading, query, limit=limit, filter=filter, budget_tokens=budget_tokens, session_id=asking, **more
    )
    hits = affordable([of_hit(hit, shared=hit.scope != own) for hit in recalled], budget_tokens)
    return Findings(hits, gated=GATED in recalled.degraded)


async def store(service: BaseMemoryService, context: Context, fact: Fact, replaces: str | None) -> str | None:
    """Stores a fact; gives its id where the service tells it.

    Raises:
        InvalidInput: it does not fit, or a service of others was asked to replace.
    """
    session = context.session
    if isinstance(service, KagentMemoryService):
        scope = service.scope(session.app_name, session.user_id)
        ids = await service.memories.add(scope, [fact], who=context.agent_name, replaces=replaces)
        return saved_id(ids)
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
        return list(
            await service.memories.forget(service.scope(session.app_name, session.user_id), ids, who="forget_memory")
        )
    if not hasattr(service, "delete_memory"):  # ADK < 2.13
        raise InvalidInput("Forgetting is not supported by this memory service.")
    for memory_id in ids:
        await service.delete_memory(app_name=session.app_name, user_id=session.user_id, memory_id=memory_id)
    return list(ids)


def confirmed_hint(context: Context) -> str | None:
    """What a person was shown who now answered ADK's request to confirm this call; None: no such request of ADK's."""
    events = context.session.events
    last = next((event for event in reversed(events) if event.author == "user"), None)
    responses = last.get_function_responses() if last else []
    answered = {response.id for response in responses if response.name == CONFIRMATION}
    for event in events:
        asked = answered & (event.long_running_tool_ids or set())  # a call that a model made up is not among these
        for call in event.get_function_calls():
            args = call.args or {}
            if call.id in asked and args["originalFunctionCall"]["id"] == context.function_call_id:
                return args["toolConfirmation"].get("hint")
    return None
