"""The page "Connect an agent": a choice becomes lines to copy, looked at by the doctor on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import Response

from .. import doctor
from ..errors import KagentMemoryError
from .connect_code import PROVIDERS, Choice, kagent_json, kagent_yaml, python_lines, shell_lines
from .dependencies import access_of, caller_of, memories_of
from .error_responses import message_of
from .page_helpers import field, own_form, page, whole
from .pages import scope_or_none

router = APIRouter(include_in_schema=False)


@router.get("/connect")
async def form(request: Request) -> Response:
    """The form, with this server chosen and its lines shown."""
    scope = scope_or_none(request)
    choice = Choice(uri=_own_address(request))
    choice = replace(choice, app=scope.app) if scope else choice
    return _page(request, choice, {"texts": _texts(request, choice)})


@router.post("/connect")
async def lines(request: Request) -> Response:
    """The lines of a choice; with `check`, also what the doctor finds."""
    sent = await own_form(request)
    choice = Choice(
        app=field(sent, "app"),
        uri=field(sent, "uri"),
        provider=field(sent, "provider"),
        model=field(sent, "model"),
        base_url=field(sent, "base_url"),
    )
    try:
        ttl_days = whole(field(sent, "ttl_days"), "Days to live")
        choice = choice if ttl_days is None else replace(choice, ttl_days=ttl_days)
        texts = _texts(request, choice.checked())
    except KagentMemoryError as error:
        return _page(request, choice, {"wrong": message_of(error)}, 400)
    findings = None
    # the doctor opens the chosen database from here: only for those who may see everything here anyway
    if field(sent, "check") and not caller_of(request).is_bound:
        memories = memories_of(request)
        if choice.uri.rstrip("/") == _own_address(request):
            checks = doctor.of_server(choice.uri, await memories.check())
            findings = [*checks, await doctor.of_queue(memories.jobs, request.app.state.clock())]
        elif choice.is_server:
            advice = f"Ask there: `kagent-memory doctor --uri {choice.uri}`."
            findings = [doctor.Finding("server", "note", "Another server is not looked at from here.", advice)]
        else:
            findings = await doctor.examine(choice.uri, embedding=choice.embedding)
    return _page(request, choice, {"texts": texts, "findings": findings})


def _own_address(request: Request) -> str:
    address = str(request.base_url).rstrip("/")
    try:
        urlsplit(address)
    except ValueError:  # an invalid Host, such as "["
        return "http://127.0.0.1:8080"
    return address


def _texts(request: Request, choice: Choice) -> dict[str, str]:
    if choice.uri.rstrip("/") == _own_address(request):
        access, needs_model = access_of(request), memories_of(request).needs_model
        choice = replace(choice, needs_token=access.required or access.trusted_proxy, needs_model=needs_model)
    scope = scope_or_none(request)
    return {
        "python": python_lines(choice),
        "shell": shell_lines(choice, scope.user if scope else "ada"),
        "json": kagent_json(choice),
        "yaml": kagent_yaml(choice),
    }


def _page(request: Request, choice: Choice, more: Mapping[str, Any], status: int = 200) -> Response:
    values = {"choice": choice, "providers": PROVIDERS, "texts": None, "findings": None, "wrong": ""}
    may_check = not caller_of(request).is_bound
    values |= {"scope": scope_or_none(request), "may_check": may_check, "own": _own_address(request), **more}
    return page(request, "connect.html", values, status)
