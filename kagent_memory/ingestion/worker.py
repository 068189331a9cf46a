"""The worker: claim jobs, renew their leases while they run, and finish or release them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from cachetools import TTLCache

from .. import telemetry
from ..concurrency import cancel_and_wait, uninterrupted
from ..errors import ConfigurationError, Conflict, KagentMemoryError, StoreError
from ..models.failures import kinds, raised_here, transient
from ..models.llm import Meter, metered
from ..records import new_id
from ..stores import JobQueue
from ..stores.values import Job
from .providers import BroughtElsewhere, ProviderUnavailable

logger = logging.getLogger(__name__)
# spreads workers and attempts; of its own, so that a program's seed is not disturbed
_chance = Random()  # noqa: S311 no secret

LEASE_SECONDS = 20.0
"""Seconds until another worker may claim the job of a killed one."""
MAX_LEASES = 8
"""Longest lease, in multiples of `LEASE_SECONDS`, of a job begun repeatedly."""
JOBS_AT_ONCE = 4
POLL_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 2.0
MAX_PAUSE_SECONDS = 900.0
MAX_FAILURES = 5  # until a job becomes a dead letter; transient failures do not count
UNRESOLVED_PAUSE_SECONDS = 30.0  # a caller that brings the missing model wakes the worker
MEASURE_SECONDS = 15.0
MAX_ERROR_CHARS = 500
MAX_UNRESOLVABLE = 1_000
UNRESOLVABLE_SECONDS = 30.0  # until jobs of a missing name are claimed again


@dataclass(eq=False)
class Worker:
    """Works on the queue of a store; any number of workers may, in any number of processes.

    Attributes:
        store: the queue.
        run: performs a claimed job, and commits its result and its end together; the meter counts
            its calls of models.
        clock: the current time (aware UTC).
        redact: masks secrets in errors before they are logged or stored with the job.
        location: the name of the store in metrics.
        finished: the number of finished jobs.
    """

    store: JobQueue
    run: Callable[[Job, Meter], Awaitable[None]]
    clock: Callable[[], datetime]
    redact: Callable[[str], str]
    location: str

    def __post_init__(self) -> None:
        self.finished = 0
        self.owner = new_id()
        self._wake = asyncio.Event()
        self._running = set[asyncio.Task[None]]()
        self._unresolvable = TTLCache[tuple[str, str], None](MAX_UNRESOLVABLE, UNRESOLVABLE_SECONDS)
        self._error = ""
        self._measure_at = 0.0
        self._is_stopped = False

    def wake(self, model: str = "") -> None:
        """Look at the queue at once, for a new job whose `model` may be new to this process."""
        for pair in [pair for pair in self._unresolvable if model and pair[1] == model]:
            self._unresolvable.pop(pair, None)
        self._wake.set()

    def stop(self) -> None:
        """Claim no more jobs."""
        self._is_stopped = True
        self._wake.set()

    async def work(self) -> None:
        """Work until stopped, then finish the running jobs; release them if cancelled."""
        try:
            while not self._is_stopped:
                seconds = POLL_SECONDS if await self._claim_due() else 4 * POLL_SECONDS
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds * _chance.uniform(0.75, 1.25)):
                        await self._wake.wait()
            await self._settle()
        except GeneratorExit:  # the event loop is closed: nothing can be awaited
            raise
        except BaseException:
            await uninterrupted(cancel_and_wait(*self._running))
            raise

    async def work_until_idle(self) -> int:
        """Work until nothing is due or running; return the number of jobs finished."""
        before = self.finished
        # a finished job may have queued others
        while await self._claim_due() and (self._running or self._wake.is_set()):
            if self._running:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        await self._settle()
        return self.finished - before

    async def _claim_due(self) -> bool:
        """Start due jobs up to `JOBS_AT_ONCE`; return False if the queue cannot be read."""
        self._wake.clear()
        now = time.monotonic()
        try:
            while len(self._running) < JOBS_AT_ONCE:
                # interrupted, it would leave a lease to expire
                if not await uninterrupted(self._claim()):
                    break
        except KagentMemoryError as error:
            level = logging.DEBUG if str(error) == self._error else logging.WARNING  # once
            logger.log(level, "The queue cannot be read: %s", error)
            self._error = str(error)
            return False
        self._error = ""
        if now >= self._measure_at:
            self._measure_at = now + MEASURE_SECONDS
            await self._measure()
        return True

    async def _measure(self) -> None:
        """Report the length of the queue to telemetry."""
        now = self.clock()
        try:
            pending = await self.store.pending(now=now)
        except KagentMemoryError as error:
            logger.warning("The queue cannot be measured: %s", error)
            return
        age = max(0.0, (now - pending.oldest_at).total_seconds()) if pending.oldest_at else 0.0
        telemetry.queue(pending.count, age, store=self.location)

    async def _claim(self) -> bool:
        """Start the next due job; return False if there is none."""
        job = await self.store.claim(
            self.owner,
            now=self.clock(),
            lease_seconds=LEASE_SECONDS,
            exclude=sorted(self._unresolvable),
        )
        if job is None:
            return False
        if job.attempts > 1:
            await self.store.renew(job, lease_seconds=lease_seconds(job))
        task = asyncio.create_task(self._leased(job), name=f"kagent-memory-job-{job.id}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: self._wake.set())
        return True

    async def _settle(self) -> None:
        if self._running:
            await asyncio.wait(self._running)

    async def _leased(self, job: Job) -> None:
        with metered() as meter:
            work = asyncio.ensure_future(self.run(job, meter))
        heart = asyncio.create_task(self._keep_lease(job, work))
        try:
            await work
            self.finished += 1
            logger.info(
                "Job %s (%s) done: %d model calls, %d tokens.",
                job.id,
                job.kind,
                meter.calls,
                meter.tokens,
            )
        except asyncio.CancelledError:
            if heart.done():
                return
            await uninterrupted(
                self._give_back(job, "The worker was stopped.", pause=0.0, counted=False)
            )
            raise
        except Exception as error:
            job = replace(job, calls=job.calls + meter.calls, tokens=job.tokens + meter.tokens)
            await uninterrupted(self._failed(job, error))
        finally:
            heart.cancel()

    async def _keep_lease(self, job: Job, work: asyncio.Future[None]) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                is_held = await self.store.renew(job, lease_seconds=lease_seconds(job))
            except KagentMemoryError as error:
                logger.warning("The lease of job %s could not be renewed: %s", job.id, error)
                continue
            if not is_held:
                logger.warning("The lease of job %s was lost; another worker has it.", job.id)
                work.cancel()
                return

    async def _failed(self, job: Job, error: Exception) -> None:
        """Release a failed job; do not count the failure if only this process lacks its provider or
        model.
        """
        if isinstance(error, Conflict):
            logger.warning("Job %s was taken over by another worker.", job.id)
            return
        if isinstance(error, ProviderUnavailable):
            if not isinstance(error, BroughtElsewhere):
                self._unresolvable[job.provider, job.model] = None
            level = logging.DEBUG if job.error == str(error) else logging.WARNING  # once
            logger.log(level, "Job %s stays queued for another worker: %s", job.id, error)
            await self._give_back(job, str(error), pause=UNRESOLVED_PAUSE_SECONDS, counted=False)
            return
        passes = isinstance(error, StoreError) or transient(error)
        job = replace(job, failures=job.failures + (not passes))
        # messages of foreign errors may quote content
        is_own = isinstance(error, KagentMemoryError) and raised_here(error)
        reason = self.redact(f"{type(error).__name__}: {error}" if is_own else kinds(error))
        logger.warning("Job %s failed (attempt %d): %s", job.id, job.attempts, reason)
        pause = pause_seconds(job.attempts if passes else job.failures)
        worn_out = job.failures >= MAX_FAILURES and not passes and job.kind != "embed"
        dead = worn_out or isinstance(error, ConfigurationError)
        await self._give_back(job, reason[:MAX_ERROR_CHARS], pause=pause, dead=dead)

    async def _give_back(
        self, job: Job, error: str, *, pause: float, dead: bool = False, counted: bool = True
    ) -> None:
        run_after = self.clock() + timedelta(seconds=pause)
        released_job = job if counted else replace(job, attempts=job.attempts - 1)
        try:
            await self.store.release(released_job, run_after=run_after, error=error, dead=dead)
        except KagentMemoryError as failure:
            logger.warning(
                "Job %s could not be released and waits for its lease to expire: %s",
                job.id,
                failure,
            )


def lease_seconds(job: Job) -> float:
    """Return the duration of a job's lease.

    It doubles with each attempt, so that a worker whose event loop is blocked for long, for example
    by a provider, keeps its job in the end.
    """
    return LEASE_SECONDS * min(2 ** (job.attempts - 1), MAX_LEASES)


def pause_seconds(failures: int) -> float:
    """Return the pause before the next attempt at a job after `failures` failures in a row (from
    1).

    It doubles up to a quarter of an hour; a random part of up to a quarter keeps jobs that failed
    together apart.
    """
    exponent = min(failures - 1, 9)  # enough for the longest pause
    pause = min(FIRST_PAUSE_SECONDS * 2**exponent, MAX_PAUSE_SECONDS)
    return pause * _chance.uniform(0.75, 1.0)
