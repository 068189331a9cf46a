"""From an ADK context to memory: whose it is, which service serves it, and the verbs a tool needs
of any service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from itertools import islice
from typing import Any, TypeVar

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from ..errors import InvalidInput
from ..memories.tool_answers import SOURCE, Found, affordable, linked, of_hit, of_memory, saved_id
from ..records import Fact, Filter, Scope
from .entry_converter import to_found
from .event_converter import CONFIRMATION, is_user_turn, storable_id
from .service import KagentMemoryService

Result = TypeVar("Result")
NO_SERVICE = {"error": "Memory service is not available."}
OFF_RECORD = {
    "error": "This conversation is off the record: memory is not used, and nothing was changed."
}
READ_ONLY = {
    "error": "This conversation is off the record: nothing was changed. Memory may only be read."
}


def service_of(
    context: Context, explicit: BaseMemoryService | None = None
) -> BaseMemoryService | None:
    """The given service, else the run's; AgentTool gives its runs a throw-away one, hence the
    first.
    """
    return explicit or context.get_invocation_context().memory_service


def guarded(service: BaseMemoryService, work: Awaitable[Result]) -> Awaitable[Result]:
    """Return `work` as a turn waits for it: not for long while our database answers nothing."""
    return service.availability.guard(work) if isinstance(service, KagentMemoryService) else work


def scope_of(service: KagentMemoryService, context: Context) -> Scope:
    """Return the scope that a run writes to."""
    return service.scope(context.session.app_name, context.session.user_id)


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
) -> list[Found]:
    """The memories that answer a query, within a budget of tokens; services of others know only the
    query.

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
        answer = await service.search_memory(
            app_name=session.app_name, user_id=session.user_id, query=query
        )
        entries = [to_found(entry) for entry in answer.memories[:limit]]
        # in a thread: for the first time it loads what ours has loaded when it is opened
        return await asyncio.to_thread(affordable, entries, budget_tokens, query)
    reading, own = service.scopes(session.app_name, session.user_id)
    recall = service.memories.recall
    # of another nothing can be kept
    asking = session.id if storable_id(session.id) == session.id else None
    recalled = await recall(
        reading,
        query,
        limit=limit,
        filter=filter,
        budget_tokens=budget_tokens,
        session_id=asking,
        **more,
    )
    return affordable(
        [of_hit(hit, shared=hit.scope != own) for hit in recalled], budget_tokens, query
    )


async def store(
    service: BaseMemoryService, context: Context, fact: Fact, replaces: str | None
) -> str | None:
    """Store a fact, and return its id where the service tells it.

    Raises:
        InvalidInput: it does not fit, or a service of others was asked to replace.
    """
    session = context.session
    if isinstance(service, KagentMemoryService):
        scope = scope_of(service, context)
        ids = await service.memories.add(scope, [fact], who=context.agent_name, replaces=replaces)
        return saved_id(ids)
    if replaces is not None:
        raise InvalidInput("replaces is not supported by this memory service.")
    content = types.Content(role="model", parts=[types.Part(text=fact.text)])
    app, user = session.app_name, session.user_id
    try:
        entry = MemoryEntry(content=content, author=context.agent_name)
        marks = {"session_id": session.id, **SOURCE}
        await service.add_memory(
            app_name=app, user_id=user, memories=[entry], custom_metadata=marks
        )
    except NotImplementedError:
        event = Event(
            author=context.agent_name, content=content, invocation_id=context.invocation_id
        )
        await service.add_events_to_memory(
            app_name=app, user_id=user, events=[event], session_id=session.id
        )
    return None


async def linked_with(
    service: BaseMemoryService, context: Context, ids: Sequence[str]
) -> list[Found]:
    """Return what is linked with some memories, where the service knows."""
    if not isinstance(service, KagentMemoryService):
        return []
    scope = scope_of(service, context)
    return [of_memory(memory) for memory in await linked(service.memories, scope, ids)]


async def read(service: BaseMemoryService, context: Context, ids: Sequence[str]) -> list[Found]:
    """Return memories by id; of another service, which cannot be asked for them, their ids alone.

    Raises:
        NotFound: one of them is not there.
    """
    if not isinstance(service, KagentMemoryService):
        return [Found("", None, "", {"id": id}) for id in ids]
    scope = scope_of(service, context)
    return [of_memory(await service.memories.get(scope, id, superseded=True)) for id in ids]


async def erase(service: BaseMemoryService, context: Context, ids: Sequence[str]) -> list[str]:
    """Erase memories by id; return those erased.

    Raises:
        NotFound: one of them is not there.
    """
    session = context.session
    if isinstance(service, KagentMemoryService):
        scope = scope_of(service, context)
        return list(await service.memories.forget(scope, ids, who="forget_memory"))
    if not hasattr(service, "delete_memory"):  # ADK < 2.13
        raise InvalidInput("Forgetting is not supported by this memory service.")
    for memory_id in ids:
        await service.delete_memory(
            app_name=session.app_name, user_id=session.user_id, memory_id=memory_id
        )
    return list(ids)


def confirmed_hint(context: Context) -> str | None:
    """Return the text that a person confirmed for this call, or None if ADK did not ask for one."""
    events = context.session.events
    last = next((event for event in reversed(events) if event.author == "user"), None)
    responses = last.get_function_responses() if last else []
    answered = {response.id for response in responses if response.name == CONFIRMATION}
    for event in events:
        # a call that a model made up is not among these
        asked = answered & (event.long_running_tool_ids or set())
        for call in event.get_function_calls():
            args = call.args or {}
            if call.id in asked and args["originalFunctionCall"]["id"] == context.function_call_id:
                return args["toolConfirmation"].get("hint")
    return None
