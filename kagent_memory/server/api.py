"""/api/v1: one route a verb of `Memories`, text in and records out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter, ValidationError

from .. import __version__
from ..concurrency import run_in_thread
from ..errors import InvalidInput
from ..records import Memory, Recall, Revision
from ..stores.base import Page, ScopeStats, checked_vector
from .body import BoundedRoute
from .dependencies import TheCaller, TheId, TheMemories, TheScope, known_id, who
from .schemas import (
    Added,
    Additions,
    By,
    Changes,
    EndedSession,
    Erased,
    Feedback,
    Info,
    ListParams,
    Pin,
    Question,
    Queued,
    Scalar,
    Scalars,
    ScopesQuestion,
    Transcript,
    Which,
)

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/problem+json": {"schema": {"type": "object"}}}}
    for status, text in {
        400: "The input cannot be stored or searched.",
        401: "No token, or one that does not hold.",
        404: "No such memory or job, or not the caller's.",
        409: "Somebody else changed it first.",
        413: "The body is too long.",
        422: "The request does not fit this schema.",
        429: "Too many requests.",
        501: "The server is not set up for this.",
        502: "The model or embedder is unavailable.",
        503: "The database is unavailable, or too many requests are in progress.",
        504: "The request took too long.",
    }.items()
}

router = APIRouter(prefix="/api/v1", responses=PROBLEMS, route_class=BoundedRoute)


@router.get("/info")
async def info(memories: TheMemories) -> Info:
    """What this server is and how it answers."""
    names = ("search_limit", "ttl_days", "popular_after", "max_content_bytes")
    settings = {name: getattr(memories.settings, name) for name in names}
    return Info(version=__version__, mode=memories.mode, needs_model=memories.needs_model, **settings)


@router.post("/memories", status_code=201)
async def add(memories: TheMemories, scope: TheScope, caller: TheCaller, body: Additions) -> Added:
    """Stores memories as given; what is there already is revived and its id returned."""
    items = [item if isinstance(item, str) else item.fact() for item in body.items]
    ids = await memories.add(
        scope,
        items,
        embedding=None if body.vectors is None else [checked_vector(vector, None) for vector in body.vectors],
        embedding_space=body.embedding_space,
        who=who(body.who, caller),
        replaces=None if body.replaces is None else known_id(body.replaces, "memory"),
    )
    return Added(ids=ids)


@router.get("/memories")
async def list_memories(memories: TheMemories, scope: TheScope, params: Annotated[ListParams, Query()]) -> Page:
    """Memories in order, a page at a time; nothing counts as delivered."""
    try:
        metadata = TypeAdapter[dict[str, Scalar]](Scalars).validate_json(params.metadata)
    except ValidationError as error:
        raise InvalidInput("metadata must be a JSON object of scalars.") from error
    return await memories.list(
        scope,
        filter=params.record(metadata),
        order=params.order,
        limit=params.limit,
        cursor=params.cursor,
    )


@router.post("/memories/search")
async def search(memories: TheMemories, scope: TheScope, body: Question) -> Recall:
    """The memories that answer a question, best first, and how they were found."""
    return await memories.recall(scope, body.query, **body.options())


@router.post("/search")
async def search_scopes(memories: TheMemories, caller: TheCaller, body: ScopesQuestion) -> Recall:
    """The memories of several agents or users that answer a question, ranked together; each says whose it is.

    Every scope must be the caller's, else nothing is answered.
    """
    default = memories.settings.tenant if caller.tenant is None else caller.tenant
    whose = [caller.checked(one.record(default)) for one in body.scopes]
    return await memories.recall(whose, body.query, **body.options())


@router.post("/memories/forget")
async def forget(memories: TheMemories, scope: TheScope, caller: TheCaller, body: Which) -> Erased:
    """Erases memories for good, one way of three: by ids, an unknown one of which is an error; by conditions, all of
    which must hold; or everything. With `dry_run` it only says which.
    """
    ids, options = [known_id(id, "memory") for id in body.ids], body.options()
    if not ids and all(value in (None, False) for value in options.values()):
        raise InvalidInput("Name exactly one: ids, conditions, or everything.")
    options["who"] = who(body.who, caller)
    return Erased(ids=list(await memories.forget(scope, ids, **options)))


@router.get("/memories/{id}")
async def get(memories: TheMemories, scope: TheScope, id: TheId, superseded: bool = False) -> Memory:
    """One memory as it is now; with `superseded` also one that another has taken the place of."""
    return await memories.get(scope, id, superseded=superseded)


@router.patch("/memories/{id}")
async def edit(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId, body: Changes) -> Memory:
    """Sets what is given and keeps the former state in the history."""
    values: dict[str, Any] = dict(body)
    values["who"] = who(body.who, caller)
    return await memories.edit(scope, id, **values)


@router.delete("/memories/{id}")
async def delete(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId) -> Erased:
    """Erases one memory for good."""
    return Erased(ids=list(await memories.forget(scope, [id], who=who("", caller))))


@router.put("/memories/{id}/pin")
async def pin(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId, body: Pin) -> Memory:
    """Keeps a memory whatever the prune says, or lets it go again."""
    return await memories.pin(scope, id, body.pinned, who=who(body.who, caller))


@router.get("/memories/{id}/history")
async def history(memories: TheMemories, scope: TheScope, id: TheId) -> Sequence[Revision]:
    """What happened to a memory, oldest first."""
    return await memories.history(scope, id)


@router.post("/memories/{id}/undo")
async def undo(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId, body: By) -> Sequence[Memory]:
    """Takes back the last change, with all that the same decision changed."""
    return await memories.undo(scope, id, who=who(body.who, caller))


@router.post("/memories/{id}/confirm")
async def confirm(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId, body: By) -> Memory:
    """Lets a memory out of quarantine; `GET /memories?superseded=quarantined` lists those that wait."""
    return await memories.confirm(scope, id, who=who(body.who, caller))


@router.post("/memories/{id}/reject")
async def reject(memories: TheMemories, scope: TheScope, caller: TheCaller, id: TheId, body: By) -> Erased:
    """Erases a memory in quarantine for good."""
    return Erased(ids=list(await memories.reject(scope, id, who=who(body.who, caller))))


@router.post("/memories/{id}/feedback", status_code=204)
async def feedback(memories: TheMemories, scope: TheScope, id: TheId, body: Feedback) -> Response:
    """Counts that a memory helped, or that it misled."""
    await memories.feedback(scope, id, success=body.success)
    return Response(status_code=204)


@router.post("/sessions", status_code=202)
async def remember(memories: TheMemories, scope: TheScope, body: Transcript) -> Queued:
    """Queues a transcript; it is durable when this answers."""
    messages = await run_in_thread(100 * len(body.messages), body.said)
    job = await memories.remember(
        scope,
        messages,
        body.session_id,
        ended=body.ended,
        save=body.save,
        end_after_minutes=body.end_after_minutes,
        compaction=body.compaction,
        llm=body.model or None,
    )
    return Queued(job=job)


@router.post("/sessions/end", status_code=204)
async def end_session(memories: TheMemories, scope: TheScope, body: EndedSession) -> Response:
    """Runs the session's armed timer now."""
    await memories.end_session(scope, body.session_id)
    return Response(status_code=204)


@router.get("/stats")
async def stats(memories: TheMemories, scope: TheScope) -> ScopeStats:
    """Counts of the scope."""
    return await memories.stats(scope)
