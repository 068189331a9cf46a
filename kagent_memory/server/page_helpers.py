"""Helpers of the pages: escaped templates with their filters, and the check of a form's origin."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from functools import cache
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import FormData

from ..errors import InvalidInput
from ..language.tokenizer import query_terms, tokens
from ..memories.reading import sentences_of
from ..records import Scope
from .dependencies import caller_of, memories_of, scope_of, who

CSRF_COOKIE = "kagent_memory_csrf"
MAX_FIELDS = 50
_WORDS = re.compile(r"(\w+)")


def page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a rendered template with the values that every page needs."""
    params, cookie = request.query_params, request.cookies.get(CSRF_COOKIE)
    csrf = cookie or secrets.token_urlsafe(32)
    shell = {
        "caller": getattr(request.state, "caller", None),
        "has_login": request.app.state.access.required,
        "server": memories_of(request),
        "csrf": csrf,
        "here": request.url.path,
        "show": params.get("show", ""),
        "now": request.app.state.clock(),
        "done": params.get("done", ""),
        "scope": None,
    }
    html = environment().get_template(template).render({**shell, **values})
    answer = HTMLResponse(html, status)
    if cookie is None:
        set_cookie(request, answer, CSRF_COOKIE, csrf)
    return answer


def set_cookie(request: Request, answer: Response, name: str, value: str) -> None:
    """Set a cookie that scripts cannot read and other sites cannot send."""
    answer.set_cookie(
        name,
        value,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
        path="/",
    )


async def own_form(request: Request) -> FormData:
    """Return the form if it comes from one of our pages.

    Raises:
        InvalidInput: its secret differs from the cookie: another site made it, or the cookie has
            expired.
    """
    form = await request.form(max_files=0, max_fields=MAX_FIELDS)
    cookie, secret = request.cookies.get(CSRF_COOKIE, "").encode(), field(form, "csrf").encode()
    if not cookie or not secrets.compare_digest(secret, cookie):
        raise InvalidInput(
            "This form has expired or is not from this server. Reload the page and try again."
        )
    return form


def field(form: FormData, name: str) -> str:
    """Return a field as text with plain line ends, or ""."""
    value = form.get(name)
    return value.replace("\r\n", "\n").strip() if isinstance(value, str) else ""


async def page_scope(request: Request) -> Scope:
    """Return the scope in the page's address; see `scope_of`."""
    return scope_of(request)


async def scope_or_none(request: Request) -> Scope | None:
    """Return the scope in the page's address, or None."""
    params = request.query_params
    return scope_of(request) if params.get("app") and params.get("user") else None


PageScope = Annotated[Scope, Depends(page_scope)]
ScopeOrNone = Annotated[Scope | None, Depends(scope_or_none)]
OwnForm = Annotated[FormData, Depends(own_form)]


def page_user(request: Request) -> str:
    """Return the name for the history of changes made on a page."""
    return who("page", caller_of(request))


def to(path: str, scope: Scope | None = None, **query: str | None) -> Response:
    """Redirect the browser to a page after a form."""
    text = scope_query(scope, **query) if scope else urlencode(query)
    return RedirectResponse(f"{path}?{text}" if text else path, 303)


def moment(at: datetime) -> str:
    """Format a time as 2026-01-31 09:30 UTC."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def relative(at: datetime, now: datetime) -> str:
    """Format a time as 3 days ago, in 5 hours or just now."""
    seconds = int((at - now).total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if count := round(abs(seconds) / size):
            text = f"{count} {unit}{'s' if count > 1 else ''}"
            return f"in {text}" if seconds > 0 else f"{text} ago"
    return "just now"


def marked(text: str, query: str) -> Markup:
    """Mark the words of the text that a search for the query looks for, in any of their forms."""
    if not (terms := set(query_terms(query))):
        return escape(text)
    parts = _WORDS.split(text)  # every second part is a word
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part)
        if number % 2 and not terms.isdisjoint(tokens(part))
        else escape(part)
        for number, part in enumerate(parts)
    )


def scope_query(scope: Scope, **more: Any) -> str:
    """Return the query string for a scope, even with an empty tenant, and for further values that
    are set.
    """
    further = {name: value for name, value in more.items() if value not in ("", None)}
    return urlencode({"app": scope.app, "user": scope.user, "tenant": scope.tenant, **further})


@cache
def environment() -> Environment:
    """Return the template environment: every value is escaped, and unknown names are errors."""
    jinja = Environment(
        loader=PackageLoader("kagent_memory.server"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Any = {
        "moment": moment,
        "relative": relative,
        "marked": marked,
        "sentences": sentences_of,
    }
    jinja.filters.update(filters)
    jinja.globals.update(scope_query=scope_query)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return jinja
