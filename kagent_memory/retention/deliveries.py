"""Count deliveries in the background, with few writes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from .. import telemetry
from ..concurrency import batched, cancel_and_wait
from ..errors import KagentMemoryError
from ..records import Recall, Scope
from ..stores.base import MemoryStore
from ..stores.values import Delivery

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
# Searches write nothing themselves: all deliveries of this long are written together.
GATHER_SECONDS = 60.0
SCOPES_AT_ONCE = 100


@dataclass
class _Tally:
    """Deliveries in one scope that are not written yet."""

    at: datetime
    retrieved: Counter[str] = field(default_factory=Counter[str])
    delivered: Counter[str] = field(default_factory=Counter[str])


class Deliveries:
    """Count which memories were retrieved and delivered, without slowing down a search.

    Counts are added up in this process and written within a minute by a background task. They
    are kept while the database is unavailable; a crash loses at most the last minute.
    """

    def __init__(self, store: MemoryStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._pending: dict[Scope, _Tally] = {}
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._flushing = set[asyncio.Task[bool]]()

    def count(self, scope: Scope, ids: Sequence[str]) -> None:
        """Count one delivery of each of these memories."""
        if ids:
            self._note({scope: _Tally(self._clock(), Counter(ids), Counter(ids))})

    def count_answer(self, scopes: Sequence[Scope], answer: Recall) -> None:
        """Count the memories that a search of these scopes retrieved and delivered."""
        now = self._clock()
        tallies = defaultdict[Scope, _Tally](lambda: _Tally(now))
        for hit in answer.hits:
            tally = tallies[hit.scope]
            tally.retrieved[hit.memory.id] = tally.delivered[hit.memory.id] = 1
        for omission in answer.left_out:  # a search of one scope does not name it
            tallies[omission.scope or scopes[0]].retrieved[omission.memory_id] = 1
        self._note(tallies)

    async def rate(self, scope: Scope, id: str, *, success: bool) -> None:
        """Count at once that a memory helped or misled."""
        outcome = "successes" if success else "failures"
        delivery = Delivery(scope=scope, counts={outcome: {id: 1}}, at=self._clock())
        await self._store.count([delivery])

    def _note(self, tallies: Mapping[Scope, _Tally]) -> None:
        for scope, tally in tallies.items():
            if (earlier := self._pending.setdefault(scope, tally)) is not tally:
                earlier.at = max(earlier.at, tally.at)
                earlier.retrieved.update(tally.retrieved)
                earlier.delivered.update(tally.delivered)
        if self._pending and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write(), name="kagent-memory-deliveries")

    async def flush(self) -> None:
        """Write all counts now.

        Raises:
            StoreError: the database is unavailable; the counts are kept and written later.
        """
        async with self._lock:
            # counts that arrive meanwhile are written next time
            for batch in batched(list(self._pending), SCOPES_AT_ONCE):
                tallies = {scope: self._pending.pop(scope) for scope in batch}
                part = [
                    Delivery(
                        scope=scope,
                        counts={"retrieved": tally.retrieved, "delivered": tally.delivered},
                        at=tally.at,
                    )
                    for scope, tally in tallies.items()
                ]
                try:
                    await self._store.count(part)
                except Exception:  # not after a cancellation: a write that has begun still ends
                    self._note(tallies)
                    raise
                telemetry.count(
                    "deliveries", sum(tally.delivered.total() for tally in tallies.values())
                )

    async def try_flush(self) -> bool:
        """Write all counts now; if the database is unavailable, log it and return False."""
        try:
            await self.flush()
        except KagentMemoryError as error:
            logger.warning("Deliveries could not be counted yet; trying again: %s", error)
            return False
        return True

    async def flush_within(self, seconds: float) -> bool:
        """Write all counts now; return True if that succeeds in time."""
        writing = asyncio.create_task(self.try_flush(), name="kagent-memory-deliveries")
        self._flushing.add(writing)
        writing.add_done_callback(self._flushing.discard)
        # not cancelled on time-out, or the counts that it is writing would be lost
        await asyncio.wait([writing], timeout=seconds)
        return writing.done() and writing.result()

    async def close(self) -> None:
        """Write the remaining counts, within `CLOSE_SECONDS`, and stop."""
        if self._task is not None:
            if not await self.flush_within(CLOSE_SECONDS):
                logger.error("The most recent deliveries could not be counted.")
            await cancel_and_wait(self._task, *self._flushing)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            await self.try_flush()
