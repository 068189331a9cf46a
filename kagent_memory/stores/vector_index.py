"""The vectors of the scopes searched last, kept in memory between calls, and the exact scan over them.

What is kept is only what the vector table holds, never which memories are visible: a scope's index tells that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from datetime import datetime
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from .. import telemetry
from ..records import Vector
from .text_index import ScopeIndex
from .values import EARLIEST

ID_BYTES = 200
NORM_BYTES = 12
SCOPE_BYTES = 1500  # of a scope that holds no vector yet
LOAD_ROWS = 2000
MOST_REMOVED = 500
WIDENED_ROWS = 100
HAS_VECDOT = hasattr(np, "vecdot")  # of NumPy 2
_SLACK = 1e-5
_SIGN_AND_NUMBER = np.uint32(0x8FFFE000).view(np.int32)
_EXPONENT = np.float32(2.0**112)  # that of a single is so much higher

Loader = Callable[[int, int], tuple[int, Sequence[str], bytes]]
"""Gives what was set after one `seq`, so many at most: the `seq` of the last, the ids, and their vectors as halves."""
Floats = npt.NDArray[np.float64]
Halves = npt.NDArray[np.float16]
Places = npt.NDArray[np.intp]
Real = TypeVar("Real", np.float32, np.float64)


class ScopeVectors:
    """The vectors of one scope and embedding space, as float32 rows that grow in place.

    Attributes:
        version: the scope's version that they stand at.
        erased: the scope's version when something was last erased from it.
        salt: of the scope's row: one that was erased and made anew counts its versions from the beginning.
        mark: tells whether vectors were set since: in a file the `seq` of the last one.
        is_behind: the database said so.
        lacking: the memories that have no vector; None: not told yet.
        loading: held while it takes vectors in, and by whoever reads it beside that.
    """

    def __init__(
        self, dimensions: int, *, version: int = -1, erased: int = 0, salt: bytes = b"", mark: int = 0
    ) -> None:
        self.version, self.erased, self.salt, self.mark = version, erased, salt, mark
        self.is_behind = False
        self.lacking: set[str] | None = None
        self.loading = Lock()
        self.ids: list[str] = []
        self._known: dict[str, int] | None = None  # the rows, made when they are first asked for
        self._rising: bool | None = True  # later rows have later ids; None: not looked at yet
        self._matrix: Vector = np.empty((0, dimensions), np.float32)
        self._norms: Vector = np.empty(0, np.float32)
        self._exact: Floats = np.empty(0)  # the norms in double precision; NaN: not worked out yet

    @property
    def size(self) -> int:
        """Bytes held."""
        return SCOPE_BYTES + self._matrix.nbytes + len(self._norms) * NORM_BYTES + len(self.ids) * ID_BYTES

    @property
    def _rows(self) -> dict[str, int]:
        if self._known is None:
            self._known = dict(zip(self.ids, range(len(self.ids)), strict=True))
        return self._known

    def load(self, loader: Loader) -> None:
        """Takes in what was set since the last load, in pieces that let other threads run."""
        parts = list[tuple[Sequence[str], Halves]]()
        after, is_more = self.mark, True
        while is_more:
            after, ids, sent = loader(after, LOAD_ROWS)
            if ids:
                parts.append((ids, np.frombuffer(sent, np.float16).reshape(len(ids), -1)))
            is_more = len(ids) == LOAD_ROWS
        if parts:
            with self.loading:
                self.reserve(sum(len(ids) for ids, _ in parts))
                put = self.take if self.ids else self._append
                for ids, halves in parts:
                    put(ids, halves)
                self.mark = after

    def take(self, ids: Sequence[str], halves: Halves) -> None:
        """Takes in vectors, or sets them anew."""
        if not self.ids:
            self._append(ids, halves)
            return
        self.reserve(sum(id not in self._rows for id in ids))
        places = [self._place(id) for id in ids]
        vectors = self._matrix[places] = widened(halves, np.empty(halves.shape, np.float32))
        self._norms[places], self._exact[places] = _lengths(vectors), np.nan

    def _append(self, ids: Sequence[str], halves: Halves) -> None:
        """Takes in vectors of ids that are not here, each of them once."""
        self.reserve(len(ids))
        first = len(self.ids)
        places = slice(first, first + len(ids))
        self.ids += ids
        self._known = self._rising = None
        self._norms[places] = _lengths(widened(halves, self._matrix[places]))
        self._exact[places] = np.nan

    def remove(self, ids: Iterable[str]) -> None:
        """Lets go of these vectors, as far as they are here."""
        for row in (self._rows.pop(id) for id in ids if id in self._rows):
            last = self.ids.pop()
            if row < len(self.ids):  # the last one takes its place
                self._rising = False
                self.ids[row], self._rows[last] = last, row
                for column in (self._matrix, self._norms, self._exact):
                    column[row] = column[len(self.ids)]

    def align(self, index: ScopeIndex) -> None:
        """Lets go of the vectors of memories that the scope's index has no more, and tells those that lack one."""
        with self.loading, index.loading:
            ids = set(index.ids(index.visible(EARLIEST, superseded=True)))
            self.remove(self._rows.keys() - ids)
            self.lacking, self.erased = ids - self._rows.keys(), index.erased

    def change(self, written: Iterable[str], ids: Sequence[str], halves: Halves, *, version: int, mark: int) -> None:
        """Brings it up to a version: of the memories that were written since, these have vectors."""
        with self.loading:
            lacking = set(written).difference(ids)
            self.remove(lacking)
            self.take(ids, halves)
            self.lacking = (self.lacking or set()).difference(ids) | lacking
            self.version, self.mark, self.is_behind = version, mark, False

    def reserve(self, count: int) -> None:
        """Makes room for so many more at once: to grow part by part copies all that came before."""
        needed, held = len(self.ids) + count, len(self._norms)
        if needed > held:
            capacity = max(needed, held + held // 4)
            matrix, norms = np.zeros((capacity, self._matrix.shape[1]), np.float32), np.ones(capacity, np.float32)
            exact = np.full(capacity, np.nan)
            matrix[:held], norms[:held], exact[:held] = self._matrix, self._norms, self._exact
            self._matrix, self._norms, self._exact = matrix, norms, exact

    def _place(self, memory_id: str) -> int:
        if memory_id not in self._rows:
            self._rising = self._rising and (not self.ids or self.ids[-1] < memory_id)
            self._rows[memory_id] = len(self.ids)
            self.ids.append(memory_id)
        return self._rows[memory_id]

    def places(self, ids: Collection[str]) -> Places:
        """Where those of the ids stand that have a vector, in rising order."""
        return np.sort(np.array([self._rows[one] for one in ids if one in self._rows], np.intp))

    def cosines(self, query: Vector) -> Vector:
        """Return the cosine of every row, to about 1e-6."""
        matrix, norms = self._matrix[: len(self.ids)], self._norms[: len(self.ids)]
        return _dots(matrix, query) / (norms * np.float32(_norm(query))).astype(np.float32, copy=False)

    def nearest(
        self, query: Vector, cosines: Vector, limit: int, among: Places | None = None
    ) -> list[tuple[str, float]]:
        """The `limit` nearest of all rows, or of those `among` them in rising order, by `cosines` of these: (id, cosine
        rounded to 6 digits), best first, ties by id descending. The last digits are worked out anew in double
        precision, whatever order the sums took.
        """
        rows = np.arange(len(cosines)) if among is None else among
        if limit < 1 or not len(rows):
            return []
        if limit < len(rows):
            rows = rows[cosines >= np.partition(cosines, len(rows) - limit)[len(rows) - limit] - _SLACK]
        exact = np.asarray(query, np.float64)
        singles = self._matrix.take(rows, axis=0)
        values = (_dots(singles, exact) / (self._exact_norms(rows, singles) * _norm(exact))).round(6)
        values = np.minimum(np.maximum(values, -1.0), 1.0) + 0.0
        order = values.argsort(kind="stable")[::-1]  # of those that tie, later rows first
        values = values[order]
        is_tied = bool((values[1 : limit + 1] == values[:limit][: len(values) - 1]).any())
        is_in_order = not is_tied or self._is_rising()
        if is_in_order:
            order, values = order[:limit], values[:limit]
        best: list[int] = rows[order].tolist()
        found = list(zip(map(self.ids.__getitem__, best), values.tolist(), strict=True))
        if not is_in_order:
            found.sort(key=lambda hit: (hit[1], hit[0]), reverse=True)
        return found[:limit]

    def _exact_norms(self, rows: npt.NDArray[np.intp], singles: Vector) -> Floats:
        """Those of these rows, whose vectors are given, in double precision."""
        norms = self._exact[rows]
        if (unknown := np.isnan(norms)).any():
            norms[unknown] = _lengths(singles[unknown].astype(np.float64))
            self._exact[rows] = norms
        return norms

    def _is_rising(self) -> bool:
        if self._rising is None:
            self._rising = self.ids == sorted(self.ids)
        return self._rising


def widened(halves: Halves, singles: Vector) -> Vector:
    """Writes the same numbers in single precision, some rows at a time, which stay in the processor's cache: the bits
    in their places, and the exponent set right. NumPy's own way takes five times as long; only numbers may be given.
    """
    bits = singles.view(np.int32)
    given = halves.view(np.dtype(np.int16).newbyteorder(halves.dtype.byteorder))
    for start in range(0, len(halves), WIDENED_ROWS):
        some = bits[start : start + WIDENED_ROWS]
        some[:] = given[start : start + WIDENED_ROWS]
        some <<= 13
        some &= _SIGN_AND_NUMBER
        singles[start : start + WIDENED_ROWS] *= _EXPONENT
    return singles


def _dots(rows: Vector, vector: npt.NDArray[Real]) -> npt.NDArray[Real]:
    """The dot product of each row, summed as finely as the vector is, on one core: for all as one product BLAS takes
    several, which wait for each other where other work has them.
    """
    return np.vecdot(rows, vector) if HAS_VECDOT else np.einsum("ij,j->i", rows, vector)


def _lengths(rows: npt.NDArray[Real]) -> npt.NDArray[Real]:
    squares: npt.NDArray[Real] = np.vecdot(rows, rows) if HAS_VECDOT else np.einsum("ij,ij->i", rows, rows)
    np.sqrt(squares, out=squares)
    return squares


def _norm(vector: npt.NDArray[Real]) -> float:
    return math.sqrt(vector.dot(vector))


class VectorCache:
    """The vectors of the scopes searched last, up to so many bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # those searched last stay, even where they alone are larger
        self._held = LRUCache[tuple[bytes, int], ScopeVectors](max_bytes, lambda held: min(held.size, max_bytes))
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._held)

    def has_room(self, count: int, dimensions: int) -> bool:
        """Whether so many vectors are no more than all that is to be kept."""
        return count * (4 * dimensions + NORM_BYTES + ID_BYTES) <= self._max_bytes

    def known(self, key: tuple[bytes, int]) -> ScopeVectors | None:
        """A scope's vectors as they were loaded last, if they are kept."""
        with self._lock:
            return self._held.get(key)

    def current(
        self, key: tuple[bytes, int], dimensions: int, *, version: int, loader: Loader, count: Callable[[], int]
    ) -> ScopeVectors:
        """The scope's vectors as the database holds them in the transaction that `loader` and `count` read in."""
        held = self._pop(key) or ScopeVectors(dimensions)
        telemetry.cache_looked_up("vectors", hit=held.version == version and bool(held.ids))
        is_new = not held.ids
        held.load(loader)
        if not is_new and held.version != version and len(held.ids) != count():
            held = ScopeVectors(dimensions)
            held.load(loader)
        held.version = version
        self.keep(key, held)
        return held

    def keep(self, key: tuple[bytes, int], held: ScopeVectors) -> None:
        """Keep a scope's vectors in place of those that were loaded before."""
        with self._lock:
            self._held[key] = held

    def discard(self, key: tuple[bytes, int], ids: Collection[str]) -> None:
        """Lets go of some of a scope's vectors; of all where those are many, or are being read."""
        held = self.known(key)
        if held is None or len(ids) > MOST_REMOVED or not held.loading.acquire(blocking=False):
            self._pop(key)
            return
        try:
            held.remove(ids)
        finally:
            held.loading.release()

    def drop(self, key: tuple[bytes, int] | None = None) -> None:
        """Lets go of one scope's vectors, or of all."""
        if key is not None:
            self._pop(key)
            return
        with self._lock:
            self._held.clear()

    def _pop(self, key: tuple[bytes, int]) -> ScopeVectors | None:
        with self._lock:
            return self._held.pop(key, None)


def search(
    held: ScopeVectors,
    queries: Sequence[Vector],
    limit: int,
    passing: Callable[[Sequence[str] | None], Set[str]] | None,
) -> list[list[tuple[str, float]]]:
    """For each query the nearest among the ids that `passing` lets through (None: all); asked for the best candidates
    first, and for all (None) when those are not enough.
    """
    halved = [np.asarray(query, np.float16).astype(np.float32) for query in queries]
    reach = limit if passing is None else min(len(held.ids), limit + limit // 4 + 32)
    compared = [(query, held.cosines(query)) for query in halved]
    nearest = [held.nearest(query, cosines, reach) for query, cosines in compared]
    if passing is None:
        return nearest
    good = passing([memory_id for found in nearest for memory_id, _ in found])
    answers = [[hit for hit in found if hit[0] in good][:limit] for found in nearest]
    if reach == len(held.ids) or all(len(answer) == limit for answer in answers):
        return answers
    among = held.places(passing(None))
    return [held.nearest(query, cosines[among], limit, among) for query, cosines in compared]


def nearest_known(
    index: ScopeIndex,
    held: ScopeVectors,
    queries: Sequence[Vector],
    *,
    limit: int,
    version: int,
    now: datetime,
) -> tuple[list[list[tuple[str, float]]], int] | None:
    """What `nearest` finds, on any thread; None while either takes something in."""
    if not held.loading.acquire(blocking=False):
        return None
    try:
        with index.loading:
            if (held.version, index.version) != (version, version):
                return None
            mark, visible = held.mark, index.visible(now)
            shown = partial(index.shown, visible) if index.hidden(visible) else None
            telemetry.cache_looked_up("vectors", hit=True)
            return search(held, queries, limit, shown), mark
    finally:
        held.loading.release()
