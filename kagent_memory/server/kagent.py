"""kagent's memory contract, so that its agents work here unchanged: its verbs, for HTTP (kagent 0.8
to 0.10) and gRPC (later ones), and the HTTP routes.

kagent knows no tenants: everything lives in the tenant of the server or of the token. An agent's
name is also known with `_` for `-`: reads and deletes cover the scopes of both names.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from ..concurrency import run_in_thread
from ..errors import InvalidInput, KagentMemoryError, NotFound
from ..memories import Memories
from ..memories.reading import each_memory
from ..records import Memory, Scope
from .auth import Caller
from .dependencies import caller_of, memories_of
from .kagent_wire import (
    AgentUser,
    Item,
    Search,
    agent_user_of,
    batch_of,
    item_of,
    list_row,
    parse_body,
    search_of,
    search_row,
)

T = TypeVar("T")


def _names(agent_name: str) -> tuple[str, ...]:
    """Return the agent's name, and its form with underscores if that differs."""
    return tuple(dict.fromkeys((agent_name, agent_name.replace("-", "_"))))


def _scopes(memories: Memories, caller: Caller, request: AgentUser) -> list[Scope]:
    """Return the scopes of an agent's names and a user in the caller's tenant.

    Raises:
        NotFound: the caller may not touch one of them.
    """
    tenant, names = caller.tenant_or(memories.settings.tenant), _names(request.agent_name)
    if caller.app is not None and request.agent_name in _names(caller.app):
        caller = replace(caller, app=None)  # an agent is known by both of its names
    return [caller.checked(Scope(tenant, request.user_id, name)) for name in names]


async def add(memories: Memories, caller: Caller, item: Item) -> dict[str, Any]:
    """Store one memory."""
    return {"id": (await _store(memories, caller, [item]))[0]}


async def add_batch(memories: Memories, caller: Caller, items: Sequence[Item]) -> dict[str, Any]:
    """Store 1 to 50 memories; those of one agent and user are stored all or not at all."""
    return {"count": len(await _store(memories, caller, items))}


async def _store(memories: Memories, caller: Caller, items: Sequence[Item]) -> list[str]:
    by_scope: dict[Scope, list[Item]] = {}
    for item in items:
        by_scope.setdefault(_scopes(memories, caller, item)[0], []).append(item)
    unbounded = copy(memories)
    # only the size of the request limits the content
    unbounded.settings = replace(memories.settings, max_content_bytes=sys.maxsize)
    ids: list[str] = []
    for scope, group in by_scope.items():
        ids += await unbounded.add(
            scope,
            [item.fact for item in group],
            embedding=[item.array for item in group],
            who="kagent",
        )
    return ids


async def search(memories: Memories, caller: Caller, request: Search) -> dict[str, Any]:
    """Find the nearest memories by exact cosine."""
    scopes, store = _scopes(memories, caller, request), memories.store.memories
    vector = request.array
    space = await memories.space_for(vector)
    if space is None:
        return {"memories": []}
    hits: list[tuple[float, Memory, Scope]] = []
    for scope in scopes:
        view = await store.view(scope, now=memories.clock())
        [near] = await view.nearest(space.number, [vector], limit=request.rows)
        rows = await view.memories([id for id, _ in near])
        hits += [(cosine, rows[id], scope) for id, cosine in near if id in rows]
    hits.sort(key=lambda hit: (-hit[0], hit[1].id))
    # as in kagent, the limit comes before the floor; only returned memories count as delivered
    matches = [
        hit for hit in hits[: request.rows] if not request.min_score or hit[0] >= request.min_score
    ]
    for scope in scopes:
        ids = [memory.id for _, memory, owner in matches if owner == scope]
        memories.deliveries.count(scope, ids)
    return {"memories": [search_row(memory, cosine) for cosine, memory, _ in matches]}


async def list_all(memories: Memories, caller: Caller, request: AgentUser) -> dict[str, Any]:
    """Return all memories of an agent and a user, the most delivered first."""
    rows: list[dict[str, Any]] = []
    for scope in _scopes(memories, caller, request):
        rows += [list_row(memory) async for memory in each_memory(memories, scope)]
    return {"memories": sorted(rows, key=lambda row: -row["access_count"])}


async def delete(memories: Memories, caller: Caller, request: AgentUser) -> dict[str, Any]:
    """Erase all memories of an agent and a user, if there are any."""
    for scope in _scopes(memories, caller, request):
        await memories.forget(scope, everything=True, who="kagent")
    return {"status": "deleted"}


@dataclass(frozen=True, slots=True)
class KagentVerb:
    """One method of the contract.

    Attributes:
        method, path, status: its route over HTTP, and the status of its answers.
        failed: the message for a failure of this server.
        read: checks the fields of a request; raises `InvalidInput` with kagent's text.
        answer: runs the method and returns the fields of the answer; raises `NotFound` for anything
            that the caller may not touch.
    """

    method: str
    path: str
    status: int
    failed: str
    read: Callable[[Any], Any]
    answer: Callable[[Memories, Caller, Any], Awaitable[dict[str, Any]]]

    async def perform(
        self,
        memories: Memories,
        caller: Caller,
        size: int,
        parse: Callable[[], Any],
        written: Callable[[dict[str, Any]], T],
    ) -> T:
        """Return the answer to one call; long requests and answers are read and written in a
        thread.

        Args:
            memories: the memories of the server.
            caller: the authenticated caller.
            size: the bytes of the request.
            parse: returns the fields of the request.
            written: returns the answer in the format of the caller.
        """
        request = await run_in_thread(size, lambda: self.read(parse()))
        answer = await self.answer(memories, caller, request)
        answer_size = sum(len(row["content"]) + 100 for row in answer.get("memories", ()))
        return await run_in_thread(answer_size, written, answer)


VERBS: Mapping[str, KagentVerb] = {
    "AddSession": KagentVerb("POST", "/sessions", 201, "failed to save memory", item_of, add),
    "AddSessionBatch": KagentVerb(
        "POST", "/sessions/batch", 201, "failed to save memory batch", batch_of, add_batch
    ),
    "Search": KagentVerb("POST", "/search", 200, "search failed", search_of, search),
    "List": KagentVerb("GET", "", 200, "failed to list memories", agent_user_of, list_all),
    "Delete": KagentVerb("DELETE", "", 200, "failed to delete memory", agent_user_of, delete),
}


def _handler_of(verb: KagentVerb) -> Callable[[Request], Awaitable[Response]]:
    def written(answer: dict[str, Any]) -> Response:
        return JSONResponse(answer.get("memories", answer), verb.status)

    async def handle(request: Request) -> Response:
        body, query = await request.body(), dict(request.query_params)

        def parse() -> object:
            return parse_body(body) if verb.method == "POST" else query

        try:
            memories, caller = memories_of(request), caller_of(request)
            return await verb.perform(memories, caller, len(body), parse, written)
        except (InvalidInput, NotFound):
            raise
        except KagentMemoryError as error:
            raise HTTPException(500, f"{verb.failed}: {error}") from error

    return handle


router = APIRouter(prefix="/api/memories", include_in_schema=False)
for _verb in VERBS.values():
    router.add_api_route(_verb.path, _handler_of(_verb), methods=[_verb.method])
