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
    """What `packed` makes of a term that stands once in a memory, as most do."""
    return _hashed(term) + _ONE


def term_key(term: str) -> int:
    """What stands for a term in the index: 64 bits of its BLAKE2b hash.

    In a scope of a million distinct terms two share a key with a chance of 3 in 100 million.
    """
    return int.from_bytes(_once(term)[:_KEY_BYTES], "big")


def packed(counts: Mapping[str, int]) -> bytes:
    """Term → count as 12 bytes a term: its key (8) and the count (4), big endian."""
    return b"".join(
        [
            _once(term) if count == 1 else _once(term)[:_KEY_BYTES] + count.to_bytes(_COUNT_BYTES, "big")
            for term, count in counts.items()
        ]
    )


def keys_of(terms: Iterable[str]) -> Keys:
    """The keys of some terms, in order."""
    return np.sort(np.array([term_key(term) for term in terms], np.uint64))


def holding(entries: Sequence[bytes], keys: Keys) -> npt.NDArray[np.bool_]:
    """Which of these packed entries hold one of the keys, which are in order."""
    terms = np.frombuffer(b"".join(entries), RECORD)["term"].astype(np.uint64)
    places = np.repeat(np.arange(len(entries)), [len(entry) // RECORD.itemsize for entry in entries])
    return np.bincount(places[_in_order(keys, terms)], minlength=len(entries)) > 0


def _in_order(ordered: Keys, keys: Keys) -> npt.NDArray[np.bool_]:
    """Which keys are among others that are in order."""
    if not len(ordered):
        return np.zeros(len(keys), bool)
    return ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys


class Held(NamedTuple):
    """Which rows hold which of some terms, side by side: the term's number, the row, and how often."""

    terms: Rows
    rows: Rows
    counts: Rows

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """Some of them."""
        return type(self)(self.terms[kept], self.rows[kept], self.counts[kept])


class _Run(NamedTuple):
    """Entries side by side: those of a key lie together, from one of `starts` on and so many as one of `lengths`.

    Attributes:
        keys: of terms, in order; one whose entries lie in several places comes several times.
    """

    keys: Keys
    starts: Rows
    lengths: Rows
    rows: Narrow
    counts: Narrow

    @property
    def size(self) -> int:
        return sum(column.nbytes for column in self)

    @classmethod
    def of(cls, terms: Keys, rows: Narrow, counts: Narrow) -> Self:
        """Entries in the order of their terms' keys."""
        starts = np.flatnonzero(np.concatenate(([True], terms[1:] != terms[:-1]))[: len(terms)])
        return cls(terms[starts], starts, np.diff(starts, append=len(terms)), rows, counts)

    @classmethod
    def beside(cls, runs: Sequence[Self]) -> Self:
        """Some runs as one, their entries where they lie: quick, but what looks a key up goes to several places."""
        if len(filled := [run for run in runs if len(run.rows)]) <= 1:
            return filled[0] if filled else runs[0]
        keys = np.concatenate([run.keys for run in filled])
        ends = np.cumsum([len(run.rows) for run in filled])
        starts = np.concatenate([run.starts + end - len(run.rows) for run, end in zip(filled, ends, strict=True)])
        order = keys.argsort(kind="stable")
        lengths = np.concatenate([run.lengths for run in filled])
        rows, counts = (np.concatenate(columns) for columns in zip(*(run[3:] for run in filled), strict=True))
        return cls(keys[order], starts[order], lengths[order], rows, counts)

    def together(self) -> Self:
        """The same with each key once."""
        return self.of(*self.entries())

    def entries(self) -> tuple[Keys, Narrow, Narrow]:
        """The key, the row and the count of each entry, in the order of the keys."""
        places = spread(self.starts, self.lengths)
        return np.repeat(self.keys, self.lengths), self.rows[places], self.counts[places]

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """Those of some rows."""
        terms, rows, counts = self.entries()
        held = kept[rows]
        return self.of(terms[held], rows[held], counts[held])

    def held(self, keys: Keys) -> Held:
        """The entries of some keys, each by its place among them."""
        first, last = self.keys.searchsorted(keys, "left"), self.keys.searchsorted(keys, "right")
        found = spread(first, last - first)
        lengths = self.lengths[found]
        numbers = np.repeat(np.arange(len(keys)), last - first).repeat(lengths)
        places = spread(self.starts[found], lengths)
        return Held(numbers, self.rows[places].astype(np.int64), self.counts[places].astype(np.int64))


def spread(starts: Rows, lengths: Rows) -> Rows:
    """The numbers from each start on, so many as its length."""
    ends = lengths.cumsum()
    return np.arange(ends[-1] if len(ends) else 0) + (starts - ends + lengths).repeat(lengths)


_NOTHING = _Run.of(np.empty(0, np.uint64), np.empty(0, np.uint32), np.empty(0, np.uint8))


_NONE_HELD = _NOTHING.held(np.empty(0, np.uint64))


def _narrow(counts: Rows) -> Narrow:
    return counts.astype(np.uint8 if counts.max(initial=0) < 2**8 else np.uint32)


class Postings:
    """Inverted lists: term key → rows and counts. What comes goes to a short run, which joins the long one once it has
    grown. Their arrays are made anew and never written to, so that a copy of the object is one of what it held.
    """

    PARTS: ClassVar[int] = 5  # that `packed` gives

    def __init__(self) -> None:
        self._long = self._short = _NOTHING

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._long.size + self._short.size

    def add(self, first: int, entries: Sequence[bytes]) -> Rows:
        """Takes in packed terms of the rows `first`, `first` + 1, …; gives the sum of the counts of each."""
        records = np.frombuffer(b"".join(entries), RECORD)
        places = np.repeat(np.arange(len(entries)), [len(entry) // RECORD.itemsize for entry in entries])
        counts, terms = records["count"].astype(np.int64), records["term"].astype(np.uint64)
        order = terms.argsort(kind="stable")
        fresh = _Run.of(terms[order], (places[order] + first).astype(np.uint32), _narrow(counts[order]))
        self._short = _Run.beside([self._short, fresh])
        if len(self._short.rows) > max(TAIL, len(self._long.rows) // 4):
            self._long, self._short = _Run.beside([self._long, self._short]).together(), _NOTHING
        return np.bincount(places, counts, minlength=len(entries)).astype(np.int64)

    def among(self, terms: Sequence[str]) -> list[str]:
        """Those of many terms that some row holds; they push no others out of what is remembered of terms."""
        keys = np.array([int.from_bytes(_hashed(term), "big") for term in terms], np.uint64)
        held = _in_order(self._long.keys, keys) | _in_order(self._short.keys, keys)
        return [terms[number] for number in np.flatnonzero(held).tolist()]

    def of(self, terms: Sequence[str]) -> Held:
        """The rows that hold these terms, and how often each does."""
        keys = np.array([term_key(term) for term in terms], np.uint64)
        held = [run.held(keys) for run in (self._long, self._short) if len(run.rows)]
        if len(held) == 1:
            return held[0]
        return Held(*map(np.concatenate, zip(_NONE_HELD, *held, strict=True)))

    def packed(self, kept: Rows, count: int) -> Sequence[bytes]:
        """The lists of some of so many rows, which are numbered anew by their order: for `unpacked`."""
        number = np.full(count, -1)
        number[kept] = np.arange(len(kept))
        both = _Run.beside([self._long, self._short]).where(number >= 0)
        often = np.flatnonzero(both.counts != 1)
        columns = (both.keys.astype("<u8"), _packed(both.lengths), _packed(number[both.rows]))
        return [column.tobytes() for column in (*columns, often.astype("<u4"), both.counts[often].astype("<u4"))]

    @classmethod
    def unpacked(cls, pieces: Sequence[memoryview]) -> Self:
        """Return the lists that `packed` gave."""
        postings = cls()
        keys = np.frombuffer(pieces[0], "<u8").astype(np.uint64)
        lengths = _unpacked(pieces[1], len(keys)).astype(np.int64)
        size = int(lengths.sum())
        rows, often = _unpacked(pieces[2], size).astype(np.uint32), np.frombuffer(pieces[3], "<u4")
        values = _narrow(np.frombuffer(pieces[4], "<u4").astype(np.int64))
        held = np.ones(size, values.dtype)
        held[often] = values
        postings._long = _Run(keys, lengths.cumsum() - lengths, lengths, rows, held)
        return postings

    def where(self, kept: npt.NDArray[np.bool_]) -> Postings:
        """The lists of some of the rows, numbered as they are."""
        some: Postings = type(self)()
        some._long, some._short = self._long.where(kept), self._short.where(kept)
        return some


def _packed(numbers: Rows) -> npt.NDArray[np.unsignedinteger]:
    return numbers.astype("<u2" if numbers.max(initial=0) < 2**16 else "<u4")


def _unpacked(packed: memoryview, count: int) -> npt.NDArray[np.unsignedinteger]:
    return np.frombuffer(packed, "<u4" if len(packed) == 4 * count else "<u2")
