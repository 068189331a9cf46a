"""One bit of each number of each vector: what tells of many vectors at once which of them may be near a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..records import Vector

IS_COUNTING = hasattr(np, "bitwise_count")  # of NumPy 2
WORD_BITS = 64
PLANES = 3  # the bits that a query keeps of each number
_TOP = 2**PLANES - 1
_SPREAD = 2.5  # a query's numbers beyond so many times their root mean square are held for as much

Bits = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


class SignCodes:
    """The signs of the vectors of a scope, around their mean when it was made: where all texts of a model have much in
    common, that would hide what tells them apart. Word by word of all vectors, as a search reads them.

    Args:
        vectors: in the order of their places; at least one.
    """

    def __init__(self, vectors: Vector) -> None:
        self.centre = _of_length_one(vectors).mean(axis=0)
        self._words: Words = np.empty((-(-vectors.shape[1] // WORD_BITS), 0), np.uint64)
        self.put(range(len(vectors)), vectors)

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._words.nbytes

    def put(self, places: Sequence[int], vectors: Vector) -> None:
        """Takes in vectors, or sets them anew."""
        count, held = max(places, default=-1) + 1, self._words.shape[1]
        if count > held:
            words = np.zeros((len(self._words), max(count, held + held // 4)), np.uint64)
            words[:, :held] = self._words
            self._words = words
        self._words[:, places] = _words(_of_length_one(vectors) > self.centre)

    def move(self, place: int, to: int) -> None:
        """Sets the vector at one place at another one."""
        self._words[:, to] = self._words[:, place]

    def likeliest(self, query: Vector, count: int, held: int) -> Places:
        """Of the first `held` places the `count` whose vectors go most with the query by their signs, and those that do
        as much as the last of them; in rising order.
        """
        apart = _of_length_one(query[np.newaxis]) - self.centre
        step = max(float(np.sqrt(np.square(apart).mean())) * 2 * _SPREAD / _TOP, 1e-9)
        levels = np.clip(np.floor(apart / step) + (_TOP + 1) / 2, 0, _TOP).astype(np.uint8)
        differing = np.zeros(held, np.min_scalar_type(_TOP * len(self._words) * WORD_BITS))
        for plane in reversed(range(PLANES)):  # what a higher bit is worth is doubled for each below it
            differing <<= 1
            for words, word in zip(self._words, _words(levels >> plane & 1 > 0)[:, 0], strict=True):
                differing += np.bitwise_count(words[:held] ^ word)
        return np.flatnonzero(differing <= np.partition(differing, count - 1)[count - 1])


def _of_length_one(vectors: Vector) -> Vector:
    return vectors / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, np.newaxis]


def _words(bits: Bits) -> Words:
    """Column by column 64 bits of all rows."""
    packed = np.packbits(np.pad(bits, ((0, 0), (0, -bits.shape[1] % WORD_BITS))), axis=1)
    return np.ascontiguousarray(packed.view(np.uint64).T)
