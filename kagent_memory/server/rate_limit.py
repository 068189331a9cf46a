"""What one caller may ask for: a rate, a fair share of the requests in progress, and the bytes of
their bodies.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Hashable
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from cachetools import LRUCache
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

MAX_CALLERS = 10_000
LONG_BODY = 2_000  # bytes; a longer search takes processor time to read
SMALL_BODY = 65_536  # bytes of a body that the budget does not count


class TooLarge(HTTPException):
    """The body is longer than the server takes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(413, f"The body is longer than {max_bytes} bytes.")


class TooManyRequests(HTTPException):
    """Too many requests of one caller are open."""

    def __init__(self) -> None:
        super().__init__(
            429,
            "Too many of your requests are in progress; wait for some of them.",
            {"retry-after": "1"},
        )


class Overloaded(HTTPException):
    """Too many bytes of bodies are in memory."""

    def __init__(self) -> None:
        super().__init__(
            503, "Too many long requests are in progress; try again.", {"retry-after": "1"}
        )


class RateLimit:
    """A token bucket per caller: a minute's worth may come at once, then it drips in evenly."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._levels = LRUCache[bytes, tuple[float, float]](MAX_CALLERS)

    def wait_seconds(self, caller: str, now: float) -> float:
        """Count a request and return 0, or return the seconds to wait. `now`: monotonic seconds."""
        if self._per_minute <= 0:
            return 0.0
        per_second = self._per_minute / 60
        # names may be long
        key = hashlib.blake2b(caller.encode(errors="replace"), digest_size=16).digest()
        level, at = self._levels.get(key) or (float(self._per_minute), now)
        level = min(float(self._per_minute), level + (now - at) * per_second)
        waits = 0.0 if level >= 1 else (1 - level) / per_second
        self._levels[key] = (level if waits else level - 1, now)
        return waits


class FairShare:
    """Limits the requests of each caller, and those of all that are worked on at once.

    Args:
        per_caller: requests of one caller that may be open; further ones are refused.
        at_once: requests that are worked on; one caller may have an eighth of them, and one long
            search. Others wait.
    """

    def __init__(self, *, per_caller: int, at_once: int) -> None:
        self._per_caller, self._at_once = per_caller, at_once
        self._open = Counter[Hashable]()
        self._slots = asyncio.Semaphore(at_once)
        self._own_slots = WeakValueDictionary[Hashable, asyncio.Semaphore]()

    @contextmanager
    def open(self, caller: Hashable) -> Generator[None]:
        """Count a request of `caller` as open.

        Raises:
            TooManyRequests: too many are open already.
        """
        if self._open[caller] >= self._per_caller:
            raise TooManyRequests
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    @asynccontextmanager
    async def turn(self, caller: Hashable, *, is_long: bool = False) -> AsyncGenerator[None]:
        """Wait until a request of `caller` may be worked on; long ones are, one after another."""
        slots = 1 if is_long else max(1, self._at_once // 8)
        own = self._own_slots.setdefault((caller, is_long), asyncio.Semaphore(slots))
        async with own, self._slots:
            yield


class BodyBudget:
    """The bytes of long bodies in memory: of all callers together, and half of that of one."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = Counter[Hashable]()

    def take(self, caller: Hashable, count: int) -> None:
        """Count more bytes of a caller.

        Raises:
            Overloaded: they do not fit.
        """
        if (
            self._held.total() + count > self._max_bytes
            or self._held[caller] + count > self._max_bytes // 2
        ):
            raise Overloaded
        self._held[caller] += count

    def give_back(self, caller: Hashable, count: int) -> None:
        """Let go of bytes that were taken."""
        self._held[caller] -= count
        if not self._held[caller]:
            del self._held[caller]


class Body:
    """The body of one request as it comes in, of bounded length.

    Args:
        receive: gives its messages.
        max_bytes: its longest length.
        budget: counts it while it is in memory; None: it is written to a file as it comes.
        caller: whose it is.
    """

    def __init__(
        self, receive: Receive, max_bytes: int, budget: BodyBudget | None, caller: Hashable
    ) -> None:
        self._receive, self._max_bytes, self._budget, self._caller = (
            receive,
            max_bytes,
            budget,
            caller,
        )
        self._received = self._taken = 0

    async def receive(self) -> Message:
        """Return the next message.

        Raises:
            TooLarge: the body is too long.
            Overloaded: there is no memory for it now.
        """
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > self._max_bytes:
            raise TooLarge(self._max_bytes)
        if self._budget is not None and self._received > max(SMALL_BODY, self._taken):
            self._budget.take(self._caller, self._received - self._taken)
            self._taken = self._received
        return message

    def close(self) -> None:
        """Give back what the budget counts."""
        if self._budget is not None and self._taken:
            self._budget.give_back(self._caller, self._taken)
        self._taken = 0
