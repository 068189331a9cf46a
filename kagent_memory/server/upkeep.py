"""/api/v1, the verbs of upkeep: scopes, jobs, prune, consolidate, drain, health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ..errors import InvalidInput, NotFound
from ..memories import Memories
from ..records import Change, Scope
from ..stores.base import Job, JobState, Pruned
from .api import PROBLEMS
from .auth import Caller
from .deps import TheCaller, TheMemories, TheScope, Unbound, caller_of, known_id, memories_of, scope_of
from .models import Drain, Drained, DryRun

MOST_SCOPES = 10_000

router = APIRouter(prefix="/api/v1", responses=PROBLEMS)


@router.get("/scopes")
async def scopes(
    memories: TheMemories,
    caller: TheCaller,
    tenant: Annotated[str | None, Query(max_length=1024)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SCOPES)] = 1000,
) -> Sequence[Scope]:
    """Scopes that hold memories or jobs, as far as they are the caller's."""
    return await visible_scopes(memories, caller, tenant=tenant, limit=limit)


async def visible_scopes(
    memories: Memories, caller: Caller, *, tenant: str | None = None, limit: int = 1000
) -> list[Scope]:
    """The scopes that a caller may see."""
    if tenant is not None and "\0" in tenant:
        raise InvalidInput("The tenant holds a NUL character; remove it.")
    within = caller.tenant if caller.tenant is not None else tenant
    narrow = caller.user is not None or caller.app is not None
    found = await memories.scopes(tenant=within, limit=MOST_SCOPES if narrow else limit)
    return [scope for scope in found if caller.may(scope) and tenant in (None, scope.tenant)][:limit]


@router.get("/jobs")
async def jobs(
    request: Request,
    memories: TheMemories,
    app: Annotated[str | None, Query(min_length=1, max_length=1024)] = None,
    user: Annotated[str | None, Query(min_length=1, max_length=1024)] = None,
    tenant: Annotated[str | None, Query(max_length=1024)] = None,
    state: JobState | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Sequence[Job]:
    """Queued, running and dead jobs, oldest first, of one scope or of all that are the caller's; without payloads."""
    scope = scope_of(request, app, user, tenant) if app is not None and user is not None else None
    return await visible_jobs(memories, caller_of(request), scope=scope, state=state, limit=limit)


async def visible_jobs(
    memories: Memories, caller: Caller, *, scope: Scope | None = None, state: JobState | None = None, limit: int = 100
) -> list[Job]:
    """The jobs that a caller may see, without their payloads: those hold what people said."""
    found = await memories.jobs(scope=scope, state=state, limit=MOST_SCOPES if caller.is_bound else limit)
    return [replace(job, payload={}) for job in found if caller.may(job.scope)][:limit]


async def own_job(request: Request, id: Annotated[str, Path(max_length=64)]) -> Job:
    """A job of the caller's.

    Raises:
        NotFound: there is none of this id.
    """
    found = await memories_of(request).store.jobs(id=known_id(id, "job"))
    if not found or not caller_of(request).may(found[0].scope):
        raise NotFound("No such job.")
    return found[0]


@router.post("/jobs/{id}/retry", status_code=204)
async def retry_job(request: Request, memories: TheMemories, id: Annotated[str, Path(max_length=64)]) -> Response:
    """Queues a dead letter again."""
    await memories.retry_job((await own_job(request, id)).id)
    return Response(status_code=204)


@router.delete("/jobs/{id}", status_code=204)
async def drop_job(request: Request, memories: TheMemories, id: Annotated[str, Path(max_length=64)]) -> Response:
    """Deletes a job that is not running."""
    await memories.drop_job((await own_job(request, id)).id)
    return Response(status_code=204)


@router.post("/prune")
async def prune(memories: TheMemories, caller: Unbound, body: DryRun) -> Pruned:
    """Deletes what has expired unpopular and extends what is popular, in every scope."""
    return await memories.prune(dry_run=body.dry_run)


@router.post("/consolidate")
async def consolidate(memories: TheMemories, scope: TheScope, body: DryRun) -> Sequence[Change]:
    """Merges what says the same in a scope; gives the changes, made or only planned."""
    return await memories.consolidate(scope, dry_run=body.dry_run)


@router.post("/drain")
async def drain(memories: TheMemories, body: Drain) -> Drained:
    """Waits until no accepted job of the whole server is open, or the time is over; tells nothing of whose they are."""
    return Drained(drained=await memories.drain(body.timeout_seconds))


@router.get("/check")
async def check(memories: TheMemories, caller: Unbound) -> Mapping[str, str]:
    """What a doctor wants to know: part → "ok", or what is wrong with it."""
    return await memories.check()
