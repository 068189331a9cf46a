"""Dependencies of routes: the memories, the caller, and the caller's scopes and jobs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from fastapi import Request

from ..checks import checked_name
from ..errors import InvalidInput, NotFound
from ..memories import Memories
from ..records import Scope
from ..stores.values import Job, JobState
from .auth import Access, Caller

NAMES = ("tenant", "user", "app")
"""The parts of a scope."""


def memories_of(request: Request) -> Memories:
    """Return the memories that this app serves."""
    return request.app.state.memories


def access_of(request: Request) -> Access:
    """Return this app's rules of access."""
    return request.app.state.access


def caller_of(request: Request) -> Caller:
    """Return the caller that the middleware authenticated."""
    return request.state.caller


def tenant_of(request: Request) -> str:
    """Return the default tenant of a request: the caller's, or the server's."""
    return caller_of(request).tenant_or(memories_of(request).settings.tenant)


def media_type(request: Request) -> str:
    """Return the request's media type without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def scope_of(request: Request) -> Scope:
    """Return the scope in a request's query.

    Raises:
        InvalidInput: the app or the user is missing.
        NotFound: the caller may not touch the scope.
    """
    params = request.query_params
    tenant, user, app = params.get("tenant"), params.get("user", ""), params.get("app", "")
    scope = Scope(tenant_of(request) if tenant is None else tenant, user, app)
    return caller_of(request).checked(scope)


def known_id(id: str, kind: str) -> str:
    """Return `id` if it has the form of our ids.

    Raises:
        NotFound: nothing can have this id.
    """
    try:
        return str(uuid.UUID(id))
    except ValueError as error:
        raise NotFound(f"No such {kind}.") from error


def within(caller: Caller, **parts: str | None) -> dict[str, str | None]:
    """Return the requested parts of scopes, limited to those that the caller is bound to.

    Raises:
        InvalidInput: a value cannot be part of a scope.
        NotFound: the caller is bound to other parts.
    """
    limits: dict[str, str | None] = {}
    for name, value in parts.items():
        bound = getattr(caller, name)
        if value == "" and name != "tenant":
            raise InvalidInput(f"{name}: must not be empty; leave it out to mean all.")
        if value is not None and bound is not None and checked_name(value, f"The {name}") != bound:
            raise NotFound("No such memories.")
        limits[name] = value if bound is None else bound
    return limits


def tenant_wide(caller: Caller, tenant: str | None) -> dict[str, str | None]:
    """Return the requested tenant, or the caller's; None means any.

    Raises:
        NotFound: it is not the caller's tenant, or the caller is bound to a part of it.
    """
    if (caller.user, caller.app) != (None, None):
        raise NotFound("No such receipts.")
    return within(caller, tenant=tenant)


async def visible_jobs(
    request: Request, scope: Scope | None, state: JobState, limit: int
) -> Sequence[Job]:
    """Return the jobs of a scope, or all that the caller may see."""
    caller = caller_of(request)
    return await memories_of(request).jobs(
        scope=scope,
        tenant=caller.tenant,
        user=caller.user,
        app=caller.app,
        state=state,
        limit=limit,
    )


async def own_job(request: Request, id: str) -> Job:
    """Return a job of the caller.

    Raises:
        NotFound: the caller has no job with this id.
    """
    matching = await memories_of(request).jobs(id=known_id(id, "job"))
    if not matching or not caller_of(request).may(matching[0].scope):
        raise NotFound("No such job.")
    return matching[0]


def refuse_bound(request: Request) -> None:
    """Refuse bound callers, for verbs that cross tenants.

    Raises:
        NotFound: the caller is bound to a tenant, user or app.
    """
    if caller_of(request).is_bound:
        raise NotFound("Not available to a caller that is bound to a tenant or user.")


def who(claim: str, caller: Caller) -> str:
    """Return the name for the history: the claim of the caller, with the authenticated name."""
    return claim if caller.name == "local" else f"{claim} ({caller.name})".strip()
