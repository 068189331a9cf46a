"""How much one caller may ask for: a token bucket per caller, and a bound on bodies."""

from __future__ import annotations

from collections import OrderedDict

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

MOST_CALLERS = 10_000


class TooLarge(HTTPException):
    """The body is longer than the server takes."""

    def __init__(self, most: int) -> None:
        super().__init__(413, f"The body is longer than {most} bytes.")


class RateLimit:
    """A token bucket per caller: a minute's worth may come at once, then it drips in evenly."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, caller: str, now: float) -> float:
        """0 when the caller may go on (which is counted), otherwise how long to wait. `now`: monotonic seconds."""
        if self._per_minute <= 0:
            return 0.0
        per_second = self._per_minute / 60
        level, at = self._levels.pop(caller, (float(self._per_minute), now))
        level = min(float(self._per_minute), level + (now - at) * per_second)
        waits = 0.0 if level >= 1 else (1 - level) / per_second
        self._levels[caller] = (level if waits else level - 1, now)
        if len(self._levels) > MOST_CALLERS:
            self._levels.popitem(last=False)
        return waits


def bounded(receive: Receive, most: int) -> Receive:
    """`receive`, but it raises TooLarge once more than `most` bytes of body came."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLarge(most)
        return message

    return counted
