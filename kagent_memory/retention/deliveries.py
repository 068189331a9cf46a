"""Counts deliveries in the background, in few writes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

from .. import telemetry
from ..concurrency import cancel_and_wait
from ..errors import KagentMemoryError
from ..records import Recall, Scope
from ..stores.base import MemoryStore
from ..stores.values import Delivery

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
# a search writes nothing at once: what the same memories are delivered meanwhile is one write
GATHER_SECONDS = 60.0
MAX_WAITING = 20_000  # scopes, and memories of one scope
BACKOFF = wait_exponential(multiplier=0.4, exp_base=4, max=30.0)
ROWS_AT_ONCE = 500


@dataclass(slots=True)
class _Tally:
    """Deliveries of one scope that wait to be counted."""

    at: datetime
    retrieved: Counter[str] = field(default_factory=Counter[str])
    delivered: Counter[str] = field(default_factory=Counter[str])

    @property
    def rows(self) -> int:
        return len(self.retrieved) + len(self.delivered)

    def add(self, other: _Tally) -> None:
        self.at = max(self.at, other.at)
        self.retrieved.update(other.retrieved)
        self.delivered.update(other.delivered)


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
        self._noted = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._hurried = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def count(self, scope: Scope, *, retrieved: Sequence[str], delivered: Sequence[str]) -> None:
        """Note what was retrieved and delivered; a memory named several times counts once."""
        if not retrieved and not delivered:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name="kagent-memory-deliveries")
        self._take(scope, _Tally(self._clock(), Counter(set(retrieved)), Counter(set(delivered))))
        self._settled.clear()
        self._noted.set()
        if len(self._waiting) + self._waiting[scope].rows > MAX_WAITING:
            self._hurried.set()

    def count_answer(self, scopes: Sequence[Scope], answer: Recall) -> None:
        """Count what a search of these scopes retrieved and handed over."""
        delivered: dict[Scope, list[str]] = {}
        left_out: dict[Scope, list[str]] = {}
        for hit in answer:
            delivered.setdefault(hit.scope, []).append(hit.memory.id)
        for out in answer.left_out:  # of a single scope they name none
            left_out.setdefault(out.scope or scopes[0], []).append(out.memory_id)
        for scope in {**delivered, **left_out}:
            ids = delivered.get(scope, [])
            self.count(scope, retrieved=[*ids, *left_out.get(scope, [])], delivered=ids)

    async def drain(self) -> None:
        """Wait until all that was noted is counted; write now what waits for more to come."""
        if not self._settled.is_set():
            self._hurried.set()
            await self._settled.wait()

    async def flush(self) -> None:
        """Count at once what is noted by now.

        Raises:
            StoreError: the database refuses; it is tried again later.
        """
        async with self._writing:
            left, self._waiting = self._waiting, {}
            writes: list[list[Delivery]] = []
            rows = ROWS_AT_ONCE
            for scope, tally in left.items():
                if rows >= ROWS_AT_ONCE:
                    writes.append([])
                    rows = 0
                writes[-1].append(
                    Delivery(
                        scope=scope,
                        retrieved=tally.retrieved,
                        delivered=tally.delivered,
                        at=tally.at,
                    )
                )
                rows += tally.rows
            try:
                for deliveries in writes:
                    await self._store.count(deliveries)
                    telemetry.delivered(sum(sum(one.delivered.values()) for one in deliveries))
                    for one in deliveries:
                        del left[one.scope]
            except Exception:
                for scope, tally in left.items():
                    self._take(scope, tally)
                raise
            if not self._waiting:
                self._settled.set()
                self._hurried.clear()

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

    def _take(self, scope: Scope, tally: _Tally) -> None:
        self._waiting.setdefault(scope, _Tally(tally.at)).add(tally)

    async def _write(self) -> None:
        while True:
            await self._noted.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER_SECONDS):
                    await self._hurried.wait()
            self._noted.clear()
            retrying = AsyncRetrying(
                retry=retry_if_exception_type(KagentMemoryError),
                wait=BACKOFF,
                before_sleep=_log_failure,
            )
            await retrying(self.flush)


def _log_failure(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    logger.warning("Deliveries could not be counted yet; trying again: %s", error)
