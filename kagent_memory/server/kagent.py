"""kagent's memory HTTP contract to the letter (kagent 0.8 to 0.10), so that its agents work here unchanged.

kagent's server knows no tenants: all of it lives in the server's own tenant, or in the token's. An agent's name is
also known by its form with `_` for `-`: reads and deletes go over the union of those two whole scopes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ..errors import InvalidInput, KagentMemoryError, NotFound
from ..memories import Memories
from ..records import Memory, Scope
from .auth import Caller
from .deps import caller_of, memories_of
from .kagent_wire import Refused, Search, StoredItem, batch, found, item, listed, search
from .problems import printable

GENERATION = "external-768"
LIST_PAGE = 1000
MISSING_QUERY = "Missing required query parameters (agent_name, user_id)"

router = APIRouter(prefix="/api/memories", include_in_schema=False)


def failure(status: int, text: str) -> JSONResponse:
    """The only form of an error that kagent has."""
    return JSONResponse({"error": printable(text)}, status)


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
async def save(request: Request) -> Response:
    """Stores one memory."""
    try:
        one = item(await request.body())
    except Refused as refusal:
        return failure(400, str(refusal))
    return await _answer(_saved_one(request, one), "failed to save memory")


async def _saved_one(request: Request, one: StoredItem) -> Response:
    ids = await _store(request, [one])
    return JSONResponse({"id": ids[0]}, 201)


@router.post("/sessions/batch")
async def save_batch(request: Request) -> Response:
    """Stores 1 to 50 memories; those of one agent and user whole or not at all."""
    try:
        items = batch(await request.body())
    except Refused as refusal:
        return failure(400, str(refusal))
    return await _answer(_saved_batch(request, items), "failed to save memory batch")


async def _saved_batch(request: Request, items: Sequence[StoredItem]) -> Response:
    await _store(request, items)
    return JSONResponse({"count": len(items)}, 201)


async def _store(request: Request, items: Sequence[StoredItem]) -> list[str]:
    memories, caller = memories_of(request), caller_of(request)
    by_scope: dict[Scope, list[StoredItem]] = {}
    for one in items:
        by_scope.setdefault(scope_of(memories, caller, one.agent_name, one.user_id), []).append(one)
    ids: list[str] = []
    for scope, group in by_scope.items():
        facts = [one.fact() for one in group]
        vectors = [one.vector for one in group]
        ids += await memories.add(scope, facts, embedding=vectors, generation=GENERATION, who="kagent")
    return ids


@router.post("/search")
async def search_memories(request: Request) -> Response:
    """The nearest memories by cosine; exact for every user, however crowded the table."""
    try:
        wanted = search(await request.body())
    except Refused as refusal:
        return failure(400, str(refusal))
    return await _answer(_search(request, wanted), "search failed")


async def _search(request: Request, wanted: Search) -> Response:
    memories, caller = memories_of(request), caller_of(request)
    scopes = [scope_of(memories, caller, name, wanted.user_id) for name in names(wanted.agent_name)]
    hits = [hit for scope in scopes for hit in await _nearest(request, scope, wanted)]
    hits.sort(key=lambda hit: (-hit.score, hit.memory.id))
    # kagent's order of things: the limit first, then the floor; but only what is handed over counts as delivered
    kept = [hit for hit in hits[: wanted.limit] if not wanted.min_score or hit.score >= wanted.min_score]
    for scope in scopes:
        memories.delivered(scope, [hit.memory.id for hit in kept if hit.scope == scope])
    return JSONResponse([found(hit.memory, hit.score) for hit in kept])


@dataclass(frozen=True, slots=True)
class _Near:
    scope: Scope
    memory: Memory
    score: float


async def _nearest(request: Request, scope: Scope, wanted: Search) -> list[_Near]:
    store, now = memories_of(request).store, request.app.state.clock()
    held = [one.number for one in await store.generations() if one.name == GENERATION]
    if not held:
        return []
    [ranked] = await store.search_vector(scope, held[0], [wanted.vector], limit=wanted.limit, now=now)
    rows = await store.get(scope, [id for id, _ in ranked], now=now)
    return [_Near(scope, rows[id], score) for id, score in ranked if id in rows]


@router.get("")
async def list_memories(request: Request) -> Response:
    """All memories of an agent and a user, the most delivered first."""
    agent_name, user_id = request.query_params.get("agent_name"), request.query_params.get("user_id")
    if not agent_name or not user_id:
        return failure(400, MISSING_QUERY)
    return await _answer(_list(request, agent_name, user_id), "failed to list memories")


async def _list(request: Request, agent_name: str, user_id: str) -> Response:
    memories, caller = memories_of(request), caller_of(request)
    rows: list[Memory] = []
    for name in names(agent_name):
        scope = scope_of(memories, caller, name, user_id)
        page = await memories.list(scope, order="delivered", limit=LIST_PAGE)
        rows += page.memories
        while page.cursor is not None:
            page = await memories.list(scope, order="delivered", limit=LIST_PAGE, cursor=page.cursor)
            rows += page.memories
    rows.sort(key=lambda memory: -memory.usage.delivered)
    return JSONResponse([listed(memory) for memory in rows])


@router.delete("")
async def delete_memories(request: Request) -> Response:
    """Erases all memories of an agent and a user; none is fine too."""
    agent_name, user_id = request.query_params.get("agent_name"), request.query_params.get("user_id")
    if not agent_name or not user_id:
        return failure(400, MISSING_QUERY)
    return await _answer(_delete(request, agent_name, user_id), "failed to delete memory")


async def _delete(request: Request, agent_name: str, user_id: str) -> Response:
    memories, caller = memories_of(request), caller_of(request)
    for scope in [scope_of(memories, caller, name, user_id) for name in names(agent_name)]:
        await memories.forget(scope, everything=True)
    return JSONResponse({"status": "deleted"})


async def _answer(work: Awaitable[Response], what: str) -> Response:
    try:
        return await work
    except InvalidInput as error:
        return failure(400, str(error))
    except NotFound as error:
        return failure(404, str(error))
    except KagentMemoryError as error:
        return failure(500, f"{what}: {error}")
