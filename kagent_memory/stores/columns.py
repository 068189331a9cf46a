"""The features of memories as NumPy columns, without an object for each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

NONE = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
NO_SESSION = 0
COLUMNS = np.dtype(
    [
        ("session", "<i8"),  # the hash of its id
        ("position", "<i8"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("chars", "<i4"),
        ("asks", "?"),
        ("names_a_time", "?"),
        ("prefers", "?"),
        # only in an index
        ("length", "<i4"),
        ("expires", "<i8"),
        ("active", "?"),
        ("turn", "?"),
    ]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Columns: TypeAlias = npt.NDArray[np.void]
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
NO_ROWS: Rows = np.empty(0, np.int64)


def spots_of(columns: Columns) -> tuple[Rows, Rows, Rows]:
    """Return the spot of each row, the sorted spots, and the rows in that order.

    A spot is one number for session and position, consecutive within a session; NONE without
    either.
    """
    sessions, positions = columns["session"], columns["position"]
    is_placed = (sessions != NO_SESSION) & (positions != NONE)
    spots = np.where(is_placed, sessions + positions, NONE)
    order = spots.argsort(kind="stable")
    return spots, spots[order], order


def ticks(at: datetime | None, unknown: int) -> int:
    """Return a time in microseconds since 1970, or `unknown` for None."""
    return unknown if at is None else (at - _EPOCH) // _MICROSECOND


def time_of(ticks: int) -> datetime | None:
    """Return the time of `ticks`, or None for NONE."""
    return None if ticks == NONE else _EPOCH + ticks * _MICROSECOND


def best(values: Floats | Rows, limit: int) -> Rows:
    """Return the positions of the highest values, highest first; of equal ones, later first."""
    # a partition first would cost more: mostly few values are distinct, or they are in order
    return values.argsort(kind="stable")[::-1][:limit]
