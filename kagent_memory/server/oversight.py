"""The admin pages: dashboard, queue, receipts, and forgetting by conditions."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..checks import parsed_time
from ..errors import InvalidInput, KagentMemoryError, NotFound
from ..memories import Memories
from ..memories.reading import each_memory, existing
from ..records import Memory, Scope
from ..stores.values import Job, JobState
from .api import VERBS
from .dependencies import caller_of, memories_of, own_job, tenant_wide, visible_jobs
from .error_responses import error_values
from .page_helpers import OwnForm, PageScope, ScopeOrNone, field, page, page_user, to
from .request_arguments import read_texts

router = APIRouter(include_in_schema=False)

DAYS = 30
MAX_READ = 10_000
BANDS = (("0", 0, 0), ("1-2", 1, 2), ("3-9", 3, 9), ("10-29", 10, 29), ("30+", 30, math.inf))
PAGE_SIZE = 50
CONDITIONS = ("session_id", "tag", "author", "after", "before", "everything")
TIMES = ("after", "before")
MAX_JOBS = 200
MAX_RETRIES = 1000  # jobs that one click retries
STATES: tuple[JobState, ...] = ("dead", "running", "queued")
JOB_ACTIONS: Mapping[str, Callable[[Memories, str], Awaitable[object]]] = {
    "retry": Memories.retry_job,
    "drop": Memories.drop_job,
}
"""The action of each button on a job."""
Series: TypeAlias = Sequence[tuple[str, int]]


@router.get("/dashboard")
async def dashboard(request: Request, scope: PageScope) -> Response:
    """Show counts and plots."""
    memories = memories_of(request)
    rows = list[Memory]()
    async for memory in each_memory(memories, scope):
        rows.append(memory)
        if len(rows) == MAX_READ:
            break
    stats, now = await memories.stats(scope), request.app.state.clock()
    plots = {
        "Memories over the last 30 days (UTC)": growth(rows, now),
        "Memories by how often the agent used them": delivered(rows),
        "Memories that expire in the next 30 days (UTC)": expiring(rows, now),
        "Memories by kind": sorted(stats.by_type.items()),
        "Jobs in the queue": [(state, stats.jobs.get(state, 0)) for state in reversed(STATES)],
    }
    return page(
        request,
        "dashboard.html",
        scope=scope,
        stats=stats,
        plots=plots.items(),
        is_complete=stats.visible <= len(rows),
        read=len(rows),
    )


def growth(rows: Sequence[Memory], now: datetime) -> Series:
    """Count how many of today's memories existed at the end of each of the last 30 days."""
    dates = sorted(memory.created_at.date() for memory in rows)
    days = [now.date() - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    return [(day.strftime("%d %b"), bisect_right(dates, day)) for day in days]


def delivered(rows: Sequence[Memory]) -> Series:
    """Count memories by their number of deliveries."""
    counts = [memory.usage.delivered for memory in rows]
    return [(label, sum(low <= n <= high for n in counts)) for label, low, high in BANDS]


def expiring(rows: Sequence[Memory], now: datetime) -> Series:
    """Count the memories that expire on each of the next 30 days, without pinned ones."""
    ends = Counter(
        memory.expires_at.date() for memory in rows if memory.expires_at and not memory.pinned
    )
    days = [now.date() + timedelta(days=ahead) for ahead in range(DAYS)]
    return [(day.strftime("%d %b"), ends[day]) for day in days]


@router.get("/jobs")
async def jobs(request: Request, scope: ScopeOrNone) -> Response:
    """Show dead letters with their reasons, then running and queued jobs."""
    rows = list[Job]()
    for state in STATES:  # by state, so that a long queue does not push dead letters off the page
        rows += await visible_jobs(request, scope, state, MAX_JOBS - len(rows))
    return page(request, "jobs.html", scope=scope, jobs=rows, most=MAX_JOBS)


@router.post("/jobs")
async def change_job(request: Request, scope: ScopeOrNone, form: OwnForm) -> Response:
    """Retry or drop a job, or retry all dead letters."""
    action = field(form, "do")
    if action == "retry-all":
        for job in await visible_jobs(request, scope, "dead", MAX_RETRIES):
            with suppress(NotFound):  # somebody else retried or dropped it meanwhile
                await memories_of(request).retry_job(job.id)
    elif action in JOB_ACTIONS:
        job = await own_job(request, field(form, "id"))
        await JOB_ACTIONS[action](memories_of(request), job.id)
    else:
        action = "none"
    return to("/jobs", scope, done=action)


@router.get("/receipts")
async def receipts(request: Request, scope: PageScope) -> Response:
    """Show the tenant's receipts of forgetting, and whether each is present and unchanged."""
    memories = memories_of(request)
    tenant = tenant_wide(caller_of(request), scope.tenant)["tenant"]
    after = read_texts(VERBS["receipts"], {"after": request.query_params.get("after", "0")})
    rows = await memories.receipts(tenant=tenant, limit=PAGE_SIZE, **after)
    return page(
        request,
        "receipts.html",
        scope=scope,
        receipts=rows,
        checked=await memories.check_receipts(tenant=tenant),
        most=PAGE_SIZE,
    )


@router.get("/forget")
async def forget_form(request: Request, scope: PageScope) -> Response:
    """Show the empty form."""
    return _forget_page(request, scope, dict.fromkeys(CONDITIONS, ""))


@router.post("/forget")
async def forget(request: Request, scope: PageScope, form: OwnForm) -> Response:
    """Show the memories that meet all conditions; erase them once confirmed."""
    typed = {name: field(form, name) for name in CONDITIONS}
    is_preview = field(form, "do") != "forget"
    conditions = {name: text for name, text in typed.items() if text}
    memories, user = memories_of(request), page_user(request)
    try:
        if not conditions:
            raise InvalidInput(
                "Name at least one condition. To delete everything, use Delete all memories."
            )
        for name in conditions.keys() & TIMES:
            conditions[name] = parsed_time(conditions[name], name).isoformat()
        arguments = read_texts(VERBS["forget"], conditions)
        ids = await memories.forget(scope, dry_run=is_preview, who=user, **arguments)
    except KagentMemoryError as error:
        return _forget_page(request, scope, typed, **error_values(error))
    if not is_preview:
        return to("/memories", scope, done="forget")
    preview = await existing(memories, scope, ids[:PAGE_SIZE])
    return _forget_page(request, scope, typed, count=len(ids), preview=preview)


def _forget_page(
    request: Request, scope: Scope, typed: Mapping[str, str], *, status: int = 200, **more: Any
) -> Response:
    """Show the form as typed, with a preview of what it would erase, or with the problem."""
    values = {"typed": typed, "problem": "", "count": None, "preview": (), **more}
    return page(request, "forget.html", status, scope=scope, **values)
