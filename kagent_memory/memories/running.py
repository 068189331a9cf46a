"""The background work of open memories: queue, prune and shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from .. import telemetry
from ..concurrency import cancel_and_wait
from ..errors import StoreError
from ..ingestion.reembedding import backfill
from ..records import Scope
from ..retention.prune import Prune, keep_pruned
from ..stores.values import Job, JobState, Pruned
from .diagnosis import check_queue
from .opened import Opened
from .types import Name
from .verbs import verb

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.03
MAX_PAUSE_SECONDS = 0.25
BACKFILL = "kagent-memory-backfill"
"""The task that queues the embedding of what a store held before it had an embedder."""


class Running(Opened):
    """The verbs of `Memories` for the queue and the prune, and the shutdown."""

    def start(self) -> None:
        """Start the background work: the worker, the prune, and the embedding of memories that were
        stored without an embedder.
        """
        tasks = self._background
        tasks.append(asyncio.create_task(self.worker.work(self._stop), name="kagent-memory-worker"))
        if hours := self.settings.prune_every_hours:
            pruning = keep_pruned(self.store.queue, self.prune, every_hours=hours)
            tasks.append(asyncio.create_task(pruning, name="kagent-memory-prune"))
        if self.vectors is not None:
            filling = backfill(self.store, self.vectors, clock=self.clock, wake=self.worker.wake)
            tasks.append(asyncio.create_task(filling, name=BACKFILL))
        for task in tasks:
            task.add_done_callback(_log_failure)

    @verb("GET /jobs")
    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        tenant: Name | None = None,
        user: Name | None = None,
        app: Name | None = None,
        state: JobState | None = None,
        limit: int = 100,
        id: str | None = None,
    ) -> Sequence[Job]:
        """Return queued, running and dead jobs, oldest first, without payloads.

        Args:
            scope: only jobs of this scope; None: all.
            tenant: only jobs of this tenant.
            user: only jobs of this user.
            app: only jobs of this app.
            state: only jobs in this state.
            limit: the most jobs to return.
            id: only the job with this id.
        """
        return await self.store.queue.jobs(
            scope=scope,
            tenant=tenant,
            user=user,
            app=app,
            state=state,
            limit=limit,
            id=id,
            payloads=False,
        )

    @verb("POST /jobs/{job_id}/retry", durable=True)
    async def retry_job(self, job_id: str) -> None:
        """Queue a dead letter again.

        Raises:
            NotFound: no such dead letter.
        """
        await self.store.queue.retry(job_id, now=self.clock())
        self.worker.wake()

    @verb("DELETE /jobs/{job_id}", durable=True)
    async def drop_job(self, job_id: str) -> None:
        """Delete a job that is not running.

        Raises:
            NotFound: no such job.
        """
        await self.store.queue.drop(job_id)

    @verb("POST /prune", durable=True)
    async def prune(self, *, dry_run: bool = False) -> Pruned:
        """Delete expired memories and extend popular ones, in every scope; then delete faded
        memories and the least important ones of scopes with more than `max_memories`, if the policy
        says so.

        An expired memory with fewer than `popular_after` deliveries since its last extension is
        deleted; one with as many or more is extended by its own TTL, and its count restarts. Pinned
        memories stay.

        A dry run does not count the memories that it would extend towards `max_memories`.

        Args:
            dry_run: only report what would be done.

        Returns:
            The counts, and a reason for each memory that goes.
        """
        # write waiting counts first, so that no popular memory is deleted
        await self.deliveries.flush()
        prune = Prune(
            self.store.memories,
            self.vectors,
            self.settings,
            self.weights,
            self.clock(),
            dry_run,
        )
        pruned = await prune.run()
        if not dry_run:
            if pruned.erased:
                self.forget_vectors()
            telemetry.count("prunes")
            for outcome, number in pruned.counts.items():
                telemetry.count("pruned_memories", number, outcome=outcome)
        return pruned

    async def close(self) -> None:
        """Let running work end for some seconds, then stop; remaining jobs stay queued. Closing
        twice is harmless.
        """
        if self._background:
            await self.drain(CLOSE_SECONDS)
        self._stop.set()
        await cancel_and_wait(*self._background)
        self._background.clear()
        await self.deliveries.close()
        await self.store.close()
        self.forget_vectors()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @verb("POST /drain")
    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name ADK's users know
        """Wait until every accepted job is done.

        Jobs that are scheduled for later (a session's inactivity, consolidation) are not waited
        for.

        Returns:
            False if `timeout` seconds pass first, the store is unavailable, or it holds dead
            letters, which are accepted and never done. The log says what is left.
        """
        end = time.monotonic() + timeout
        if filling := [task for task in self._background if task.get_name() == BACKFILL]:
            await asyncio.wait(filling, timeout=timeout)  # until it has queued all its work
        pause = FIRST_PAUSE_SECONDS
        while True:
            with suppress(StoreError):  # an unavailable store may still hold jobs
                if not (await self.store.queue.pending(now=self.clock())).count:
                    break
            self.worker.wake()
            if (left := end - time.monotonic()) <= 0:
                await self._log_unfinished()
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)  # many callers may wait for one long job
        counting = asyncio.create_task(self.deliveries.try_flush())
        # not cancelled on time-out, or its running job would be lost
        await asyncio.wait([counting], timeout=max(0.0, end - time.monotonic()) + 0.01)
        if not (counting.done() and counting.result()):
            return False
        return await self._log_unfinished()

    async def _log_unfinished(self) -> bool:
        """Log what is left in the queue; return False if there are dead letters or it cannot be
        read.
        """
        try:
            queue = await check_queue(self)
        except StoreError as error:
            logger.warning("The rest of the queue cannot be read: %s", error)
            return False
        if queue.state != "ok":
            logger.warning("%s %s", queue.text, queue.advice)
        return queue.state != "bad"

    @verb()
    async def work(self, *, until_idle: bool = False, stop: asyncio.Event | None = None) -> int:
        """Work on the queue in this task until stopped, or until no job is due; return the number
        of ended jobs.
        """
        worker = self.worker
        if until_idle:
            return await worker.work_until_idle()
        before = worker.finished
        await worker.work(stop or self._stop)
        return worker.finished - before


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
