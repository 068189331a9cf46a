"""The page's shell: how a template becomes an answer, and how a form is known to be our own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import FormData

from ..errors import InvalidInput
from ..records import Scope
from .auth import Caller
from .dependencies import memories_of, scope_of
from .templating import render, scope_query

CSRF_COOKIE = "kagent_memory_csrf"
MOST_FIELDS = 50
DONE: Mapping[str, str] = {
    "added": "The memory is stored.",
    "edited": "The change is stored; the former text is in the history.",
    "pinned": "The memory is pinned.",
    "unpinned": "The memory is no longer pinned.",
    "undone": "The last change is taken back.",
    "deleted": "The memory is deleted for good.",
    "all-deleted": "All memories of this agent and user are deleted.",
    "chosen-pinned": "The chosen memories are pinned.",
    "chosen-unpinned": "The chosen memories are no longer pinned.",
    "chosen-deleted": "The chosen memories are deleted for good.",
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


def number(text: str, what: str) -> float | None:
    """The number of a field; None when it is empty.

    Raises:
        InvalidInput: not a number.
    """
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InvalidInput(f"{what} must be a number.") from error


def whole(text: str, what: str) -> int | None:
    """The whole number of a field; None when it is empty.

    Raises:
        InvalidInput: not a whole number.
    """
    try:
        return int(text) if text else None
    except ValueError as error:
        raise InvalidInput(f"{what} must be a whole number.") from error


def page_scope(request: Request) -> Scope:
    """The scope in the page's address.

    Raises:
        InvalidInput: it names no agent or user.
        NotFound: it is not the caller's.
    """
    if not request.query_params.get("app") or not request.query_params.get("user"):
        raise InvalidInput("Choose an agent and a user first.")
    return scope_of(request)


def to(path: str, scope: Scope | None = None, **query: str) -> Response:
    """Redirects the browser after a form was handled."""
    text = (
        scope_query(scope, **query)
        if scope
        else "&".join(f"{name}={value}" for name, value in query.items())
    )
    return RedirectResponse(f"{path}?{text}" if text else path, 303)


def shown_settings(request: Request) -> Mapping[str, Any]:
    """What pages say about the server."""
    memories = memories_of(request)
    return {
        "mode": memories.mode,
        "location": memories.location,
        "popular_after": memories.settings.popular_after,
    }
