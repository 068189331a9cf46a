"""kagent's memory HTTP contract to the letter (kagent 0.8 to 0.10), so that its agents work here unchanged.

kagent's server knows no tenants: all of it lives in the server's own tenant, or in the token's. An agent's name is
also known by its form with `_` for `-`: reads and deletes go over the union of those two whole scopes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import TypeAlias, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic_core import to_json

from ..concurrency import run_in_thread
from ..errors import InvalidInput, KagentMemoryError, NotFound
from ..memories import Memories
from ..records import Memory, Scope
from ..stores.base import external_name
from .auth import Caller
from .dependencies import access_of, caller_of, memories_of
from .error_responses import printable
from .kagent_wire import DIMENSIONS, LONGEST_NAME, TOO_LONG, Refused, StoredItem, batch, found, item, listed, search

T = TypeVar("T")
Route: TypeAlias = Callable[[Request], Awaitable[Response]]
GENERATION = external_name(DIMENSIONS)
LIST_PAGE = 100
MISSING_QUERY = "Missing required query parameters (agent_name, user_id)"

router = APIRouter(prefix="/api/memories", include_in_schema=False)


def failure(status: int, text: str) -> JSONResponse:
    """The only form of an error that kagent has."""
    return JSONResponse({"error": printable(text)}, status)


def answers_failures(what: str) -> Callable[[Route], Route]:
    """Makes a route answer its failures as kagent does; `what` stands before those of this server."""

    def answering(route: Route) -> Route:
        @wraps(route)
        async def answer(request: Request) -> Response:
            try:
                return await route(request)
            except (Refused, InvalidInput) as error:
                return failure(400, str(error))
            except NotFound as error:
                return failure(404, str(error))
            except KagentMemoryError as error:
                return failure(500, f"{what}: {error}")

        return answer

    return answering


def names(agent_name: str) -> tuple[str, ...]:
    """The agent's name, and its form with underscores when that differs."""
    return tuple(dict.fromkeys((agent_name, agent_name.replace("-", "_"))))


def scope_of(memories: Memories, caller: Caller, agent_name: str, user_id: str) -> Scope:
    """The scope of an agent and a user in the caller's tenant; an agent is also known by its form with underscores.

    Raises:
        NotFound: it is not the caller's.
    """
    tenant = memories.settings.tenant if caller.tenant is None else caller.tenant
    if caller.app is not None and agent_name in names(caller.app):
        caller = replace(caller, app=agent_name)
    return caller.checked(Scope(tenant, user_id, agent_name))


@router.post("/sessions")
@answers_failures("failed to save memory")
async def save(request: Request) -> Response:
    """Stores one memory."""
    ids = await _store(request, [await _read(request, item)])
    return JSONResponse({"id": ids[0]}, 201)


@router.post("/sessions/batch")
@answers_failures("failed to save memory batch")
async def save_batch(request: Request) -> Response:
    """Stores 1 to 50 memories; those of one agent and user whole or not at all."""
    items = await _read(request, batch)
    await _store(request, items)
    return JSONResponse({"count": len(items)}, 201)


async def _read(request: Request, read: Callable[[bytes], T]) -> T:
    body = await request.body()
    return await run_in_thread(len(body), partial(read, body))


async def _store(request: Request, items: Sequence[StoredItem]) -> list[str]:
    memories, caller = memories_of(request), caller_of(request)
    by_scope: dict[Scope, list[StoredItem]] = {}
    for one in items:
        by_scope.setdefault(scope_of(memories, caller, one.agent_name, one.user_id), []).append(one)
    ids: list[str] = []
    for scope, group in by_scope.items():
        ids += await memories.add(
            scope,
            [one.fact() for one in group],
            embedding=[one.vector for one in group],
            generation=GENERATION,
            who="kagent",
            max_bytes=access_of(request).max_body_bytes,  # the contract bounds no content, so the request does
        )
    return ids


@router.post("/search")
@answers_failures("search failed")
async def search_memories(request: Request) -> Response:
    """The nearest memories by cosine; exact for every user, however crowded the table."""
    wanted = await _read(request, search)
    memories, caller = memories_of(request), caller_of(request)
    scopes = [scope_of(memories, caller, name, wanted.user_id) for name in names(wanted.agent_name)]
    hits = [
        (cosine, memory, scope)
        for scope in scopes
        for memory, cosine in await memories.nearest(scope, wanted.vector, limit=wanted.limit)
    ]
    hits.sort(key=lambda hit: (-hit[0], hit[1].id))
    # kagent's order of things: the limit first, then the floor; but only what is handed over counts as delivered
    kept = [hit for hit in hits[: wanted.limit] if not wanted.min_score or hit[0] >= wanted.min_score]
    for one in scopes:
        memories.delivered(one, [memory.id for _, memory, scope in kept if scope == one])
    size = sum(len(memory.content) for _, memory, _ in kept)
    return await run_in_thread(size, JSONResponse, [found(memory, cosine) for cosine, memory, _ in kept])


@router.get("")
@answers_failures("failed to list memories")
async def list_memories(request: Request) -> Response:
    """All memories of an agent and a user, the most delivered first."""
    pages = [_Pages(memories_of(request), scope) for scope in _named(request)]
    for one in pages:
        await one.turn()  # a store that is away is told before the answer begins
    return StreamingResponse(_listed(pages), media_type="application/json")


async def _listed(pages: Sequence[_Pages]) -> AsyncIterator[bytes]:
    """The memories of all pages as one JSON list, merged by how often they were delivered."""
    opening = b"["
    while left := [one for one in pages if one.rows]:
        most = max(left, key=lambda one: one.rows[0].usage.delivered)
        yield opening + to_json(listed(most.rows.popleft()))
        opening = b","
        if not most.rows:
            await most.turn()
    yield b"[]" if opening == b"[" else b"]"


class _Pages:
    """The memories of a scope, the most delivered first, a page at a time: there may be many, and long ones."""

    def __init__(self, memories: Memories, scope: Scope) -> None:
        self._memories, self._scope = memories, scope
        self._cursor: str | None = None
        self._ended = False
        self.rows: deque[Memory] = deque()

    async def turn(self) -> None:
        """Takes the next page, if there is one."""
        while not self.rows and not self._ended:
            page = await self._memories.list(self._scope, order="delivered", limit=LIST_PAGE, cursor=self._cursor)
            self.rows.extend(page.memories)
            self._cursor, self._ended = page.cursor, page.cursor is None


@router.delete("")
@answers_failures("failed to delete memory")
async def delete_memories(request: Request) -> Response:
    """Erases all memories of an agent and a user; none is fine too."""
    for scope in _named(request):
        await memories_of(request).forget(scope, everything=True)
    return JSONResponse({"status": "deleted"})


def _named(request: Request) -> list[Scope]:
    """The scopes that a list or a delete names, all of them the caller's."""
    agent_name, user_id = request.query_params.get("agent_name"), request.query_params.get("user_id")
    if not agent_name or not user_id:
        raise Refused(MISSING_QUERY)
    if max(len(agent_name), len(user_id)) > LONGEST_NAME:
        raise Refused(TOO_LONG)
    memories, caller = memories_of(request), caller_of(request)
    return [scope_of(memories, caller, name, user_id) for name in names(agent_name)]
