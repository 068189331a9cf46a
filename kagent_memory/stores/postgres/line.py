"""The socket of one connection: what waits for it goes on as soon as something comes, or is given up."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import READY_NONE, READY_R, READY_W, WAIT_R, WAIT_W, Ready

BUSY_SECONDS = 0.005
_LOOK_SECONDS = 0.1
T = TypeVar("T")


class Late(Exception):
    """No answer within the bound."""


class Line:
    """The socket of one connection, and whoever waits for it: one at a time.

    It is watched from one answer to the next. To begin and to end that for each costs more than the rest of a wait.

    Args:
        fileno: the socket.
        is_lent: others wait for it too, so it is let go of after each answer.
    """

    def __init__(self, fileno: int, *, is_lent: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._fileno = fileno
        self._is_lent = is_lent
        self._reads = self._writes = False
        self._steps: PQGen[Any] | None = None
        self._ended: asyncio.Future[Any] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._patience = self._silent_at = self._late_at = self._yielded_at = 0.0

    async def done(self, steps: PQGen[T], *, silence: float, whole: float, begun: bool = False) -> T:
        """What the steps come to, which whoever was cancelled may have begun. The line may be silent for so long, and
        the whole may take so long: a slow line that carries a large write is not silent.

        Raises:
            Late: it is longer.
            psycopg.Error: the server says so, or is away.
        """
        try:
            wait = steps.send(READY_NONE) if begun else next(steps)
        except StopIteration as end:
            if time.monotonic() - self._yielded_at >= BUSY_SECONDS:
                await asyncio.sleep(0)  # much that is only put together must not hold up the event loop
                self._yielded_at = time.monotonic()
            return end.value
        except BaseException:
            self.leave()
            raise
        now = time.monotonic()
        self._patience, self._silent_at, self._late_at = silence, now + silence, now + whole
        self._steps, self._ended = steps, self._loop.create_future()
        self._timer = self._loop.call_later(silence, self._expire)
        try:
            self._watch(wait)
            return await self._ended
        except OSError as error:
            self.leave()
            raise psycopg.OperationalError("connection socket closed") from error
        finally:
            self._steps = None
            self._timer.cancel()
            self._yielded_at = time.monotonic()
            if self._is_lent or self._writes:
                self.leave()

    def leave(self) -> None:
        """Lets go of the socket; before it is closed, lest the next one of its number be taken for it."""
        if not self._loop.is_closed():
            if self._reads:
                self._loop.remove_reader(self._fileno)
            if self._writes:
                self._loop.remove_writer(self._fileno)
        self._reads = self._writes = False

    def _watch(self, wait: int) -> None:
        if wait & WAIT_R and not self._reads:
            self._loop.add_reader(self._fileno, self._go_on, READY_R)
            self._reads = True
        if wait & WAIT_W and not self._writes:
            self._loop.add_writer(self._fileno, self._go_on, READY_W)
            self._writes = True
        elif self._writes and not wait & WAIT_W:
            self._loop.remove_writer(self._fileno)
            self._writes = False

    def _go_on(self, ready: Ready) -> None:
        if (steps := self._steps) is None:  # nobody asked: most likely the server hung up, which the next wait is told
            self.leave()
            return
        try:
            wait = steps.send(ready)
            self._silent_at = time.monotonic() + self._patience  # after what has come was taken in
            self._watch(wait)
        except StopIteration as end:
            self._steps = None
            if not self._ended.done():
                self._ended.set_result(end.value)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._steps = None
        self.leave()
        if not self._ended.done():
            self._ended.set_exception(error)

    def _expire(self, *, looked: bool = False) -> None:
        left = min(self._silent_at, self._late_at) - time.monotonic()
        if left <= 0 and looked:
            self._fail(Late())
        elif left <= 0:  # a loop that was held up takes in first what has come
            self._timer = self._loop.call_later(_LOOK_SECONDS, lambda: self._expire(looked=True))
        else:
            self._timer = self._loop.call_later(left, self._expire)
