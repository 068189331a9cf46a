"""The durable queue: scripts that put in, hand out under a lease, and take back."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from cachetools import TTLCache
from typing_extensions import Unpack

from ...errors import ConfigurationError, NotFound
from ...records import Scope
from .. import codec
from ..codec import bounded, event_ids_in, is_id, without_events
from ..decisions import named
from ..values import Job, JobKind, JobState, PendingJobs, ScopeQuery, checked_job
from .row_codec import to_scope
from .session import Database, Part, Transaction, reading, run, writing

CANDIDATES = 100
SERVED = 100
DUE_SECONDS = 1.0
Candidate: TypeAlias = tuple[Scope, str, int]
"""Scope, id and fence of a job."""


async def put(session: Transaction, jobs: Sequence[Job]) -> None:
    """Queue jobs whose scopes' locks are held, each with the queued one of its key, and without
    events that were taken in, or forgotten, since its caller looked.
    """
    for job in jobs:
        checked_job(job)
    for job in jobs:
        own = session.of(job.scope)
        same = {"kind": job.kind, "key": job.key}
        brought = {"session_id": job.session_id, "event_ids": sorted(event_ids_in(job.payload))}
        queued, ingested = await own.several([("queued_job", same), ("taken_events", brought)])
        payload = without_events(job.payload, {row["event_id"] for row in ingested})
        for earlier in map(own.codec.job, queued):
            job, payload = replace(job, id=earlier.id), codec.united(earlier.payload, payload)
        values = own.codec.job_values(replace(job, payload=payload))
        await own.send("coalesce_job" if queued else "insert_job", **values)


async def withdraw(
    session: Transaction, session_id: str | None, everything: bool, events: Set[str]
) -> frozenset[str]:
    """Delete the jobs of a session or of the scope, and take the messages of these events, and of
    those in them, out of the others; return the latter. The scope's lock is held.
    """
    jobs = {row["id"]: session.codec.job(row) for row in await session.rows("scope_jobs")}
    gone = [id for id, job in jobs.items() if everything or job.session_id == session_id]
    withdrawn = frozenset(event for id in gone for event in event_ids_in(jobs.pop(id).payload))
    if gone:
        await session.send("withdraw_jobs", ids=gone)
    for job in jobs.values():
        left = without_events(job.payload, events | withdrawn)
        if left is not job.payload:
            values = session.codec.job_values(replace(job, payload=left))
            await session.send("replace_payload", **values)
    return withdrawn


class JobQueue(Part):
    """The durable queue of ingestion, and the leases that processes take on common work. The verbs
    cross scopes.

    Where one database is both, a batch ends its job and queues those that follow in the transaction
    of its memories.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # the ids of the scopes whose jobs were claimed, as often, the last at the end
        self._served = deque[bytes](maxlen=SERVED)
        # jobs that could be claimed a moment ago: finding them asks every node of a distributed
        # database, and reads the whole queue of any; the claim itself decides
        self._due = TTLCache[tuple[tuple[str, str], ...], list[Candidate]](1, DUE_SECONDS)

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Queue jobs; return when they are durable. See `Job.key` for coalescing. Crosses
        scopes.
        """
        if jobs:
            scopes = (job.scope for job in jobs)
            await run(self.database, partial(_enqueue, jobs=jobs), *scopes, write=True)
            self._due.clear()  # who is new here has their turn next

    async def claim(
        self,
        owner: str,
        *,
        now: datetime,
        lease_seconds: float,
        exclude: Sequence[tuple[str, str]] = (),
    ) -> Job | None:
        """Return the oldest job due at `now` whose lease is free and whose scope has no other
        running job with a live lease, from now on leased to `owner` with a moved fence and one
        more attempt.
        Scopes take turns, so that nobody's long queue holds up the others; one that was tried
        before comes only when no other is due. `exclude`: (provider, model) pairs that this worker
        cannot resolve. Claimed by compare-and-set; never blocks on another worker. Crosses scopes.

        Leases begin and end by the database's own clock, so that workers whose clocks differ agree
        on who holds a job.
        """
        unreadable: ConfigurationError | None = None
        due = self._due.get(tuple(exclude), [])
        while True:
            if not due:  # however long it took to try those before
                if unreadable is not None:
                    raise unreadable
                due = [*await self._claimable(now=now, exclude=exclude)]
                self._due[tuple(exclude)] = due
            if not due:
                return None
            scope, id, fence = due.pop(0)
            try:
                mine = await self._take(
                    scope, id=id, fence=fence, owner=owner, now=now, lease_seconds=lease_seconds
                )
            except ConfigurationError as error:
                # its key is missing: it waits, and holds up nobody else's
                mine, unreadable = None, error
                self._served.append(scope.id)
            if mine:
                self._served.append(scope.id)
                # one job of a scope runs at a time, and others have their turn first
                due[:] = [other for other in due if other[0] != scope]
                return mine

    @reading
    async def _claimable(
        self, session: Transaction, *, now: datetime, exclude: Sequence[tuple[str, str]]
    ) -> Sequence[Candidate]:
        """Return the jobs that could be claimed at this moment: first of scopes that were not
        served or the longest ago, then the oldest.
        """
        models = ["\x1f".join(pair) for pair in exclude]
        rows = await session.rows(
            "claimable", now=now, models=models, served=[*self._served], limit=CANDIDATES
        )
        return [(to_scope(row), row["id"], row["fence"]) for row in rows]

    @writing
    async def _take(self, session: Transaction, scope: Scope, **lease: Any) -> Job | None:
        """Return the job that a lease is taken on; None when somebody else was first."""
        await session.send("lock_scope")
        row = await session.row("take_job", **lease)
        return None if row is None else session.codec.job(row)

    @writing
    async def renew(self, session: Transaction, job: Job, *, lease_seconds: float) -> bool:
        """Prolong the lease to so long from now; False when the fence moved on or the job is
        gone.
        """
        mine = {"id": job.id, "fence": job.fence}
        return bool(await session.rows("renew_job", **mine, lease_seconds=lease_seconds))

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
        """Give a claimed job back to run later, or bury it as a dead letter, with the `calls`,
        `tokens`, `attempts` and `failures` of `job`. False when the fence moved on.
        """
        state: JobState = "dead" if dead else "queued"
        released = replace(job, state=state, run_after=run_after, error=error)
        return bool(await session.rows("release_job", **session.codec.job_values(released)))

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
        """Return 100 jobs, or as many as `limit` says, oldest first; those of one scope, or of all
        scopes with this tenant, user and app. Without `payloads` these are left empty, and nobody
        loads them. Without a scope it crosses scopes.

        Raises:
            InvalidInput: tenant, user or app can be no part of a scope.
        """
        if id is not None and not is_id(id):
            return []
        return await session.jobs(
            "jobs",
            scope_id=scope and scope.id,
            state=state,
            id=id,
            payloads=payloads,
            limit=bounded(which.get("limit", 100)),
            **named(which),
        )

    @reading
    async def waiting(
        self, session: Transaction, scope: Scope, kind: JobKind, key: str
    ) -> Job | None:
        """Return the queued job of this kind and key, if there is one."""
        return next(iter(await session.jobs("waiting_job", kind=kind, key=key)), None)

    @reading
    async def pending(self, session: Transaction, *, now: datetime) -> PendingJobs:
        """Count the open jobs and tell the age of the oldest: transcripts and embeddings that
        are queued or running, and session ends that are due or have failed. Timers,
        consolidation and dead letters do not count. Crosses scopes.
        """
        [row] = await session.rows("pending_jobs", now=now)
        return PendingJobs(**row)

    @writing
    async def retry(self, session: Transaction, job_id: str, *, now: datetime) -> None:
        """Queue a dead letter again, as if it had never failed. Raises NotFound when there is no
        such dead letter.
        """
        if not is_id(job_id) or not await session.rows("retry_job", id=job_id, now=now):
            raise NotFound(f"There is no dead letter {job_id!r}.")

    @writing
    async def drop(self, session: Transaction, job_id: str) -> None:
        """Delete a job that is not running. Raises NotFound when there is none."""
        if not is_id(job_id) or not await session.rows("drop_job", id=job_id):
            raise NotFound(f"There is no idle job {job_id!r}.")

    @writing
    async def withdraw(
        self,
        session: Transaction,
        scope: Scope,
        *,
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Collection[str] = (),
    ) -> None:
        """Delete the jobs of a session, or all of a scope, and take the messages of these events
        out of the others, running ones too, with all texts that were handed over in them.
        """
        await session.touch(0)
        await withdraw(session, session_id, everything, frozenset(event_ids))

    @writing
    async def lease(self, session: Transaction, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew the named lease for `owner`; False while somebody else holds it. It ends
        by the database's clock. Crosses scopes.
        """
        return bool(await session.rows("take_lease", name=name, owner=owner, seconds=seconds))


async def _enqueue(session: Transaction, jobs: Sequence[Job]) -> None:
    for scope in sorted({job.scope for job in jobs}, key=lambda scope: scope.id):
        await session.of(scope).touch(0)
    await put(session, jobs)
