"""The page "Connect an agent": a choice becomes lines to copy, looked at by the doctor on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from .. import doctor
from ..errors import KagentMemoryError
from .connect_code import PROVIDERS, Choice, kagent_json, kagent_yaml, python_lines
from .dependencies import caller_of
from .page_helpers import field, own_form, page, whole
from .pages import scope_or_none

router = APIRouter(include_in_schema=False)


@router.get("/connect")
async def form(request: Request) -> Response:
    """The empty form."""
    return _page(request, Choice(), {})


@router.post("/connect")
async def lines(request: Request) -> Response:
    """The lines of a choice; with `check`, also what the doctor finds."""
    sent = await own_form(request)
    try:
        choice = _choice(sent).checked()
        texts = {"python": python_lines(choice), "json": kagent_json(choice), "yaml": kagent_yaml(choice)}
    except KagentMemoryError as error:
        return _page(request, Choice(), {"wrong": str(error)}, 400)
    findings = None
    # the doctor opens the chosen database from here: only for those who may see everything here anyway
    if field(sent, "check") and not caller_of(request).is_bound:
        findings = await doctor.examine(choice.uri, embedding=choice.embedding)
    return _page(request, choice, {"texts": texts, "findings": findings})


def _choice(sent: FormData) -> Choice:
    ttl_days = whole(field(sent, "ttl_days"), "Days to live")
    names = ("app", "uri", "provider", "model", "base_url")
    return Choice(
        **{name: field(sent, name) for name in names}, ttl_days=Choice.ttl_days if ttl_days is None else ttl_days
    )


def _page(request: Request, choice: Choice, more: Mapping[str, Any], status: int = 200) -> Response:
    values = {"choice": choice, "providers": PROVIDERS, "texts": None, "findings": None, "wrong": ""}
    may_check = not caller_of(request).is_bound
    return page(
        request, "connect.html", {"scope": scope_or_none(request), "may_check": may_check, **values, **more}, status
    )
