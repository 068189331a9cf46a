"""The page of the queue: what waits, what runs, and dead letters with their reasons."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import NotFound
from ..stores.base import Job, JobState
from .dependencies import memories_of, own_job, visible_jobs
from .page_helpers import own_form, page, to
from .pages import scope_or_none

router = APIRouter(include_in_schema=False)

SHOWN = 200
RETRIED_AT_ONCE = 1000
STATES: tuple[JobState, ...] = ("dead", "running", "queued")


@router.get("/jobs")
async def jobs(request: Request) -> Response:
    """The queue, dead letters first."""
    scope, listed = scope_or_none(request), list[Job]()
    for state in STATES:  # one by one: a long queue must not push dead letters off the page
        left = SHOWN - len(listed)
        listed += await visible_jobs(request, scope, state, left)
    return page(request, "jobs.html", {"scope": scope, "jobs": listed, "most": SHOWN})


@router.post("/jobs/retry-all")
async def retry_all(request: Request) -> Response:
    """Queues all dead letters again that the page is about."""
    scope, memories = scope_or_none(request), memories_of(request)
    await own_form(request)
    tried: set[str] = set()
    # one that is dead again by now is not tried twice
    while fresh := [
        job
        for job in await visible_jobs(request, scope, "dead", RETRIED_AT_ONCE)
        if job.id not in tried
    ]:
        for job in fresh:
            tried.add(job.id)
            with suppress(NotFound):  # somebody else retried or dropped it
                await memories.retry_job(job.id)
    return to("/jobs", scope, done="all-retried")


@router.post("/jobs/{id}/retry")
async def retry(request: Request, id: str) -> Response:
    """Queues a dead letter again."""
    await own_form(request)
    await memories_of(request).retry_job((await own_job(request, id)).id)
    return to("/jobs", scope_or_none(request), done="retried")


@router.post("/jobs/{id}/drop")
async def drop(request: Request, id: str) -> Response:
    """Deletes a job."""
    await own_form(request)
    await memories_of(request).drop_job((await own_job(request, id)).id)
    return to("/jobs", scope_or_none(request), done="dropped")
