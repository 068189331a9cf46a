"""A memory's index terms as bytes, and the inverted lists of a scope."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from .columns import Mask, Rows

KEY = np.dtype(">u8")
RECORD = np.dtype([("term", KEY), ("count", ">u4")])

Numbers: TypeAlias = npt.NDArray[np.integer[Any]]


@lru_cache(maxsize=1 << 16)
def _key(term: str) -> bytes:
    return hashlib.blake2b(term.encode(), digest_size=KEY.itemsize).digest()


def packed(counts: Mapping[str, int]) -> bytes:
    """Return term → count as bytes, 12 for each term.

    These are the key, 64 bits of the term's BLAKE2b hash, and the count in 4 bytes, big endian. In
    a scope of a million distinct terms the chance of two with the same key is 3 in 100 million.
    """
    return b"".join([_key(term) + count.to_bytes(4, "big") for term, count in counts.items()])


def keys_of(terms: Iterable[str]) -> Numbers:
    """Return the keys of some terms."""
    return np.frombuffer(b"".join(map(_key, terms)), KEY).astype(np.uint64)


class Postings(NamedTuple):
    """Inverted lists as parallel columns.

    Attributes:
        terms: the key of a term, or its number in a query.
        rows: the row of a memory that holds the term.
        counts: the number of times it does.
    """

    terms: Numbers
    rows: Numbers
    counts: Numbers

    @classmethod
    def unpacked(cls, entries: Sequence[bytes]) -> Self:
        """Return the lists of `packed` terms; the row of each is its position."""
        records = np.frombuffer(b"".join(entries), RECORD)
        lengths = [len(entry) // RECORD.itemsize for entry in entries]
        narrow = np.min_scalar_type(records["count"].max(initial=0))
        return cls(
            records["term"].astype(np.uint64),
            np.arange(len(entries), dtype=np.int32).repeat(lengths),
            records["count"].astype(narrow),
        )

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum(column.nbytes for column in self)

    def where(self, kept: Mask | Rows) -> Self:
        """Return the selected postings."""
        return type(self)(*(column[kept] for column in self))

    def renumbered(self, numbers: Numbers) -> Self:
        """Return the postings with new row numbers, without those numbered below 0."""
        renumbered = self._replace(rows=numbers[self.rows])
        return renumbered.where(renumbered.rows >= 0)

    def joined(self, other: Self) -> Self:
        """Return both as one, in order of the keys."""
        both = type(self)(*(np.concatenate(columns) for columns in zip(self, other, strict=True)))
        return both.where(both.terms.argsort(kind="stable"))

    def of(self, terms: Sequence[str]) -> Self:
        """Return the postings of these terms, each numbered by its position in `terms`. The lists
        must be sorted.
        """
        keys = keys_of(terms)
        starts = self.terms.searchsorted(keys)
        lengths = self.terms.searchsorted(keys, "right") - starts
        numbers = np.arange(len(keys)).repeat(lengths)
        return self.where(spread(starts, lengths))._replace(terms=numbers)


def spread(starts: Rows, lengths: Rows) -> Rows:
    """Return the consecutive numbers from each start, as many as its length."""
    ends = lengths.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) + (starts - ends + lengths).repeat(lengths)
