"""Pages of oversight: what waits in quarantine, receipts, export, and forgetting by conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import InvalidInput, KagentMemoryError, NotFound, family_of
from ..memories.tool_answers import moment
from ..records import Filter, Memory
from .dependencies import caller_of, known_id, memories_of, tenant_wide, who
from .error_responses import message_of
from .page_helpers import field, own_form, page, page_scope, to
from .transfer import exported

router = APIRouter(include_in_schema=False)

SHOWN = 50
CONDITIONS = ("session_id", "tag", "author", "after", "before")


@router.get("/quarantine")
async def quarantine(request: Request) -> Response:
    """What waits to be confirmed, newest first."""
    memories, scope = memories_of(request), page_scope(request)
    cursor = request.query_params.get("cursor") or None
    waiting = await memories.list(
        scope, filter=Filter(superseded="quarantined"), limit=SHOWN, cursor=cursor
    )
    values = {"scope": scope, "memories": waiting.memories, "cursor": waiting.cursor}
    return page(
        request, "quarantine.html", {**values, "total": (await memories.stats(scope)).quarantined}
    )


@router.post("/quarantine/{id}/confirm")
async def confirm(request: Request, id: str) -> Response:
    """Lets a memory out of quarantine."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).confirm(scope, id, who=who("page", caller_of(request)))
    return to("/quarantine", scope, done="confirmed")


@router.post("/quarantine/{id}/reject")
async def reject(request: Request, id: str) -> Response:
    """Erases a memory in quarantine."""
    scope, _, id = page_scope(request), await own_form(request), known_id(id, "memory")
    await memories_of(request).reject(scope, id, who=who("page", caller_of(request)))
    return to("/quarantine", scope, done="rejected")


@router.get("/receipts")
async def receipts(request: Request) -> Response:
    """What was forgotten of the tenant, and whether every receipt is there and as it was
    written.
    """
    memories, scope = memories_of(request), page_scope(request)
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
async def export(request: Request) -> Response:
    """All memories of the agent and user as a file that `kagent-memory import` takes."""
    scope = page_scope(request)
    answer = await exported(
        memories_of(request).export(tenant=scope.tenant, user=scope.user, app=scope.app)
    )
    answer.headers["content-disposition"] = 'attachment; filename="memories.jsonl"'
    return answer


@router.get("/forget")
async def forget_form(request: Request) -> Response:
    """Asks which memories are to go."""
    return _forget_page(request, dict.fromkeys(CONDITIONS, ""))


@router.post("/forget/look")
async def look(request: Request) -> Response:
    """A dry run: how many would go, before anything does."""
    return await _forgotten(request, dry_run=True)


@router.post("/forget")
async def forget(request: Request) -> Response:
    """Erases what meets all conditions."""
    return await _forgotten(request, dry_run=False)


async def _forgotten(request: Request, *, dry_run: bool) -> Response:
    scope, form = page_scope(request), await own_form(request)
    typed = {name: field(form, name) for name in CONDITIONS}
    try:
        if not any(typed.values()):
            raise InvalidInput(
                "Name at least one condition. To delete everything, use Delete all memories."
            )
        gone = await memories_of(request).forget(
            scope,
            session_id=typed["session_id"] or None,
            tag=typed["tag"] or None,
            author=typed["author"] or None,
            after=moment(typed, "after"),
            before=moment(typed, "before"),
            dry_run=dry_run,
            who=who("page", caller_of(request)),
        )
    except KagentMemoryError as error:
        return _forget_page(
            request, typed, wrong=message_of(error), status=family_of(error).http_status
        )
    if not dry_run:
        return to("/memories", scope, done="forgotten")
    shown: list[Memory] = []
    for id in gone[:SHOWN]:
        with suppress(NotFound):  # expired
            shown.append(await memories_of(request).get(scope, id, superseded=True))
    return _forget_page(request, typed, gone=len(gone), shown=shown)


def _forget_page(
    request: Request,
    typed: Mapping[str, str],
    *,
    wrong: str = "",
    gone: int | None = None,
    shown: Sequence[Memory] = (),
    status: int = 200,
) -> Response:
    values: dict[str, Any] = {
        "scope": page_scope(request),
        "typed": typed,
        "wrong": wrong,
        "gone": gone,
        "shown": shown,
    }
    return page(request, "forget.html", values, status)
