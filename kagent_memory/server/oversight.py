"""Pages of oversight: what waits in quarantine, receipts, export, and forgetting by conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from ..errors import InvalidInput, KagentMemoryError, NotFound, family_of
from ..records import Filter, Memory, Scope
from .api import VERBS
from .dependencies import caller_of, memories_of, tenant_wide
from .error_responses import message_of
from .page_helpers import OwnForm, PageScope, field, page, page_user, to
from .transfer import exported

router = APIRouter(include_in_schema=False)

SHOWN = 50
CONDITIONS = ("session_id", "tag", "author", "after", "before")


@router.get("/quarantine")
async def quarantine(request: Request, scope: PageScope) -> Response:
    """Show the memories that wait to be confirmed, newest first."""
    memories = memories_of(request)
    cursor = request.query_params.get("cursor") or None
    waiting = await memories.list(
        scope, filter=Filter(superseded="quarantined"), limit=SHOWN, cursor=cursor
    )
    values = {"scope": scope, "memories": waiting.memories, "cursor": waiting.cursor}
    return page(
        request, "quarantine.html", {**values, "total": (await memories.stats(scope)).quarantined}
    )


@router.get("/receipts")
async def receipts(request: Request, scope: PageScope) -> Response:
    """Show the tenant's receipts of what was forgotten, and whether each is there and as it was
    written.
    """
    memories = memories_of(request)
    tenant = tenant_wide(caller_of(request), scope.tenant)["tenant"]
    text = request.query_params.get("after", "")
    after = int(text) if text.isdecimal() and len(text) < 10 else 0
    listed = await memories.receipts(tenant=tenant, after=after, limit=SHOWN)
    checked = await memories.check_receipts(tenant=tenant)
    values: dict[str, Any] = {
        "scope": scope,
        "receipts": listed,
        "checked": checked,
        "more": len(listed) == SHOWN,
    }
    values["problems"] = [problem for some in checked.problems.values() for problem in some]
    return page(request, "receipts.html", values)


@router.get("/export")
async def export(request: Request, scope: PageScope) -> Response:
    """All memories of the agent and user as a file that `kagent-memory import` takes."""
    answer = await exported(
        memories_of(request).export(tenant=scope.tenant, user=scope.user, app=scope.app)
    )
    answer.headers["content-disposition"] = 'attachment; filename="memories.jsonl"'
    return answer


@router.get("/forget")
async def forget_form(request: Request, scope: PageScope) -> Response:
    """Ask which memories are to go."""
    return _forget_page(request, scope, dict.fromkeys(CONDITIONS, ""))


@router.post("/forget/look")
async def look(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """A dry run: how many would go, before anything does."""
    return await _forgotten(request, scope, form, dry_run=True)


@router.post("/forget")
async def forget(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Erase what meets all conditions."""
    return await _forgotten(request, scope, form, dry_run=False)


async def _forgotten(request: Request, scope: Scope, form: FormData, *, dry_run: bool) -> Response:
    typed = {name: field(form, name) for name in CONDITIONS}
    conditions = {name: text for name, text in typed.items() if text}
    try:
        if not conditions:
            raise InvalidInput(
                "Name at least one condition. To delete everything, use Delete all memories."
            )
        gone = await memories_of(request).forget(
            scope,
            dry_run=dry_run,
            who=page_user(request),
            **VERBS["forget"].read_texts(conditions),
        )
    except KagentMemoryError as error:
        return _forget_page(
            request, scope, typed, wrong=message_of(error), status=family_of(error).http_status
        )
    if not dry_run:
        return to("/memories", scope, done="forgotten")
    shown: list[Memory] = []
    for id in gone[:SHOWN]:
        with suppress(NotFound):  # expired
            shown.append(await memories_of(request).get(scope, id, superseded=True))
    return _forget_page(request, scope, typed, gone=len(gone), shown=shown)


def _forget_page(
    request: Request,
    scope: Scope,
    typed: Mapping[str, str],
    *,
    status: int = 200,
    wrong: str = "",
    gone: int | None = None,
    shown: Sequence[Memory] = (),
) -> Response:
    values = {"scope": scope, "typed": typed, "wrong": wrong, "gone": gone, "shown": shown}
    return page(request, "forget.html", values, status)
