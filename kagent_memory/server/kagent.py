"""kagent's memory HTTP contract to the letter (kagent 0.8 to 0.10), so that its agents work here
unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial, wraps
from typing import TypeAlias, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic_core import to_json

from ..concurrency import run_in_thread
from ..errors import InvalidInput, KagentMemoryError, NotFound
from ..records import Memory, Scope
from . import kagent_verbs
from .dependencies import access_of, caller_of, memories_of
from .error_responses import printable
from .kagent_wire import Refused, StoredItem, batch, found, item, listed, search

T = TypeVar("T")
Route: TypeAlias = Callable[[Request], Awaitable[Response]]

router = APIRouter(prefix="/api/memories", include_in_schema=False)


def failure(status: int, text: str) -> JSONResponse:
    """The only form of an error that kagent has."""
    return JSONResponse({"error": printable(text)}, status)


def answers_failures(what: str) -> Callable[[Route], Route]:
    """Make a route answer its failures as kagent does; `what` stands before those of this
    server.
    """

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


@router.post("/sessions")
@answers_failures("failed to save memory")
async def save(request: Request) -> Response:
    """Store one memory."""
    ids = await _store(request, [await _read(request, item)])
    return JSONResponse({"id": ids[0]}, 201)


@router.post("/sessions/batch")
@answers_failures("failed to save memory batch")
async def save_batch(request: Request) -> Response:
    """Store 1 to 50 memories; those of one agent and user whole or not at all."""
    items = await _read(request, batch)
    await _store(request, items)
    return JSONResponse({"count": len(items)}, 201)


async def _read(request: Request, read: Callable[[bytes], T]) -> T:
    body = await request.body()
    return await run_in_thread(len(body), partial(read, body))


@router.post("/search")
@answers_failures("search failed")
async def search_memories(request: Request) -> Response:
    """The nearest memories by cosine; exact for every user, however crowded the table."""
    wanted = await _read(request, search)
    kept = await kagent_verbs.search(memories_of(request), caller_of(request), wanted)
    size = sum(len(memory.content) for memory, _ in kept)
    return await run_in_thread(
        size, JSONResponse, [found(memory, cosine) for memory, cosine in kept]
    )


@router.get("")
@answers_failures("failed to list memories")
async def list_memories(request: Request) -> Response:
    """All memories of an agent and a user, the most delivered first."""
    rows = await kagent_verbs.listed(memories_of(request), _named(request))
    return StreamingResponse(_listed(rows), media_type="application/json")


async def _listed(rows: Sequence[Memory]) -> AsyncIterator[bytes]:
    """Yield memories as one JSON list."""
    for number, memory in enumerate(rows):
        yield (b"," if number else b"[") + to_json(listed(memory))
    yield b"]" if rows else b"[]"


@router.delete("")
@answers_failures("failed to delete memory")
async def delete_memories(request: Request) -> Response:
    """Erase all memories of an agent and a user; it is not an error when there are none."""
    for scope in _named(request):
        await memories_of(request).forget(scope, everything=True, who="kagent")
    return JSONResponse({"status": "deleted"})


def _named(request: Request) -> list[Scope]:
    agent_name, user_id = (
        request.query_params.get("agent_name"),
        request.query_params.get("user_id"),
    )
    return kagent_verbs.named(memories_of(request), caller_of(request), agent_name, user_id)


async def _store(request: Request, items: Sequence[StoredItem]) -> list[str]:
    most = access_of(request).max_body_bytes
    return await kagent_verbs.store(memories_of(request), caller_of(request), items, max_bytes=most)
