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

Rows: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = npt.NDArray[np.uint64]


def _hashed(term: str) -> int:
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=1 << 16)
def term_key(term: str) -> int:
    """What stands for a term in the index: 64 bits of its BLAKE2b hash.

    In a scope of a million distinct terms two share a key with a chance of 3 in 100 million.
    """
    return _hashed(term)


def packed(counts: Mapping[str, int]) -> bytes:
    """Term → count as 12 bytes a term: its key (8) and the count (4), big endian."""
    records = np.empty(len(counts), RECORD)
    records["term"] = [term_key(term) for term in counts]
    records["count"] = list(counts.values())
    return records.tobytes()


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
    """Entries side by side, in the order of their terms' keys and then of their rows."""

    terms: Keys
    rows: Rows
    counts: Rows

    @property
    def size(self) -> int:
        return self.terms.nbytes + self.rows.nbytes + self.counts.nbytes

    def joined(self, later: Self) -> Self:
        """These and later ones as one run."""
        if not len(self.terms) or not len(later.terms):
            return self if len(self.terms) else later
        return self.of([self, later])

    @classmethod
    def of(cls, runs: Sequence[Self]) -> Self:
        """Some runs as one."""
        terms, rows = np.concatenate([one.terms for one in runs]), np.concatenate([one.rows for one in runs])
        return cls(terms, rows, np.concatenate([one.counts for one in runs])).in_order()

    def in_order(self) -> Self:
        """The same, brought into order: quick where a few runs follow each other."""
        order = np.argsort(self.terms, kind="stable")
        return type(self)(self.terms[order], self.rows[order], self.counts[order])

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """Those of some rows."""
        held = kept[self.rows]
        return type(self)(self.terms[held], self.rows[held], self.counts[held])

    def spans(self, keys: Keys) -> list[tuple[int, int]]:
        """Where the entries of each key begin and end."""
        first, last = self.terms.searchsorted(keys, "left"), self.terms.searchsorted(keys, "right")
        return list(zip(first.tolist(), last.tolist(), strict=True))


_NOTHING = _Run(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


class Postings:
    """Inverted lists: term key → rows and counts. What comes goes to a short run, which joins the long one once it has
    grown. Their arrays are made anew and never written to, so that a copy of the object is one of what it held.
    """

    PARTS: ClassVar[int] = 4  # that `packed` gives

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
        self._short = self._short.joined(_Run(terms, places + first, counts).in_order())
        if len(self._short.terms) > max(TAIL, len(self._long.terms) // 4):
            self._long, self._short = self._long.joined(self._short), _NOTHING
        return np.bincount(places, counts, minlength=len(entries)).astype(np.int64)

    def among(self, terms: Sequence[str]) -> list[str]:
        """Those of many terms that some row holds; they push no others out of what is remembered of terms."""
        keys = np.array([_hashed(term) for term in terms], np.uint64)
        held = _in_order(self._long.terms, keys) | _in_order(self._short.terms, keys)
        return [terms[number] for number in np.flatnonzero(held).tolist()]

    def of(self, terms: Sequence[str]) -> Held:
        """The rows that hold these terms, and how often each does."""
        keys = np.array([term_key(term) for term in terms], np.uint64)
        rows, counts = list[Rows](), list[Rows]()
        lengths = np.zeros((2, len(terms)), np.int64)
        for number, run in enumerate((self._long, self._short)):
            spans = run.spans(keys) if len(run.terms) else ()
            for term, (first, last) in enumerate(spans):
                if first < last:
                    lengths[number, term] = last - first
                    rows.append(run.rows[first:last])
                    counts.append(run.counts[first:last])
        if not rows:
            return Held(_NOTHING.rows, _NOTHING.rows, _NOTHING.counts)
        numbers = np.repeat(np.arange(lengths.size) % len(terms), lengths.ravel())
        return Held(numbers, np.concatenate(rows), np.concatenate(counts))

    def packed(self, kept: Rows, count: int) -> Sequence[bytes]:
        """The lists of some of so many rows, which are numbered anew by their order: for `unpacked`."""
        number = np.full(count, -1)
        number[kept] = np.arange(len(kept))
        both = self._long.joined(self._short).where(number >= 0)
        distinct, lengths = np.unique(both.terms, return_counts=True)
        narrow = "<u1" if both.counts.max(initial=0) < 2**8 else "<u4"
        columns = ((distinct, "<u8"), (lengths, "<u4"), (number[both.rows], "<u4"), (both.counts, narrow))
        return [column.astype(kind).tobytes() for column, kind in columns]

    @classmethod
    def unpacked(cls, lists: Sequence[Sequence[memoryview]], counts: Sequence[int]) -> Self:
        """The lists that `packed` gave of some parts, whose rows, so many each, follow each other."""
        postings, first = cls(), 0
        runs = [_NOTHING]
        for parts, count in zip(lists, counts, strict=True):
            rows = np.frombuffer(parts[2], "<u4")
            narrow = "<u1" if len(parts[3]) == len(rows) else "<u4"
            terms = np.repeat(np.frombuffer(parts[0], "<u8"), np.frombuffer(parts[1], "<u4")).astype(np.uint64)
            held = np.frombuffer(parts[3], narrow).astype(np.int64)
            runs.append(_Run(terms, rows.astype(np.int64) + first, held))
            first += count
        postings._long = runs[-1] if len(runs) <= 2 else _Run.of(runs)
        return postings

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """The lists of some of the rows, numbered as they are."""
        some = type(self)()
        some._long, some._short = self._long.where(kept), self._short.where(kept)
        return some
