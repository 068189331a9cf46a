"""What is known of each memory beside its words, in columns, without an object each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

NONE = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
COLUMNS = np.dtype(
    [
        ("session", "<i4"),
        ("position", "<i8"),
        ("author", "<i4"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("chars", "<i4"),
        ("asks", "?"),
        ("names_a_time", "?"),
        ("prefers", "?"),
        # of an index alone
        ("length", "<i4"),
        ("expires", "<i8"),
        ("active", "?"),
        ("turn", "?"),
    ]
)
NAMED = ("session", "author")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Columns: TypeAlias = npt.NDArray[np.void]
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
NO_ROWS: Rows = np.empty(0, np.int64)


def renamed(columns: Columns, numbers: Sequence[int]) -> Columns:
    """Return the same rows with the names of sessions and authors numbered anew."""
    columns, places = columns.copy(), np.array([*numbers, -1])  # the last stands for none
    for name in NAMED:
        columns[name] = places[columns[name]]
    return columns


def spots_of(columns: Columns) -> tuple[Rows, Rows, Rows]:
    """Return the spot of each row in its session, or NONE; the spots in rising order; and the rows
    in that order.

    One number a spot, 2^32 from the next session's.
    """
    sessions, positions = columns["session"].astype(np.int64), columns["position"]
    is_placed = (sessions >= 0) & (positions != NONE)
    spots = np.where(is_placed, (sessions << 32) + positions, NONE)
    order = spots.argsort(kind="stable")
    return spots, spots[order], order


def ticks(at: datetime | None, unknown: int) -> int:
    """Return a time in microseconds since 1970."""
    return unknown if at is None else (at - _EPOCH) // _MICROSECOND


def time_of(ticks: int) -> datetime | None:
    """Return the time that `ticks` counted; None where it is NONE."""
    return None if ticks == NONE else _EPOCH + ticks * _MICROSECOND


def best(values: Floats | Rows, limit: int) -> Rows:
    """Return the places of the highest values, highest first; of those that tie, later ones
    first.
    """
    places = np.arange(len(values))
    if 0 < limit < len(values):
        over = len(values) - limit
        places = places[values >= np.partition(values, over)[over]]
    return places[values[places].argsort(kind="stable")[::-1]][:limit]
