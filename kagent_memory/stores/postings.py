"""A memory's index terms as bytes, and the inverted lists that they make for one scope."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

RECORD = np.dtype([("term", ">u8"), ("count", ">u4")])
TAIL = 4096
_KEY_BYTES, _COUNT_BYTES = 8, 4  # of a RECORD
_ONE = (1).to_bytes(_COUNT_BYTES, "big")

Rows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]
Narrow: TypeAlias = npt.NDArray[np.unsignedinteger]
"""Numbers that take as few bytes as they need."""


def _hashed(term: str) -> bytes:
    return hashlib.blake2b(term.encode(), digest_size=_KEY_BYTES).digest()


@lru_cache(maxsize=1 << 16)
def _once(term: str) -> bytes:
    """Return what `packed` makes of a term that stands once in a memory, as most do."""
    return _hashed(term) + _ONE


def term_key(term: str) -> int:
    """Return what stands for a term in the index: 64 bits of its BLAKE2b hash.

    In a scope of a million distinct terms two share a key with a chance of 3 in 100 million.
    """
    return int.from_bytes(_once(term)[:_KEY_BYTES], "big")


def packed(counts: Mapping[str, int]) -> bytes:
    """Return term → count as 12 bytes a term: its key (8) and the count (4), big endian."""
    return b"".join(
        [
            _once(term)
            if count == 1
            else _once(term)[:_KEY_BYTES] + count.to_bytes(_COUNT_BYTES, "big")
            for term, count in counts.items()
        ]
    )


def keys_of(terms: Iterable[str]) -> Keys:
    """Return the keys of some terms, in order."""
    return np.sort(np.array([term_key(term) for term in terms], np.uint64))


def holding(entries: Sequence[bytes], keys: Keys) -> npt.NDArray[np.bool_]:
    """Return which of these packed entries hold one of the keys, which are in order."""
    terms = np.frombuffer(b"".join(entries), RECORD)["term"].astype(np.uint64)
    places = np.repeat(
        np.arange(len(entries)), [len(entry) // RECORD.itemsize for entry in entries]
    )
    return np.bincount(places[_in_order(keys, terms)], minlength=len(entries)) > 0


def _in_order(ordered: Keys, keys: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are among others that are in order."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    return ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys


class Held(NamedTuple):
    """Rows that hold some terms, side by side: the term's number, the row, and how often."""

    terms: Rows
    rows: Rows
    counts: Rows

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """Return some of them."""
        return type(self)(self.terms[kept], self.rows[kept], self.counts[kept])


class _Run(NamedTuple):
    """Entries side by side, in the order of their terms' keys."""

    terms: Keys
    rows: Narrow
    counts: Narrow

    @property
    def size(self) -> int:
        return sum(column.nbytes for column in self)

    def joined(self, other: _Run) -> _Run:
        """Return both as one."""
        if not len(other.terms):
            return self
        terms, rows, counts = (np.concatenate(columns) for columns in zip(self, other, strict=True))
        order = terms.argsort(kind="stable")
        return _Run(terms[order], rows[order], counts[order])

    def held(self, keys: Keys) -> Held:
        """Return the entries of some keys, each by its place among them."""
        first, last = self.terms.searchsorted(keys, "left"), self.terms.searchsorted(keys, "right")
        places = spread(first, last - first)
        numbers = np.repeat(np.arange(len(keys)), last - first)
        return Held(
            numbers, self.rows[places].astype(np.int64), self.counts[places].astype(np.int64)
        )


def spread(starts: Rows, lengths: Rows) -> Rows:
    """Return the numbers from each start on, as many as its length."""
    ends = lengths.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) + (starts - ends + lengths).repeat(lengths)


_NOTHING = _Run(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint8))


def _narrow(counts: Rows) -> Narrow:
    return counts.astype(np.uint8 if counts.max(initial=0) < 2**8 else np.uint32)


class Postings:
    """Inverted lists: term key → rows and counts. What comes goes to a short run, which joins the
    long one once it has grown. Their arrays are made anew and never written to, so a copy of the
    object keeps what it held.
    """

    PARTS: ClassVar[int] = 5  # that `packed` gives

    def __init__(self) -> None:
        self._long = self._short = _NOTHING

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._long.size + self._short.size

    def add(self, first: int, entries: Sequence[bytes]) -> Rows:
        """Add packed terms of the rows `first`, `first` + 1, …; return the sum of the counts of
        each.
        """
        records = np.frombuffer(b"".join(entries), RECORD)
        places = np.repeat(
            np.arange(len(entries)), [len(entry) // RECORD.itemsize for entry in entries]
        )
        counts, terms = records["count"].astype(np.int64), records["term"].astype(np.uint64)
        order = terms.argsort(kind="stable")
        fresh = _Run(
            terms[order], (places[order] + first).astype(np.uint32), _narrow(counts[order])
        )
        self._short = self._short.joined(fresh)
        if len(self._short.rows) > max(TAIL, len(self._long.rows) // 4):
            self._long, self._short = self._long.joined(self._short), _NOTHING
        return np.bincount(places, counts, minlength=len(entries)).astype(np.int64)

    def among(self, terms: Sequence[str]) -> list[str]:
        """Return those of many terms that some row holds; they push no others out of what is
        remembered of terms.
        """
        keys = np.array([int.from_bytes(_hashed(term), "big") for term in terms], np.uint64)
        held = _in_order(self._long.terms, keys) | _in_order(self._short.terms, keys)
        return [terms[number] for number in np.flatnonzero(held).tolist()]

    def of(self, terms: Sequence[str]) -> Held:
        """Return the rows that hold these terms, and how often each does."""
        keys = np.array([term_key(term) for term in terms], np.uint64)
        if not len(self._short.terms):
            return self._long.held(keys)
        both = (self._long.held(keys), self._short.held(keys))
        return Held(*(np.concatenate(columns) for columns in zip(*both, strict=True)))

    def renumbered(self, numbers: Rows) -> Postings:
        """Return the lists of the rows that have a new number, which is not below 0."""
        both = self._long.joined(self._short)
        rows = numbers[both.rows]
        kept = rows >= 0
        renumbered: Postings = type(self)()
        renumbered._long = _Run(both.terms[kept], rows[kept].astype(np.uint32), both.counts[kept])
        return renumbered

    def packed(self) -> Sequence[bytes]:
        """Return the lists as bytes, for `unpacked`; they were renumbered just now."""
        keys, lengths = np.unique(self._long.terms, return_counts=True)
        counts, often = self._long.counts, np.flatnonzero(self._long.counts != 1)
        columns = (keys.astype("<u8"), _packed(lengths), _packed(self._long.rows))
        return [
            column.tobytes()
            for column in (*columns, often.astype("<u4"), counts[often].astype("<u4"))
        ]

    @classmethod
    def unpacked(cls, pieces: Sequence[memoryview]) -> Self:
        """Return the lists that `packed` gave."""
        keys = np.frombuffer(pieces[0], "<u8").astype(np.uint64)
        terms = keys.repeat(_unpacked(pieces[1], len(keys)))
        rows, often = (
            _unpacked(pieces[2], len(terms)).astype(np.uint32),
            np.frombuffer(pieces[3], "<u4"),
        )
        values = _narrow(np.frombuffer(pieces[4], "<u4").astype(np.int64))
        counts = np.ones(len(terms), values.dtype)
        counts[often] = values
        postings = cls()
        postings._long = _Run(terms, rows, counts)
        return postings


def _packed(numbers: npt.NDArray[np.integer]) -> Narrow:
    return numbers.astype("<u2" if numbers.max(initial=0) < 2**16 else "<u4")


def _unpacked(packed: memoryview, count: int) -> Narrow:
    return np.frombuffer(packed, "<u4" if len(packed) == 4 * count else "<u2")
