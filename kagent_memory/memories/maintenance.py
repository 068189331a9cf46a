"""The verbs for operating a store, its background work and its shutdown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Self

from ..concurrency import cancel_and_wait
from ..errors import ConfigurationError, StoreError
from ..ingestion.consolidation import merge
from ..ingestion.reembedding import Reembedded, reembed
from ..models.embedding import open_embedder
from ..records import Change, Count, Scope, Scopes
from ..retention.prune import Prune, keep_pruned
from ..retrieval.embedding_spaces import StoreEmbedder
from ..stores.values import Job, JobState, Pruned, Rotated, ScopeStats
from .audit import DEFECTS, MAX_FINDINGS, Audit, audit_scope
from .diagnosis import Diagnosis, check_queue, diagnose
from .transfer import Transfer
from .types import Defects, EmbedderChoice, Name, Progress
from .verbs import verb

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
PAUSE_SECONDS = 0.05  # between two looks at the queue


class Maintenance(Transfer):
    """The verbs of `Memories` for operating a store."""

    _next_look = 0.0  # when a drain may look at the queue again

    def start(self) -> None:
        """Start the background work: the worker, the prune, and the embedding of memories that were
        stored without an embedder.
        """
        work = {
            "worker": self.worker.work(),
            "prune": keep_pruned(
                self.store.queue, self.prune, every_hours=self.settings.prune_every_hours
            ),
            "backfill": self.embed_later(),
        }
        for name, coroutine in work.items():
            task = asyncio.create_task(coroutine, name=f"kagent-memory-{name}")
            task.add_done_callback(_log_failure)
            self._background[name] = task

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
        return await Prune(
            self.store.memories, self.vectors, self.settings, self.weights, self.clock(), dry_run
        ).run()

    async def close(self) -> None:
        """Let running work end for some seconds, then stop; remaining jobs stay queued. Closing
        twice is harmless.
        """
        if self._background:
            await self.drain(CLOSE_SECONDS)
        self.worker.stop()
        await cancel_and_wait(*self._background.values())
        self._background.clear()
        await self.deliveries.close()
        await self.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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
        if filling := self._background.get("backfill"):
            await asyncio.wait([filling], timeout=timeout)  # until it has queued all its work
        next_look = 0.0  # each caller looks once itself
        while True:
            if (now := time.monotonic()) >= next_look:
                self._next_look = now + PAUSE_SECONDS  # later looks serve all callers
                with suppress(StoreError):  # an unavailable store may still hold jobs
                    if not (await self.store.queue.pending(now=self.clock())).count:
                        self._next_look = now
                        break
                self.worker.wake()
            if now >= end:
                await self._log_unfinished()
                return False
            await asyncio.sleep(PAUSE_SECONDS)
            next_look = self._next_look
        is_counted = await self.deliveries.flush_within(max(0.01, end - time.monotonic()))
        return is_counted and await self._log_unfinished()

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
    async def work(self, *, until_idle: bool = False) -> int:
        """Work on the queue in this task until it is cancelled or the memories are closed, or until
        no job is due; return the number of ended jobs.
        """
        worker = self.worker
        if until_idle:
            return await worker.work_until_idle()
        before = worker.finished
        await worker.work()
        return worker.finished - before

    @verb("GET /stats")
    async def stats(self, scope: Scope) -> ScopeStats:
        """Return the counts of a scope."""
        return await self.store.stats(
            scope, now=self.clock(), popular_after=self.settings.popular_after
        )

    @verb("POST /consolidate", durable=True)
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merge memories of a scope that say the same, keeping lineage, and return the changes,
        made or planned.

        The configured model writes the merged texts; without one nothing is merged. Explicit saves
        are merged only here, never while a session is learned from.

        Raises:
            ModelError: the model is unavailable or its answer is unusable; nothing changes.
        """
        if (llm := self.providers.llm) is None:
            return ()
        return tuple(
            await merge(self.store, self.vectors, scope, llm, now=self.clock(), dry_run=dry_run)
        )

    @verb("GET /audit")
    async def audit(
        self,
        scope: Scope | Scopes | None = None,
        *,
        defects: Defects = DEFECTS,
        most: Count = MAX_FINDINGS,
        progress: Progress | None = None,
    ) -> Audit:
        """Look for defects and report memory ids as evidence; calls no model and changes nothing.

        - `exact_duplicate`: visible memories that say the same word for word.
        - `near_duplicate`: two facts that a model found to say the same.
        - `contradiction`: several visible values of one attribute, or an explicit save beside a
          fact that a model would have put in its place.
        - `recall_loop`: a text of an agent or a tool that repeats an older memory.
        - `secret`, `personal_data`: in a memory of any state or its history, as the redaction finds
          it; without the setting `pii` only e-mail addresses, cards and IP addresses.

        Args:
            scope: one scope, or all scopes of a tenant, user or app; None: all.
            defects: the defects to look for.
            most: the most findings of each defect to return; `counts` count all.
            progress: called after each scope with the number of memories read so far.

        Raises:
            InvalidInput: a defect is unknown.
        """
        if isinstance(scope, Scope):
            return await audit_scope(self, scope, defects, most)
        total = Audit()
        which: Any = asdict(scope) if scope else {}
        async for each in self.each_scope(**which):
            total = total.plus(await self.audit(each, defects=defects, most=most), most)
            if progress:
                progress(total.memories)
        return total

    @verb()
    async def reembed(
        self,
        embedding: EmbedderChoice = None,
        *,
        drop_old: bool = False,
        progress: Progress | None = None,
    ) -> Reembedded:
        """Embed the store with another embedder beside the existing vectors, and switch to it when
        no vector is missing. After an interruption the same call continues.

        Meanwhile searches use both, and memories saved by this process go to the new one; those of
        other processes are embedded by it later.

        Args:
            embedding: the embedder, as for `open`; None: the setting.
            drop_old: drop the replaced vectors at the end; processes that still search them answer
                by keywords.
            progress: called with the number of memories embedded so far.

        Raises:
            ConfigurationError: no embedder is named, or the store does not support it.
            ModelError: the embedder is unavailable or gives unusable answers; call again to
                continue.
            Conflict: somebody began to switch to yet another embedder.
        """
        settings = self.settings
        # in a thread, because importing takes seconds
        embedder = await asyncio.to_thread(open_embedder, embedding, settings)
        if embedder is None:
            raise ConfigurationError("Name the embedder that the memories are to be embedded by.")
        successor = StoreEmbedder(self.store, embedder, settings, replaces=True)
        done = await reembed(
            self.store,
            successor,
            batch_size=settings.batch_size,
            clock=self.clock,
            progress=progress or (lambda _: None),
        )
        if self.vectors is not None:
            self.vectors.succeed(successor)
        if not drop_old:
            return done
        return replace(done, dropped=tuple(await self.store.memories.spaces.drop_retired()))

    @verb()
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypt everything that another key encrypted, or none, with the first of the
        `encryption_keys`; after an interruption the same call continues.
        """
        return await self.store.memories.rotate_keys(dry_run=dry_run)

    @verb("GET /check")
    async def check(self) -> Sequence[Diagnosis]:
        """Check the database, its rights, queue and keys, the embedder and the model, asking each
        of them, and say how to fix problems. Problems are returned, not raised.
        """
        return await diagnose(self)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
