"""Counts deliveries in the background, in few writes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
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
# a search writes nothing at once: what the same memories are delivered meanwhile is one write
GATHER_SECONDS = 60.0
SCOPES_AT_ONCE = 100


@dataclass
class _Tally:
    """Deliveries of one scope that wait to be counted."""

    at: datetime
    retrieved: Counter[str] = field(default_factory=Counter[str])
    delivered: Counter[str] = field(default_factory=Counter[str])


class Deliveries:
    """Counts what was retrieved and handed over, without holding up a search.

    What waits is added up in memory, so that it never outgrows the memories that were found, and is
    written by one at a time, within a minute. While the database refuses it stays; a crash loses
    what came within the last minute.
    """

    def __init__(self, store: MemoryStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._waiting: dict[Scope, _Tally] = {}
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def count(self, scope: Scope, ids: Sequence[str]) -> None:
        """Count that memories were retrieved and delivered."""
        if ids:
            self._note({scope: _Tally(self._clock(), Counter(ids), Counter(ids))})

    def count_answer(self, scopes: Sequence[Scope], answer: Recall) -> None:
        """Count what a search of these scopes retrieved and handed over."""
        tallies, now = dict[Scope, _Tally](), self._clock()
        for hit in answer:
            tally = tallies.setdefault(hit.scope, _Tally(now))
            tally.retrieved[hit.memory.id] = tally.delivered[hit.memory.id] = 1
        for out in answer.left_out:  # of a single scope they name none
            tally = tallies.setdefault(out.scope or scopes[0], _Tally(now))
            tally.retrieved[out.memory_id] = 1
        self._note(tallies)

    def _note(self, tallies: Mapping[Scope, _Tally]) -> None:
        for scope, tally in tallies.items():
            if (waiting := self._waiting.setdefault(scope, tally)) is not tally:
                waiting.at = max(waiting.at, tally.at)
                waiting.retrieved.update(tally.retrieved)
                waiting.delivered.update(tally.delivered)
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._write(), name="kagent-memory-deliveries")

    async def flush(self) -> None:
        """Count at once what is noted by now.

        Raises:
            StoreError: the database refuses; it is tried again later.
        """
        async with self._writing:
            scopes = list(self._waiting)  # what is noted meanwhile waits for the next time
            for batch in batched(scopes, SCOPES_AT_ONCE):
                tallies = {scope: self._waiting.pop(scope) for scope in batch}
                part = [Delivery(scope=scope, **vars(tally)) for scope, tally in tallies.items()]
                try:
                    await self._store.count(part)
                except Exception:  # a write that has begun goes on when its caller is cancelled
                    self._note(tallies)
                    raise
                handed = sum(tally.delivered.total() for tally in tallies.values())
                telemetry.count("deliveries", handed)

    async def try_flush(self) -> bool:
        """Count at once what is noted by now; where the database refuses, log it and return
        False.
        """
        try:
            await self.flush()
        except KagentMemoryError as error:
            logger.warning("Deliveries could not be counted yet; trying again: %s", error)
            return False
        return True

    async def close(self) -> None:
        """Count what is noted, within some seconds, and stop."""
        if self._task is None:
            return
        try:
            await asyncio.wait_for(self.flush(), CLOSE_SECONDS)
        except (KagentMemoryError, TimeoutError) as error:
            logger.error(
                "The most recent deliveries could not be counted: %s",
                error or "the database does not respond",
            )
        await cancel_and_wait(self._task)

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(GATHER_SECONDS)
            await self.try_flush()
