"""The page's shell: how a template becomes an answer, and how a form is known to be our own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from ..errors import InvalidInput
from ..records import Scope
from .auth import Caller
from .dependencies import caller_of, known_id, memories_of, scope_of, who
from .templating import render, scope_query

CSRF_COOKIE = "kagent_memory_csrf"
MOST_FIELDS = 50
DONE: Mapping[str, str] = {
    "added": "The memory is stored.",
    "edited": "The change is stored; the former text is in the history.",
    "pinned": "Pinned.",
    "unpinned": "No longer pinned.",
    "undone": "The last change is taken back.",
    "deleted": "Deleted for good.",
    "all-deleted": "All memories of this agent and user are deleted.",
    "none": "Nothing was chosen, and nothing was changed.",
    "confirmed": "The memory is confirmed; it is found from now on.",
    "rejected": "The memory is rejected and erased.",
    "forgotten": "What met the conditions is erased for good.",
    "retried": "The job is queued again.",
    "all-retried": "All dead letters here are queued again.",
    "dropped": "The job is deleted.",
}


def page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """The template as an answer, with what every page needs."""
    csrf = request.cookies.get(CSRF_COOKIE) or secrets.token_urlsafe(32)
    caller: Caller | None = getattr(request.state, "caller", None)
    shell = {
        "caller": caller,
        "has_login": request.app.state.access.required,
        "csrf": csrf,
        "here": request.url.path,
        "now": request.app.state.clock(),
        "done": DONE.get(request.query_params.get("done", "")),
    }
    answer = HTMLResponse(render(template, {**shell, **values}), status)
    if CSRF_COOKIE not in request.cookies:
        set_cookie(request, answer, CSRF_COOKIE, csrf)
    return answer


def set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    """A cookie that no script reads and no other site's request carries."""
    answer.set_cookie(
        name,
        value,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )


async def own_form(request: Request) -> FormData:
    """The form, when a page of ours made it.

    Raises:
        InvalidInput: its secret is not the cookie's: another site made it, or the cookie is gone.
    """
    form = await request.form(max_files=0, max_fields=MOST_FIELDS)
    sent, kept = form.get("csrf"), request.cookies.get(CSRF_COOKIE)
    if (
        not isinstance(sent, str)
        or not kept
        or not secrets.compare_digest(sent.encode(), kept.encode())
    ):
        raise InvalidInput(
            "This form has expired or is not from this server. Reload the page and try again."
        )
    return form


def field(form: FormData, name: str) -> str:
    """A field as text with plain line ends; "" when it is not there."""
    value = form.get(name)
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


def listed(text: str) -> list[str]:
    """The labels of a comma-separated field."""
    return [part.strip() for part in text.split(",") if part.strip()]


async def page_scope(request: Request) -> Scope:
    """The scope in the page's address.

    Raises:
        InvalidInput: it names no agent or user.
        NotFound: it is not the caller's.
    """
    if not request.query_params.get("app") or not request.query_params.get("user"):
        raise InvalidInput("Choose an agent and a user first.")
    return scope_of(request)


async def scope_or_none(request: Request) -> Scope | None:
    """The scope in the page's address, if it names one."""
    params = request.query_params
    return scope_of(request) if params.get("app") and params.get("user") else None


async def memory_id(id: str) -> str:
    """The id of a memory in the page's path.

    Raises:
        NotFound: nothing can have it.
    """
    return known_id(id, "memory")


PageScope = Annotated[Scope, Depends(page_scope)]
ScopeOrNone = Annotated[Scope | None, Depends(scope_or_none)]
OwnForm = Annotated[FormData, Depends(own_form)]
MemoryId = Annotated[str, Depends(memory_id)]


def page_user(request: Request) -> str:
    """Whom the history names for what is done on a page."""
    return who("page", caller_of(request))


def to(path: str, scope: Scope | None = None, **query: str) -> Response:
    """Redirect the browser after a form was handled."""
    text = scope_query(scope, **query) if scope else urlencode(query)
    return RedirectResponse(f"{path}?{text}" if text else path, 303)


def shown_settings(request: Request) -> Mapping[str, Any]:
    """Return what pages say about the server."""
    memories = memories_of(request)
    return {
        "mode": memories.mode,
        "location": memories.location,
        "popular_after": memories.settings.popular_after,
    }
