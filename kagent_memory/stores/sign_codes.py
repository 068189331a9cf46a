"""One bit a number of each vector, its sign: what tells of many vectors at once which of them may be near a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..records import Vector

IS_COUNTING = hasattr(np, "bitwise_count")  # of NumPy 2
WORD_BITS = 64

Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]


class SignCodes:
    """The signs of the vectors of a scope, each word of all vectors together, as a search reads them.

    Args:
        vectors: in the order of their places.
    """

    def __init__(self, vectors: Vector) -> None:
        self._words = _words(vectors)

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
        self._words[:, places] = _words(vectors)

    def move(self, place: int, to: int) -> None:
        """Sets the vector at one place at another one."""
        self._words[:, to] = self._words[:, place]

    def likeliest(self, query: Vector, count: int, held: int) -> Places:
        """Of the first `held` places the `count` whose vectors share the most signs with the query, and those that
        share as many as the last of them; in rising order.
        """
        differing = np.zeros(held, np.uint16)
        for words, word in zip(self._words, _words(query[np.newaxis])[:, 0], strict=True):
            differing += np.bitwise_count(words[:held] ^ word)
        return np.flatnonzero(differing <= np.partition(differing, count - 1)[count - 1])


def _words(vectors: Vector) -> Words:
    """Column by column the signs of 64 numbers of all vectors."""
    lacking = -vectors.shape[1] % WORD_BITS
    signs = np.packbits(np.pad(vectors > 0, ((0, 0), (0, lacking))), axis=1)
    return np.ascontiguousarray(signs.view(np.uint64).T)
