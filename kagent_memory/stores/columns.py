"""Places of memories as ranking reads them: in columns, without an object each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

NONE = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
COLUMNS = np.dtype(
    [
        ("session", "<i4"),
        ("position", "<i8"),
        ("author", "<i4"),
        ("importance", "<f8"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("chars", "<i4"),
        ("asks", "?"),
        ("names_a_time", "?"),
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


@dataclass(frozen=True, eq=False)
class Places:
    """Positions of memories, in columns.

    Attributes:
        ids: of the memories, in order.
        columns: a row for each, of `COLUMNS`: sessions and authors as indexes of `names` (-1:
            none), times in microseconds since 1970, NONE for a position or time that is unknown.
        names: of the sessions and authors.
    """

    ids: Sequence[str]
    columns: Columns
    names: Sequence[str]

    @classmethod
    def joined(cls, parts: Sequence[Self], keys: Sequence[Sequence[str]]) -> Self:
        """Return several as one, in the order of their ids; each part's sessions are its own.

        Args:
            parts: of different scopes.
            keys: of each part, what stands for its ids.
        """
        columns, names = np.empty(0, COLUMNS), list[str]()
        for part in parts:
            numbers = range(len(names), len(names) + len(part.names))
            columns = np.concatenate([columns, renamed(part.columns, numbers)])
            names += part.names
        ids = [id for part in parts for id in part.ids]
        named = [key for part in keys for key in part]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        return cls([named[row] for row in order], columns[order], names)

    def __len__(self) -> int:
        return len(self.ids)


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
