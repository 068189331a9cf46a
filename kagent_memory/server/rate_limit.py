"""How much one caller may ask for: a token bucket per caller, and bounds on bodies: their length, time and number."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable

from cachetools import LRUCache
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

MOST_CALLERS = 10_000
SMALL_BODY = 65_536  # of no account: so much is always taken in
IDLE_SECONDS = 10.0
FREE_SECONDS = 15.0  # then a body must come by so many bytes a second on the whole
LEAST_BYTES_PER_SECOND = 65_536


class TooLarge(HTTPException):
    """The body is longer than the server takes."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"The body is longer than {most} bytes.")


class TooSlow(HTTPException):
    """The body did not come in time."""

    def __init__(self) -> None:
        super().__init__(408, "The body did not come in time.", {"connection": "close"})


class TooMuch(HTTPException):
    """So many long bodies are being sent that there is no room for this one now."""

    def __init__(self) -> None:
        super().__init__(503, "Too much is being sent at once; try again.", {"retry-after": "1"})


class RateLimit:
    """A token bucket per caller: a minute's worth may come at once, then it drips in evenly."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._levels = LRUCache[bytes, tuple[float, float]](MOST_CALLERS)

    def wait_seconds(self, caller: str, now: float) -> float:
        """0 when the caller may go on (which is counted), otherwise how long to wait. `now`: monotonic seconds."""
        if self._per_minute <= 0:
            return 0.0
        per_second = self._per_minute / 60
        key = hashlib.blake2b(caller.encode(errors="replace"), digest_size=16).digest()  # names may be long
        level, at = self._levels.get(key) or (float(self._per_minute), now)
        level = min(float(self._per_minute), level + (now - at) * per_second)
        waits = 0.0 if level >= 1 else (1 - level) / per_second
        self._levels[key] = (level if waits else level - 1, now)
        return waits


class Room:
    """The bytes of long bodies that are held at once: of all callers together, and half of that of one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._by_caller: Counter[str] = Counter()

    def take(self, caller: str, count: int) -> bool:
        """Whether there is room for so many bytes more, which are held then."""
        if self._held + count > self._most or self._by_caller[caller] + count > self._most // 2:
            return False
        self._held += count
        self._by_caller[caller] += count
        return True

    def give_back(self, caller: str, count: int) -> None:
        """Lets go of them."""
        self._held -= count
        self._by_caller[caller] -= count
        if not self._by_caller[caller]:
            del self._by_caller[caller]


class Body:
    """The body of one request as it comes in, within its bounds.

    Attributes:
        is_whole: all of it has come.

    Args:
        receive: gives its messages.
        most: bytes that it may have.
        room: what long bodies are held in; None: this one is written away as it comes.
        caller: whose.
        time: monotonic seconds.
    """

    def __init__(
        self, receive: Receive, most: int, room: Room | None, caller: str, *, time: Callable[[], float]
    ) -> None:
        self._receive, self._most, self._room, self._caller, self._time = receive, most, room, caller, time
        self._begun: float | None = None
        self._seen = self._taken = 0
        self.is_whole = False

    async def receive(self) -> Message:
        """The next message.

        Raises:
            TooLarge, TooSlow, TooMuch: a bound is passed.
        """
        if self.is_whole:  # whoever asks on waits for the caller to go away
            return await self._receive()
        self._begun = self._time() if self._begun is None else self._begun
        left = self._begun + FREE_SECONDS + self._seen / LEAST_BYTES_PER_SECOND - self._time()
        try:
            async with asyncio.timeout(max(0.0, min(left, IDLE_SECONDS))):
                message = await self._receive()
        except TimeoutError as error:
            raise TooSlow from error
        self._seen += len(message.get("body", b""))
        if self._seen > self._most:
            raise TooLarge(self._most)
        if self._room is not None and self._seen > SMALL_BODY:
            if not self._room.take(self._caller, self._seen - self._taken):
                raise TooMuch
            self._taken = self._seen
        self.is_whole = not message.get("more_body", False)
        return message

    def end(self) -> None:
        """The request is over; its bytes are no longer held."""
        if self._taken and self._room is not None:
            self._room.give_back(self._caller, self._taken)
        self._taken = 0
