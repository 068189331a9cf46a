"""What routes ask for: the memories, the caller, and a scope that is the caller's."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from ..errors import NotFound
from ..memories import Memories
from ..records import LONGEST_NAME, Scope
from .auth import Access, Caller


def memories_of(request: Request) -> Memories:
    """The memories this app serves."""
    return request.app.state.memories


def access_of(request: Request) -> Access:
    """How this app authenticates callers."""
    return request.app.state.access


def caller_of(request: Request) -> Caller:
    """Who calls, as the middleware found."""
    return request.state.caller


def scope_of(
    request: Request,
    app: Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="The agent's app name.")],
    user: Annotated[str, Query(min_length=1, max_length=LONGEST_NAME, description="The user.")],
    tenant: Annotated[
        str | None, Query(max_length=LONGEST_NAME, description="Default: the caller's, or the server's.")
    ] = None,
) -> Scope:
    """The scope that a request names.

    Raises:
        NotFound: it is not the caller's.
    """
    caller = caller_of(request)
    if tenant is None:
        tenant = memories_of(request).settings.tenant if caller.tenant is None else caller.tenant
    return caller.checked(Scope(tenant, user, app))


def memory_id_of(id: Annotated[str, Path(max_length=64, description="The memory's id.")]) -> str:
    """A memory's id.

    Raises:
        NotFound: no memory can have it.
    """
    return known_id(id, "memory")


def known_id(id: str, what: str) -> str:
    """`id` itself when it has the form of ours.

    Raises:
        NotFound: nothing can have it.
    """
    try:
        return str(uuid.UUID(id))
    except ValueError as error:
        raise NotFound(f"No such {what}.") from error


def unbound(request: Request) -> Caller:
    """The caller, when bound to nothing: for verbs that cross tenants.

    Raises:
        NotFound: the caller may only touch some memories.
    """
    caller = caller_of(request)
    if caller.is_bound:
        raise NotFound("Not available to a caller that is bound to a tenant or user.")
    return caller


def who(given: str, caller: Caller) -> str:
    """Whom the history names: what the caller says, marked with who the caller is when known."""
    return given if caller.name == "local" else f"{given} ({caller.name})".strip()


TheMemories = Annotated[Memories, Depends(memories_of)]
TheCaller = Annotated[Caller, Depends(caller_of)]
TheScope = Annotated[Scope, Depends(scope_of)]
TheId = Annotated[str, Depends(memory_id_of)]
Unbound = Annotated[Caller, Depends(unbound)]
