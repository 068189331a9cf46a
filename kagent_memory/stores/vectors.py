"""The vectors of one scope and embedding space in memory, with exact search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import filterfalse
from threading import Lock
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ..records import Vector
from .columns import NO_ROWS, Floats, Mask, Rows
from .index import ScopeIndex

ROW_BYTES = 200  # per vector, besides its numbers
_SLACK = 1e-5

Halves: TypeAlias = npt.NDArray[np.float16]


class Nearest(NamedTuple):
    """The nearest memories of a query, highest cosine first, ties by id descending.

    Attributes:
        rows: the rows of the memories in their index.
        cosines: the cosines, -1 to 1, rounded to 6 digits.
    """

    rows: Rows = NO_ROWS
    cosines: Floats = np.empty(0)

    @classmethod
    def best(cls, rows: Rows, cosines: Floats, limit: int) -> Self:
        """Return the `limit` best of unsorted results."""
        first = np.lexsort((rows, cosines))[::-1][:limit]
        return cls(rows[first], cosines[first])


class VectorColumn:
    """Vectors of memories in single precision; all methods are thread-safe.

    Attributes:
        mark: the `Stamp.mark` of the scope when the oldest of the vectors was read.
        is_whole: True if no memory was written since all vectors were read.
    """

    def __init__(self, dimensions: int, mark: int = 0) -> None:
        self.mark, self.is_whole = mark, False
        self._places: dict[str, int] = {}
        self._free: list[int] = []
        self._matrix: Vector = np.empty((0, dimensions), np.float32)
        self._norms: Floats = np.empty(0)
        self._rows: tuple[ScopeIndex, Rows] | None = None
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._places)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._matrix.nbytes + len(self._norms) * ROW_BYTES

    def reserve(self, count: int) -> None:
        """Make room for `count` vectors at once, since every growth copies all of them."""
        capacity = len(self._norms)
        if count > capacity:
            more = max(count, capacity + capacity // 4) - capacity
            # zeros are allocated without being touched
            matrix = np.zeros((capacity + more, self._matrix.shape[1]), np.float32)
            matrix[:capacity] = self._matrix
            self._matrix = matrix
            self._norms = np.pad(self._norms, (0, more), constant_values=1.0)

    def put(self, ids: Sequence[str], vectors: Halves) -> None:
        """Set the vectors of these memories; `vectors` holds the numbers of all in a row."""
        vectors = vectors.reshape(len(ids), self._matrix.shape[1])
        with self._lock:
            for id in ids:
                if id not in self._places:
                    self._places[id] = self._free.pop() if self._free else len(self._places)
            self.reserve(len(self._places))
            places = [self._places[id] for id in ids]
            singles = vectors.astype(np.float32)
            self._matrix[places] = singles
            squares = np.einsum("ij,ij->i", singles, singles, dtype=np.float64)
            self._norms[places] = np.sqrt(squares)
            self._rows = None

    def discard(self, ids: Iterable[str]) -> None:
        """Remove the vectors of these memories."""
        with self._lock:
            places = [self._places.pop(id) for id in self._places.keys() & {*ids}]
            self._matrix[places] = 0
            self._free += places
            self._rows = None

    def lacking(self, index: ScopeIndex) -> list[str]:
        """Return the ids in an index that have no vector here."""
        return [*filterfalse(self._places.__contains__, index.ids)]

    def nearest(
        self, index: ScopeIndex, queries: Sequence[Vector], limit: int, visible: Mask
    ) -> list[Nearest]:
        """Return the answer of `View.nearest_rows` for the visible rows of an index.

        Cosines are computed in double precision.
        """
        with self._lock:
            if self._rows is None or self._rows[0] is not index:
                rows = np.full(len(self._places) + len(self._free), -1)
                row_by_id = {id: row for row, id in enumerate(index.ids)}
                rows[[*self._places.values()]] = [row_by_id.get(id, -1) for id in self._places]
                self._rows = index, rows
            rows = self._rows[1]
            places = (rows >= 0).nonzero()[0]
            places = places[visible[rows[places]]]
            answers: list[Nearest] = []
            for query in queries:
                rounded = query.astype(np.float16).astype(np.float32)  # as a database does
                best_places, cosines = self._nearest(rounded, places, limit)
                answers.append(Nearest.best(rows[best_places], cosines, limit))
            return answers

    def _nearest(self, query: Vector, places: Rows, limit: int) -> tuple[Rows, Floats]:
        """Return the nearest places to a query with their cosines, rounded to 6 digits.

        These are the `limit` best and all that may tie with them, in any order.
        """
        exact = query.astype(np.float64)
        norm = np.sqrt(exact.dot(exact))
        if 0 < limit < len(places):
            count = len(self._places) + len(self._free)
            values = (_dots(self._matrix[:count], query) / self._norms[:count])[places]
            least = np.partition(values, len(places) - limit)[len(places) - limit]
            places = places[values >= least - _SLACK * norm]
        values = _dots(self._matrix[places], exact) / (self._norms[places] * norm)
        return places, values.clip(-1.0, 1.0).round(6) + 0.0


def _dots(rows: Vector, vector: npt.NDArray[np.floating]) -> Floats:
    """Return the dot product of each row in the precision of the vector, on one core.

    A single BLAS product would use several cores, which wait for each other on a busy machine.
    """
    if hasattr(np, "vecdot"):  # NumPy 2
        return np.vecdot(rows, vector)
    return np.einsum("ij,j->i", rows, vector)
