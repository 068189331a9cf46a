"""What runs beside the verbs: deliveries counted in the background, and the prune by whoever holds the lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeAlias

from .errors import KagentMemoryError
from .records import Scope, new_id
from .stores.base import MemoryStore, Pruned

log = logging.getLogger("kagent_memory")

PRUNE_LEASE = "prune"
LONGEST_LOOK_SECONDS = 600.0
WAITING_DELIVERIES = 1000
CLOSE_SECONDS = 2.0
GATHER_SECONDS = 0.1  # a search writes nothing at once: what follows soon is counted in the same write

Note: TypeAlias = tuple[Scope, Sequence[str], Sequence[str]]  # whose, retrieved, delivered


class Deliveries:
    """Counts what was retrieved and handed over, one write at a time, without holding up a search."""

    def __init__(self, store: MemoryStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: asyncio.Queue[Note] = asyncio.Queue(WAITING_DELIVERIES)
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
        """Counts what is noted, within some seconds, and stops."""
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.drain(), CLOSE_SECONDS)
            await ended(self._task)

    async def _write(self) -> None:
        while True:
            notes = [await self._waiting.get()]
            await asyncio.sleep(GATHER_SECONDS)
            while not self._waiting.empty():
                notes.append(self._waiting.get_nowait())
            try:
                for scope, retrieved, delivered in gathered(notes):
                    await self._store.deliver(scope, retrieved=retrieved, delivered=delivered, now=self._clock())
            except KagentMemoryError as error:
                log.warning("Deliveries were not counted: %s", error)
            finally:
                for _ in notes:
                    self._waiting.task_done()


async def ended(*tasks: asyncio.Task[None]) -> None:
    """Cancels the tasks until they end: a driver may swallow a cancellation while it works."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)


def gathered(notes: Sequence[Note]) -> list[Note]:
    """The same counts in as few notes as hold each id at most once: one a scope, and more for ids met repeatedly."""
    counts: dict[Scope, tuple[Counter[str], Counter[str]]] = {}
    for scope, retrieved, delivered in notes:
        seen = counts.setdefault(scope, (Counter(), Counter()))
        seen[0].update(dict.fromkeys(retrieved, 1))
        seen[1].update(dict.fromkeys(delivered, 1))
    return [
        (
            scope,
            [id for id, count in retrieved.items() if count > number],
            [id for id, count in delivered.items() if count > number],
        )
        for scope, (retrieved, delivered) in counts.items()
        for number in range(max((*retrieved.values(), *delivered.values()), default=0))
    ]


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
