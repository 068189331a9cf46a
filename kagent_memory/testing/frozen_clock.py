"""A clock that a test moves by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ..errors import InvalidInput


class FrozenClock:
    """Stands still until it is moved; give it as `clock=`, so that a test decides when a memory
    expires.

    What waits for a later time, such as a retry or an inactivity timer, is due once the clock was
    moved there.

    Args:
        now: the time to begin at, with a time zone.

    Attributes:
        now: the time it shows.

    Raises:
        InvalidInput: the time has no zone.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        if now.tzinfo is None:
            raise InvalidInput(
                "A clock needs a time with a zone: datetime(2026, 1, 1, tzinfo=UTC)."
            )
        self.now = now.astimezone(UTC)

    def __call__(self) -> datetime:
        """The time it shows, aware UTC."""
        return self.now

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> datetime:
        """Move it on, and return the time it shows then."""
        self.now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self.now
