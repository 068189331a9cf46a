"""Dependencies of routes: the memories, the caller, and the caller's own memories and jobs."""

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
    """Return how this app authenticates callers."""
    return request.app.state.access


def caller_of(request: Request) -> Caller:
    """Return who calls, as the middleware found."""
    return request.state.caller


def tenant_of(request: Request) -> str:
    """Return the tenant of a request that names none: the caller's, or the server's."""
    return caller_of(request).tenant_or(memories_of(request).settings.tenant)


def media_type(request: Request) -> str:
    """Return the request's media type, without parameters such as the character set."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def scope_of(request: Request) -> Scope:
    """Return the scope that a request's query names.

    Raises:
        InvalidInput: it lacks the app or the user.
        NotFound: it is not the caller's.
    """
    params = request.query_params
    tenant, user, app = params.get("tenant"), params.get("user", ""), params.get("app", "")
    named = Scope(tenant_of(request) if tenant is None else tenant, user, app)
    return caller_of(request).checked(named)


def known_id(id: str, what: str) -> str:
    """Return `id` when it has the form of ours.

    Raises:
        NotFound: nothing can have it.
    """
    try:
        return str(uuid.UUID(id))
    except ValueError as error:
        raise NotFound(f"No such {what}.") from error


def within(caller: Caller, **asked: str | None) -> dict[str, str | None]:
    """Return the parts of scopes that a caller asks for, limited to what the caller is bound to.

    Raises:
        InvalidInput: a part can be none of a scope.
        NotFound: nothing can be both.
    """
    limited: dict[str, str | None] = {}
    for name, value in asked.items():
        bound = getattr(caller, name)
        if value == "" and name != "tenant":
            raise InvalidInput(f"{name}: must not be empty; leave it out to mean all.")
        if value is not None and bound is not None and checked_name(value, f"The {name}") != bound:
            raise NotFound("No such memories.")
        limited[name] = value if bound is None else bound
    return limited


def tenant_wide(caller: Caller, tenant: str | None) -> dict[str, str | None]:
    """Return the tenant that a caller asks for, or is bound to; None: any.

    Raises:
        NotFound: it is not the caller's, or the caller is bound to a part of it.
    """
    if (caller.user, caller.app) != (None, None):
        raise NotFound("No such receipts.")
    return within(caller, tenant=tenant)


async def visible_jobs(
    request: Request, scope: Scope | None, state: JobState, limit: int
) -> Sequence[Job]:
    """Return jobs of a scope, or all that a caller may see, without their payloads: those hold what
    people said.
    """
    caller = caller_of(request)
    return await memories_of(request).jobs(
        scope=scope,
        tenant=caller.tenant,
        user=caller.user,
        app=caller.app,
        state=state,
        limit=limit,
        payloads=False,
    )


async def own_job(request: Request, id: str) -> Job:
    """Return a job of the caller's.

    Raises:
        NotFound: there is none of this id.
    """
    matching = await memories_of(request).jobs(id=known_id(id, "job"), payloads=False)
    if not matching or not caller_of(request).may(matching[0].scope):
        raise NotFound("No such job.")
    return matching[0]


def unbound(request: Request) -> None:
    """Let only those pass who are bound to nothing: for verbs that cross tenants.

    Raises:
        NotFound: the caller may only touch some memories.
    """
    if caller_of(request).is_bound:
        raise NotFound("Not available to a caller that is bound to a tenant or user.")


def who(given: str, caller: Caller) -> str:
    """Return whom the history names: what the caller says, marked with who the caller is when
    known.
    """
    return given if caller.name == "local" else f"{given} ({caller.name})".strip()
