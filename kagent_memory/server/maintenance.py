"""/api/v1, the maintenance verbs: scopes, jobs, prune, consolidate, drain, health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from ..errors import InvalidInput, NotFound
from ..memories import Memories
from ..memories.findings import DEFECTS, MOST_FINDINGS, Audit, Defect
from ..memories.receipts import ReceiptCheck
from ..records import LONGEST_NAME, Change, Scope, checked_text
from ..stores.base import Job, JobState, Pruned
from ..stores.receipts import Receipt
from ..stores.values import ForgottenTenant
from .api import PROBLEMS
from .auth import Caller
from .body import BoundedRoute
from .dependencies import TheCaller, TheMemories, TheScope, Unbound, caller_of, known_id, memories_of, scope_of, who
from .schemas import Drain, Drained, DryRun, ForgetTenant

MOST_SCOPES = 10_000

Name = Annotated[str | None, Query(min_length=1, max_length=LONGEST_NAME)]
TenantName = Annotated[str | None, Query(max_length=LONGEST_NAME)]

router = APIRouter(prefix="/api/v1", responses=PROBLEMS, route_class=BoundedRoute)


@router.get("/scopes")
async def scopes(
    memories: TheMemories,
    caller: TheCaller,
    tenant: TenantName = None,
    app: Name = None,
    user: Name = None,
    after_tenant: TenantName = None,
    after_app: TenantName = None,
    after_user: TenantName = None,
    limit: Annotated[int, Query(ge=1, le=MOST_SCOPES)] = 1000,
) -> Sequence[Scope]:
    """Scopes that hold memories or jobs, in order of tenant, app and user, as far as they are the caller's.

    The next page comes after the last scope of this one: `after_tenant`, `after_app` and `after_user`.
    """
    parts = (after_tenant, after_app, after_user)
    if None in parts and parts != (None, None, None):
        raise InvalidInput("after_tenant, after_app and after_user must be given together; they name one scope.")
    after = None if after_tenant is None else Scope(after_tenant, after_user or "", after_app or "")
    return await visible_scopes(memories, caller, tenant=tenant, app=app, user=user, after=after, limit=limit)


async def visible_scopes(
    memories: Memories,
    caller: Caller,
    *,
    tenant: str | None = None,
    app: str | None = None,
    user: str | None = None,
    after: Scope | None = None,
    limit: int = 1000,
) -> Sequence[Scope]:
    """The scopes that a caller may see."""
    whose = within(caller, tenant=tenant, app=app, user=user)
    return [] if whose is None else await memories.scopes(**whose, after=after, limit=limit)


def within(caller: Caller, **asked: str | None) -> dict[str, str | None] | None:
    """What a caller asks for and may see: part of a scope → the one value it may have; None: nothing can be both.

    Raises:
        InvalidInput: a part can be none of a scope.
    """
    whose: dict[str, str | None] = {}
    for name, value in asked.items():
        bound = getattr(caller, name)
        if value is not None and bound is not None and checked_text(value, f"The {name}") != bound:
            return None
        whose[name] = value if bound is None else bound
    return whose


@router.get("/jobs")
async def jobs(
    request: Request,
    memories: TheMemories,
    app: Name = None,
    user: Name = None,
    tenant: TenantName = None,
    state: JobState | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    id: Annotated[str | None, Query(max_length=64)] = None,
) -> Sequence[Job]:
    """Queued, running and dead jobs, oldest first, without payloads: of one scope when app and user are named, else of
    all that are the caller's and have this tenant, app or user; with `id` only the one that has it.
    """
    caller = caller_of(request)
    if app is not None and user is not None:
        scope = scope_of(request, app, user, tenant)
        return await visible_jobs(memories, caller, scope=scope, state=state, limit=limit, id=id)
    return await visible_jobs(memories, caller, tenant=tenant, app=app, user=user, state=state, limit=limit, id=id)


async def visible_jobs(
    memories: Memories,
    caller: Caller,
    *,
    scope: Scope | None = None,
    tenant: str | None = None,
    app: str | None = None,
    user: str | None = None,
    state: JobState | None = None,
    limit: int = 100,
    id: str | None = None,
) -> Sequence[Job]:
    """The jobs that a caller may see, without their payloads: those hold what people said."""
    whose = within(caller, tenant=tenant, app=app, user=user)
    if whose is None:
        return []
    return await memories.jobs(scope=scope, **whose, state=state, limit=limit, id=id, payloads=False)


async def own_job(request: Request, id: Annotated[str, Path(max_length=64)]) -> Job:
    """A job of the caller's.

    Raises:
        NotFound: there is none of this id.
    """
    matching = await memories_of(request).jobs(id=known_id(id, "job"), payloads=False)
    if not matching or not caller_of(request).may(matching[0].scope):
        raise NotFound("No such job.")
    return matching[0]


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


@router.post("/tenants/forget")
async def forget_tenant(memories: TheMemories, caller: Unbound, body: ForgetTenant) -> ForgottenTenant:
    """Erases a part of all that is kept of a tenant; to be called until the answer says `done`."""
    return await memories.forget_tenant(body.tenant, limit=body.limit, who=who(body.who, caller))


@router.get("/receipts")
async def receipts(
    memories: TheMemories,
    caller: TheCaller,
    tenant: TenantName = None,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Sequence[Receipt]:
    """What was forgotten of a tenant, oldest first, without any of its content."""
    return await memories.receipts(tenant=own_tenant(caller, tenant), after=after, limit=limit)


@router.get("/receipts/check")
async def check_receipts(memories: TheMemories, caller: TheCaller, tenant: TenantName = None) -> ReceiptCheck:
    """Whether every receipt of a tenant, or of all, is there and as it was written."""
    return await memories.check_receipts(tenant=own_tenant(caller, tenant))


def own_tenant(caller: Caller, tenant: str | None) -> str | None:
    """The tenant that a caller asks for, or is bound to; None: any.

    Raises:
        NotFound: it is not the caller's, who may be bound to one user.
    """
    whose = within(caller, tenant=tenant)
    if caller.user is not None or whose is None:
        raise NotFound("No such receipts.")
    return whose["tenant"]


@router.get("/audit")
async def audit(
    memories: TheMemories,
    scope: TheScope,
    defects: Annotated[Sequence[Defect], Query(min_length=1)] = DEFECTS,
    most: Annotated[int, Query(ge=0, le=MOST_FINDINGS)] = MOST_FINDINGS,
) -> Audit:
    """What is wrong with the memories of a scope, with their ids as evidence and never a word of them."""
    return await memories.audit(scope, defects=defects, most=most)


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
