"""The time that an agent's turn waits for memory while its database answers nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..errors import StoreError

PATIENCE_SECONDS = 2.0
PING_SECONDS = 1.0
AWAY_SECONDS = 0.1
Result = TypeVar("Result")


class Availability:
    """Tell a slow call from a database that answers nothing, by asking it for something small.

    Args:
        ping: starts a small read that cannot fail, from any thread; None while the store is being
            opened.
    """

    def __init__(self, ping: Callable[[], Future[object] | None]) -> None:
        self._start = ping
        self._ping: Future[object] | None = None
        self._asked_at = 0.0

    @property
    def is_away(self) -> bool:
        """Return True if the last ping is overdue."""
        overdue = time.monotonic() > self._asked_at + PING_SECONDS
        return self._ping is not None and not self._ping.done() and overdue

    async def guard(self, work: Awaitable[Result], *, finish: bool = False) -> Result:
        """Return what `work` gives, however long it takes, as long as the database answers pings.

        Args:
            work: begun at once.
            finish: it goes on when it is waited for no longer.

        Raises:
            StoreError: the database answers nothing.
        """
        task = asyncio.ensure_future(work)
        task.add_done_callback(_retrieve)
        try:
            await asyncio.wait([task], timeout=AWAY_SECONDS if self.is_away else PATIENCE_SECONDS)
            if not task.done() and not await self._answers(task):
                raise StoreError("memory unavailable: the database answers nothing.")
            return await asyncio.shield(task)
        finally:
            if not finish:
                task.cancel()

    async def _answers(self, task: asyncio.Future[Result]) -> bool:
        """Return True once `task` ended, or a ping that all who wait share was answered."""
        if self.is_away:
            return False
        if self._ping is None or self._ping.done():
            self._ping, self._asked_at = self._start(), time.monotonic()
        if self._ping is None:
            return True
        answer = asyncio.wrap_future(self._ping)
        left = self._asked_at + PING_SECONDS - time.monotonic()
        await asyncio.wait(
            [task, answer], timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED
        )
        return task.done() or self._ping.done()


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark a failure as seen: who waited no longer does not hear of it."""
    if not future.cancelled():
        future.exception()
