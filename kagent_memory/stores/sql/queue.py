"""The durable queue: scripts that enqueue, lease and release jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

from cachetools import TTLCache
from typing_extensions import Unpack

from ...errors import ConfigurationError, NotFound
from ...records import Scope
from ..codec import bounded, event_ids_in, known, united, without_events
from ..decisions import named
from ..values import Job, JobKind, JobState, PendingJobs, ScopeQuery, checked_job
from .row_codec import Row, to_scope
from .session import Database, Part, Transaction, reading, writing

CANDIDATES = 100
SERVED = 100
DUE_SECONDS = 1.0


async def put(session: Transaction, jobs: Sequence[Job]) -> None:
    """Queue jobs, each merged into the queued job of its key.

    Events that were ingested or forgotten in the meantime are left out. The caller holds the
    scopes' locks.
    """
    for job in map(checked_job, jobs):
        scoped = session.of(job.scope)
        event_ids = sorted(event_ids_in(job.payload))
        queued, ingested = await scoped.several(
            [
                ("queued_job", {"kind": job.kind, "key": job.key}),
                ("taken_events", {"session_id": job.session_id, "event_ids": event_ids}),
            ]
        )
        payload = without_events(job.payload, {row["event_id"] for row in ingested})
        for earlier in map(scoped.codec.job, queued):
            job, payload = replace(job, id=earlier.id), united(earlier.payload, payload)
        await scoped.send(
            "coalesce_job" if queued else "insert_job",
            **scoped.codec.job_values(replace(job, payload=payload)),
        )


async def withdraw(
    session: Transaction, session_id: str | None, everything: bool, events: Set[str]
) -> frozenset[str]:
    """Delete the jobs of a session or scope, and the messages of its events from the other jobs.

    The caller holds the scope's lock.

    Args:
        session: the transaction.
        session_id: the session whose jobs to delete, or None.
        everything: True to delete all jobs of the scope.
        events: the ids of further events whose messages to remove.

    Returns:
        The ids of the events in the deleted jobs.
    """
    jobs = {row["id"]: session.codec.job(row) for row in await session.rows("scope_jobs")}
    job_ids = [id for id, job in jobs.items() if everything or job.session_id == session_id]
    withdrawn = frozenset(event for id in job_ids for event in event_ids_in(jobs.pop(id).payload))
    if job_ids:
        await session.send("withdraw_jobs", ids=job_ids)
    for job in jobs.values():
        payload = without_events(job.payload, events | withdrawn)
        if payload is not job.payload:
            await session.send(
                "replace_payload", **session.codec.job_values(replace(job, payload=payload))
            )
    return withdrawn


class JobQueue(Part):
    """The durable queue of ingestion, and the leases of processes on shared work.

    The verbs cross scopes. If memories and queue are in one database, a batch ends its job and
    queues the follow-on jobs in the transaction of its memories.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # the scope ids of claimed jobs, one for each claim, the latest last
        self._served = deque[Any](maxlen=SERVED)
        # recently claimable jobs: finding them reads the whole queue, on every node of a
        # distributed database; the claim itself decides
        self._due = TTLCache[tuple[tuple[str, str], ...], list[Row]](1, DUE_SECONDS)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Queue jobs durably, without the messages of events that were ingested or forgotten. See
        `Job.key` for coalescing. Crosses scopes.
        """
        if jobs:
            await self._put(jobs)
            self._due.clear()  # new scopes have their turn next

    @writing
    async def _put(self, session: Transaction, jobs: Sequence[Job]) -> None:
        for scope in sorted({job.scope for job in jobs}, key=lambda scope: scope.id):
            await session.of(scope).touch(0)
        await put(session, jobs)

    async def claim(
        self,
        owner: str,
        *,
        now: datetime,
        lease_seconds: float,
        exclude: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """Lease the oldest due job to `owner`, with a new fence and one more attempt.

        A job is due if its lease is free and no other job of its scope runs. Scopes take turns, so
        that a long queue does not block others; jobs tried before come last. Claiming is a
        compare-and-set and never blocks on another worker. Leases begin and end by the database's
        clock, so that workers with different clocks agree on who holds a job. Crosses scopes.

        Args:
            owner: the name of the worker.
            now: the time by which jobs are due.
            lease_seconds: the length of the lease.
            exclude: (provider, model) pairs that this worker cannot resolve.

        Returns:
            The job, or None if none is due.

        Raises:
            ConfigurationError: the only jobs due are encrypted with a missing key.
        """
        unreadable: ConfigurationError | None = None
        due = self._due.get(tuple(exclude), [])
        while True:
            if not due:  # trying the former ones may have taken long
                if unreadable is not None:
                    raise unreadable
                due = self._due[tuple(exclude)] = await self._claimable(now=now, exclude=exclude)
            if not due:
                return None
            candidate = due.pop(0)
            scope_id = candidate["scope_id"]
            try:
                job = await self._take(
                    **candidate, owner=owner, now=now, lease_seconds=lease_seconds
                )
            except ConfigurationError as error:
                # its key is missing: it stays queued and must not block others
                job, unreadable = None, error
                self._served.append(scope_id)
            if job:
                self._served.append(scope_id)
                # a scope runs one job at a time
                due[:] = [other for other in due if other["scope_id"] != scope_id]
                return job

    @reading
    async def _claimable(
        self, session: Transaction, *, now: datetime, exclude: Sequence[tuple[str, str]]
    ) -> list[Row]:
        """Return the ids and fences of the claimable jobs: scopes served never or longest ago
        first, then the oldest job.
        """
        return [
            *await session.rows(
                "claimable",
                now=now,
                models=["\x1f".join(pair) for pair in exclude],
                served=[*self._served],
                limit=CANDIDATES,
            )
        ]

    @writing
    async def _take(self, session: Transaction, **values: Any) -> Job | None:
        """Lease a job and return it, or None if another worker was first."""
        scopes, jobs = await session.several([("lock_scope", values), ("take_job", values)])
        for scope, job in zip(scopes, jobs, strict=False):
            return session.of(to_scope(scope)).codec.job(job)
        return None

    @writing
    async def renew(self, session: Transaction, job: Job, *, lease_seconds: float) -> bool:
        """Extend the lease to `lease_seconds` from now; False if the fence moved or the job is
        gone.
        """
        return bool(
            await session.rows("renew_job", id=job.id, fence=job.fence, lease_seconds=lease_seconds)
        )

    @writing
    async def release(
        self,
        session: Transaction,
        job: Job,
        *,
        run_after: datetime,
        error: str,
        dead: bool = False,
    ) -> bool:
        """Return a claimed job to the queue, or make it a dead letter; False if the fence moved.

        Args:
            session: the transaction.
            job: the job, whose `calls`, `tokens`, `attempts` and `failures` are stored.
            run_after: when to run it again.
            error: the error of the last attempt.
            dead: True to make it a dead letter.
        """
        values = session.codec.job_values(
            replace(job, state="dead" if dead else "queued", run_after=run_after, error=error)
        )
        return bool(await session.rows("release_job", **values))

    @reading
    async def jobs(
        self,
        session: Transaction,
        *,
        scope: Scope | None = None,
        state: JobState | None = None,
        id: str | None = None,
        payloads: bool = True,
        **which: Unpack[ScopeQuery],
    ) -> Sequence[Job]:
        """Return jobs, oldest first.

        Args:
            session: the transaction.
            scope: the scope of the jobs; None crosses scopes.
            state: their state; None: any.
            id: the id of one job.
            payloads: False to leave payloads empty and not load them.
            which: tenant, user and app of the jobs, and `limit` (default: 100).

        Raises:
            InvalidInput: tenant, user or app cannot be part of a scope.
        """
        return await session.jobs(
            "jobs",
            scope_id=scope and scope.id,
            state=state,
            ids=None if id is None else known([id]),
            payloads=payloads,
            limit=bounded(which.get("limit", 100)),
            **named(which),
        )

    @reading
    async def waiting(
        self, session: Transaction, scope: Scope, kind: JobKind, key: str
    ) -> Job | None:
        """Return the queued job of this kind and key, or None."""
        return next(iter(await session.jobs("waiting_job", kind=kind, key=key)), None)

    @reading
    async def pending(self, session: Transaction, *, now: datetime) -> PendingJobs:
        """Count the open jobs, with the age of the oldest.

        These are queued or running transcripts and embeddings, and session ends that are due or
        have failed; not timers, consolidation or dead letters. Crosses scopes.
        """
        [row] = await session.rows("pending_jobs", now=now)
        return PendingJobs(**row)

    @writing
    async def retry(self, session: Transaction, job_id: str, *, now: datetime) -> None:
        """Queue a dead letter again, as if it had never failed.

        Raises:
            NotFound: there is no such dead letter.
        """
        if not await session.rows("retry_jobs", ids=known([job_id]), now=now):
            raise NotFound(f"There is no dead letter {job_id!r}.")

    @writing
    async def drop(self, session: Transaction, job_id: str) -> None:
        """Delete a job that is not running.

        Raises:
            NotFound: there is no such idle job.
        """
        for row in await session.rows("idle_jobs", ids=known([job_id])):
            await session.rows("lock_scope", **row)
            if await session.rows("drop_job", **row):
                await session.send("mark_empty", **row)
                return
        raise NotFound(f"There is no idle job {job_id!r}.")

    @writing
    async def lease(self, session: Transaction, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a named lease; False while another owner holds it.

        It ends by the database's clock. Crosses scopes.
        """
        return bool(await session.rows("take_lease", name=name, owner=owner, seconds=seconds))
