"""The vectors of one scope and embedding space, kept in memory, and the exact search of them."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ..records import Vector
from .columns import Mask, Rows

ROW_BYTES = 12  # of a vector, beside its numbers
HAS_VECDOT = hasattr(np, "vecdot")  # of NumPy 2
_SLACK = 1e-5

Floats = npt.NDArray[np.float64]
Halves = npt.NDArray[np.float16]
Real = TypeVar("Real", np.float32, np.float64)


class VectorColumn:
    """Vectors of some rows of a scope's index, in single precision, each beside the number of its
    row.

    Attributes:
        version: the scope's version at which all of them were read.
        mark: how often vectors of the scope had been set then (`Stand.mark`); None: rows came
            since.
    """

    def __init__(self, dimensions: int) -> None:
        self.version = -1
        self.mark: int | None = None
        self._count = 0
        self._rows: Rows = np.empty(0, np.int64)  # -1: the vector was let go of
        self._matrix: Vector = np.empty((0, dimensions), np.float32)
        self._norms: Vector = np.empty(0, np.float32)

    def __len__(self) -> int:
        return int((self._rows[: self._count] >= 0).sum())

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._matrix.nbytes + len(self._rows) * ROW_BYTES

    def put(self, rows: Rows, vectors: Halves) -> None:
        """Set the vectors of these rows, each named once."""
        self.remove(rows)
        first, last = self._count, self._count + len(rows)
        self.reserve(last)
        self._rows[first:last] = rows
        self._matrix[first:last] = vectors
        self._norms[first:last] = _lengths(self._matrix[first:last])
        self._count = last

    def remove(self, rows: Rows) -> None:
        """Let go of the vectors of these rows."""
        gone = np.flatnonzero(np.isin(self._rows[: self._count], rows))
        self._rows[gone] = -1
        self._matrix[gone] = 0

    def renumber(self, numbers: Rows) -> None:
        """Keep the vectors of the rows that have a new number, which is not below 0."""
        rows = np.where(self._rows[: self._count] >= 0, numbers[self._rows[: self._count]], -1)
        kept = np.flatnonzero(rows >= 0)
        self._rows, self._matrix, self._norms = rows[kept], self._matrix[kept], self._norms[kept]
        self._count = len(kept)

    def reserve(self, count: int) -> None:
        """Make room for so many vectors at once: to grow part by part copies all that came
        before.
        """
        held = len(self._rows)
        if count > held:
            capacity = max(count, held + held // 4)
            rows, norms = np.full(capacity, -1), np.ones(capacity, np.float32)
            matrix = np.zeros((capacity, self._matrix.shape[1]), np.float32)
            rows[:held], norms[:held], matrix[:held] = self._rows, self._norms, self._matrix
            self._rows, self._norms, self._matrix = rows, norms, matrix

    def present(self, count: int) -> Mask:
        """Return which of so many rows have a vector."""
        rows = self._rows[: self._count]
        found = np.zeros(count, bool)
        found[rows[rows >= 0]] = True
        return found

    def nearest(self, query: Vector, among: Mask, limit: int) -> tuple[Rows, Floats]:
        """Return the rows nearest to a query with their cosines, rounded to 6 digits: the `limit`
        best and all that may tie with them, in no order. The last digits are worked out in double
        precision.

        Args:
            query: a vector as the database keeps it.
            among: which rows count.
            limit: how many.
        """
        rows = self._rows[: self._count]
        places = np.flatnonzero((rows >= 0) & among[rows])
        if limit < 1 or not len(places):
            return np.empty(0, np.int64), np.empty(0)
        if limit < len(places):
            cosines = self._cosines(query, places)
            places = places[
                cosines >= np.partition(cosines, len(places) - limit)[len(places) - limit] - _SLACK
            ]
        singles, exact = self._matrix.take(places, axis=0), query.astype(np.float64)
        values = _dots(singles, exact) / (_lengths(singles.astype(np.float64)) * _norm(exact))
        return rows[places], np.minimum(np.maximum(values, -1.0), 1.0).round(6) + 0.0

    def _cosines(self, query: Vector, places: Rows) -> Vector:
        """Return the cosines of these vectors, to about 1e-6."""
        matrix, norms = self._matrix[: self._count], self._norms[: self._count]
        if 2 * len(places) < self._count:
            matrix, norms = matrix[places], norms[places]
            return _dots(matrix, query) / (norms * np.float32(_norm(query))).astype(
                np.float32, copy=False
            )
        return (
            _dots(matrix, query) / (norms * np.float32(_norm(query))).astype(np.float32, copy=False)
        )[places]


def _dots(rows: Vector, vector: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """Return the dot product of each row, summed as finely as the vector is, on one core: for all
    as one product BLAS takes several, which wait for each other where other work has them.
    """
    return np.vecdot(rows, vector) if HAS_VECDOT else np.einsum("ij,j->i", rows, vector)


def _lengths(rows: npt.NDArray[Real]) -> npt.NDArray[Real]:
    squares: npt.NDArray[Real] = (
        np.vecdot(rows, rows) if HAS_VECDOT else np.einsum("ij,ij->i", rows, rows)
    )
    np.sqrt(squares, out=squares)
    return squares


def _norm(vector: npt.NDArray[Real]) -> float:
    return math.sqrt(vector.dot(vector))
