"""The page of the queue: what waits, what runs, and dead letters with their reasons."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter, Request
from fastapi.responses import Response

from ..errors import NotFound
from ..stores.base import Job, JobState
from .dependencies import memories_of, own_job, visible_jobs
from .page_helpers import OwnForm, ScopeOrNone, page, to

router = APIRouter(include_in_schema=False)

SHOWN = 200
RETRIED_AT_ONCE = 1000
STATES: tuple[JobState, ...] = ("dead", "running", "queued")


@router.get("/jobs")
async def jobs(request: Request, scope: ScopeOrNone) -> Response:
    """The queue, dead letters first."""
    listed = list[Job]()
    for state in STATES:  # one by one: a long queue must not push dead letters off the page
        listed += await visible_jobs(request, scope, state, SHOWN - len(listed))
    return page(request, "jobs.html", {"scope": scope, "jobs": listed, "most": SHOWN})


@router.post("/jobs/retry-all")
async def retry_all(request: Request, scope: ScopeOrNone, form: OwnForm) -> Response:
    """Queue all dead letters again that the page is about."""
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
                await memories_of(request).retry_job(job.id)
    return to("/jobs", scope, done="all-retried")


@router.post("/jobs/{id}/retry")
async def retry(request: Request, scope: ScopeOrNone, form: OwnForm, id: str) -> Response:
    """Queue a dead letter again."""
    await memories_of(request).retry_job((await own_job(request, id)).id)
    return to("/jobs", scope, done="retried")


@router.post("/jobs/{id}/drop")
async def drop(request: Request, scope: ScopeOrNone, form: OwnForm, id: str) -> Response:
    """Delete a job."""
    await memories_of(request).drop_job((await own_job(request, id)).id)
    return to("/jobs", scope, done="dropped")
