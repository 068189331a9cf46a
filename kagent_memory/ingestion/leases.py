"""Keeps the leases of running jobs also while something holds the worker's event loop up."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ..concurrency import new_loop
from ..errors import KagentMemoryError
from ..stores.base import Job, JobQueue

logger = logging.getLogger(__name__)
LEASE_SECONDS = 20.0  # that a killed worker's job waits for another worker

OpenStore = Callable[[], Coroutine[Any, Any, JobQueue]]


class Leases:
    """Renews, from a thread, each lease whose worker did not do so in time.

    While the worker's loop runs it renews them itself, and the thread only waits. What holds that loop up (a provider
    that blocks, say) cannot stop the thread: it has a loop of its own, and a store that it opens when one is needed.

    Args:
        opened: opens another store on the same database; None where there is no other way to it, as in memory.
        lease_seconds: how long a renewed lease holds.
    """

    def __init__(self, opened: OpenStore | None, *, lease_seconds: float) -> None:
        self._opened = opened
        self._lease_seconds = lease_seconds
        self._changed = threading.Condition()
        self._held: dict[str, tuple[Job, float]] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def hold(self, job: Job) -> None:
        """The job's lease was made or renewed just now."""
        if self._opened is None:
            return
        with self._changed:
            self._held[job.id] = job, time.monotonic() + self._lease_seconds / 2
            if self._thread is None and not self._closed:
                name, run = "kagent-memory-leases", self._renewing
                self._thread = threading.Thread(target=run, args=(self._opened,), name=name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, job: Job) -> None:
        """The job has ended, or is another worker's."""
        with self._changed:
            self._held.pop(job.id, None)

    async def close(self) -> None:
        """Ends the thread and closes its store."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    def _renewing(self, opened: OpenStore) -> None:
        store: JobQueue | None = None
        with asyncio.Runner(loop_factory=new_loop) as runner:
            while (late := self._late()) is not None:
                try:
                    store = store or runner.run(opened())
                    runner.run(self._renew(store, late))
                except Exception as error:
                    logger.warning("Leases could not be renewed from the lease thread: %s", error)
            if store is not None:
                runner.run(store.close())

    def _late(self) -> list[Job] | None:
        """Waits for leases that nobody renewed in time; None once closed."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                late = [job for job, due in self._held.values() if due <= now]
                if late:
                    self._held |= {job.id: (job, now + self._lease_seconds / 3) for job in late}
                    return late
                first = min((due for _, due in self._held.values()), default=None)
                self._changed.wait(None if first is None else first - now)
            return None

    async def _renew(self, store: JobQueue, late: list[Job]) -> None:
        for job in late:
            try:
                if not await store.renew(job, lease_seconds=self._lease_seconds):
                    self.drop(job)
            except KagentMemoryError as error:
                logger.warning("The lease of job %s could not be renewed: %s", job.id, error)
