"""What runs beside the verbs: deliveries counted in the background, and the prune by whoever holds the lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from .errors import KagentMemoryError
from .records import Scope, new_id
from .stores.base import MemoryStore, Pruned

log = logging.getLogger("kagent_memory")

PRUNE_LEASE = "prune"
LONGEST_LOOK_SECONDS = 600.0
WAITING_DELIVERIES = 1000


class Deliveries:
    """Counts what was retrieved and handed over, one write at a time, without holding up a search."""

    def __init__(self, store: MemoryStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: asyncio.Queue[tuple[Scope, Sequence[str], Sequence[str]]] = asyncio.Queue(WAITING_DELIVERIES)
        self._task: asyncio.Task[None] | None = None

    def count(self, scope: Scope, *, retrieved: Sequence[str], delivered: Sequence[str]) -> None:
        """Takes note; what does not fit into the bounded backlog is dropped and logged, never waited for."""
        if not retrieved and not delivered:
            return
        if self._task is None:
            self._task = asyncio.create_task(self._write(), name="kagent-memory-deliveries")
        try:
            self._waiting.put_nowait((scope, retrieved, delivered))
        except asyncio.QueueFull:
            log.warning("Deliveries come faster than they can be counted; some were not counted.")

    async def drain(self) -> None:
        """Returns when all that was noted is counted."""
        await self._waiting.join()

    async def close(self) -> None:
        """Stops counting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            scope, retrieved, delivered = await self._waiting.get()
            try:
                await self._store.deliver(scope, retrieved=retrieved, delivered=delivered, now=self._clock())
            except KagentMemoryError as error:
                log.warning("A delivery was not counted: %s", error)
            finally:
                self._waiting.task_done()


async def keep_pruned(
    store: MemoryStore, prune: Callable[[], Awaitable[Pruned]], *, clock: Callable[[], datetime], every_hours: float
) -> None:
    """Prunes every so many hours, by whichever process takes the lease first; runs until cancelled."""
    period = every_hours * 3600
    while True:
        try:
            # the lease outlives its taker on purpose: nobody else prunes again before the period is over
            if await store.lease(PRUNE_LEASE, new_id(), now=clock(), seconds=period):
                pruned = await prune()
                log.info(
                    "Pruned: %d deleted, %d extended, %d evicted.", pruned.deleted, pruned.extended, pruned.evicted
                )
        except KagentMemoryError as error:
            log.warning("The prune did not run: %s", error)
        await asyncio.sleep(min(period, LONGEST_LOOK_SECONDS))
