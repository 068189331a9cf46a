"""The connections of one store, each made by the caller that needs it.

Waiting and failing are told apart: a caller waits as long as all connections are at work, and learns at once, in the
server's own words, that none can be made. Nothing runs in the background but one timer that closes what lies idle.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import psycopg

from ...errors import KagentMemoryError, StoreError
from .connection import CONNECT_SECONDS, Connection, Target, dial
from .errors import ours

MAX_WAIT_SECONDS = 60.0  # of a call, while all connections are at work
TRUSTED_SECONDS = 1.0
IDLE_SECONDS = 300.0
LIFE_SECONDS = 3600.0
PAUSE_SECONDS = 1.0

_Turn: TypeAlias = "asyncio.Future[Connection | None]"


class Pool:
    """Hands connections out and takes them back, first come, first served; belongs to one event loop.

    Args:
        target: which database.
        size: the most connections at a time.
        wait_seconds: the longest that a caller waits while all are at work; one that is cancelled stops at once.
        dial: makes a connection; raises psycopg.Error where there is none to be had.
    """

    def __init__(
        self,
        target: Target,
        *,
        size: int,
        wait_seconds: float,
        dial: Callable[[Target], Awaitable[Connection]] = dial,
    ) -> None:
        self._target = target
        self._dial = dial
        self._size = size
        self._wait_seconds = wait_seconds
        self._count = 0  # those at work, idle, or being made
        self._idle: deque[Connection] = deque()
        self._turns: deque[_Turn] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._dial_after = 0.0
        self._closed = False

    async def take(self) -> Connection:
        """A connection that answers; it must be given back.

        Raises:
            StoreError: the database is away, all connections stayed at work too long, or the pool is closed.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        waited = False
        while True:
            if self._closed:
                raise StoreError("The store is closed; open it again.")
            if self._idle:
                if await self._answers(connection := self._idle.pop()):
                    return connection
            elif not self._count or (self._count < self._size and loop.time() >= self._dial_after):
                if (made := await self._made()) is not None:
                    return made
            elif (handed := await self._turn(deadline, first=waited)) is not None:
                return handed
            else:
                waited = True

    def add(self, connection: Connection) -> None:
        """Takes in a connection that was made elsewhere."""
        self._count += 1
        self.give_back(connection)

    def give_back(self, connection: Connection) -> None:
        """Hands the connection to whoever waits longest, or keeps it; one that is broken or old is closed."""
        now = asyncio.get_running_loop().time()
        if self._closed or not connection.reusable or now - connection.made_at > LIFE_SECONDS:
            self._discard(connection)
            return
        connection.answered_at, connection.patience = now, connection.answer_seconds
        if not self._call(connection):
            self._idle.append(connection)
            if self._sweep is None:
                self._sweep = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def close(self) -> None:
        """Closes what is idle now and what is at work when it is given back; who waits is told."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self._idle:
            self._discard(self._idle.pop())
        self._refuse(StoreError("The store is closed; open it again."))

    async def _answers(self, connection: Connection) -> bool:
        # A round trip, so only for one that was idle; one that breaks in between costs its user one StoreError.
        asked_at = asyncio.get_running_loop().time()
        if asked_at - connection.answered_at < TRUSTED_SECONDS:
            return True
        connection.patience = CONNECT_SECONDS
        try:
            await connection.execute("", prepare=False)
        except psycopg.Error:
            self._discard(connection)
            while self._idle and asked_at - self._idle[0].answered_at >= TRUSTED_SECONDS:
                self._discard(self._idle.popleft())  # what broke one has most likely broken all
            return False
        except BaseException:
            self.give_back(connection)
            raise
        connection.patience = connection.answer_seconds
        return True

    async def _made(self) -> Connection | None:
        # None: the server takes no more (too many clients, say), but there are others that will be given back.
        self._count += 1
        try:
            return await self._dial(self._target)
        except psycopg.Error as error:
            self._count -= 1
            if self._count:
                self._dial_after = asyncio.get_running_loop().time() + PAUSE_SECONDS
                return None
            failed = ours(error)
            self._refuse(failed)
            raise failed from error
        except BaseException:
            self._count -= 1
            self._call(None)
            raise

    async def _turn(self, deadline: float, *, first: bool) -> Connection | None:
        loop = asyncio.get_running_loop()
        turn: _Turn = loop.create_future()
        (self._turns.appendleft if first else self._turns.append)(turn)
        end = loop.call_at(deadline, self._expire, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.exception() is None:  # it came at the same moment
                connection = turn.result()
                if connection is None:
                    self._call(None)
                else:
                    self.give_back(connection)
            raise
        finally:
            end.cancel()
            if turn.cancelled() and turn in self._turns:
                self._turns.remove(turn)

    def _expire(self, turn: _Turn) -> None:
        if not turn.done():
            self._turns.remove(turn)
            busy = f"all {self._count} connections stayed at work for {self._wait_seconds:g} s"
            turn.set_exception(StoreError(f"memory unavailable: {busy}; raise pool_size."))

    def _call(self, connection: Connection | None) -> bool:
        # None: there is room to make one.
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(connection)
                return True
        return False

    def _refuse(self, error: KagentMemoryError) -> None:
        turns, self._turns = self._turns, deque()
        for turn in turns:
            if not turn.done():
                turn.set_exception(type(error)(str(error)))

    def _discard(self, connection: Connection) -> None:
        self._count -= 1
        connection.end()
        self._call(None)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and loop.time() - self._idle[0].answered_at >= IDLE_SECONDS:
            self._discard(self._idle.popleft())
        self._sweep = loop.call_later(IDLE_SECONDS, self._close_idle) if self._idle else None
