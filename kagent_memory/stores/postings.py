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


class Postings:
    """Inverted lists: term key → rows and counts. Grows at its tail, which is sorted in once it is long. Its
    arrays are made anew and never written to, so that a copy of the object is one of what it held.
    """

    PARTS: ClassVar[int] = 4  # that `packed` gives

    def __init__(self) -> None:
        self._terms: Keys = np.empty(0, np.uint64)
        self._rows: Rows = np.empty(0, np.int64)
        self._counts: Rows = np.empty(0, np.int64)
        self._sorted = 0

    @property
    def size(self) -> int:
        """Bytes held."""
        return self._terms.nbytes + self._rows.nbytes + self._counts.nbytes

    def add(self, first: int, entries: Sequence[bytes]) -> Rows:
        """Takes in packed terms of the rows `first`, `first` + 1, …; gives the sum of the counts of each."""
        records = np.frombuffer(b"".join(entries), RECORD)
        places = np.repeat(np.arange(len(entries)), [len(entry) // RECORD.itemsize for entry in entries])
        counts = records["count"].astype(np.int64)
        self._terms = np.concatenate([self._terms, records["term"].astype(np.uint64)])
        self._rows = np.concatenate([self._rows, places + first])
        self._counts = np.concatenate([self._counts, counts])
        if len(self._terms) - self._sorted > max(TAIL, self._sorted // 4):
            order = np.argsort(self._terms, kind="stable")
            self._terms, self._rows, self._counts = self._terms[order], self._rows[order], self._counts[order]
            self._sorted = len(order)
        return np.bincount(places, counts, minlength=len(entries)).astype(np.int64)

    def among(self, terms: Sequence[str]) -> list[str]:
        """Those of many terms that some row holds; they push no others out of what is remembered of terms."""
        keys = np.array([_hashed(term) for term in terms], np.uint64)
        head, tail = self._terms[: self._sorted], np.sort(self._terms[self._sorted :])
        held = _in_order(head, keys) | _in_order(tail, keys)
        return [terms[number] for number in np.flatnonzero(held).tolist()]

    def of(self, terms: Sequence[str]) -> Held:
        """The rows that hold these terms, and how often each does."""
        keys = np.array([term_key(term) for term in terms], np.uint64)
        head, tail = self._terms[: self._sorted], self._terms[self._sorted :]
        first, last = head.searchsorted(keys, "left"), head.searchsorted(keys, "right")
        lengths = last - first
        numbers = np.repeat(np.arange(len(keys)), lengths)
        found = np.arange(len(numbers)) + np.repeat(first - np.cumsum(lengths) + lengths, lengths)
        if len(tail) and len(keys):
            order = np.argsort(keys)
            spots = np.minimum(keys[order].searchsorted(tail), len(keys) - 1)
            late = np.flatnonzero(keys[order][spots] == tail)
            found = np.concatenate([found, late + self._sorted])
            numbers = np.concatenate([numbers, order[spots[late]]])
        return Held(numbers, self._rows[found], self._counts[found])

    def packed(self, kept: Rows, count: int) -> Sequence[bytes]:
        """The lists of some of so many rows, which are numbered anew by their order: for `unpacked`."""
        number = np.full(count, -1)
        number[kept] = np.arange(len(kept))
        held = number[self._rows] >= 0
        terms, rows, counts = self._terms[held], number[self._rows[held]], self._counts[held]
        order = np.argsort(terms, kind="stable")
        distinct, lengths = np.unique(terms[order], return_counts=True)
        narrow = "<u1" if counts.max(initial=0) < 2**8 else "<u4"
        columns = ((distinct, "<u8"), (lengths, "<u4"), (rows[order], "<u4"), (counts[order], narrow))
        return [column.astype(kind).tobytes() for column, kind in columns]

    @classmethod
    def unpacked(cls, lists: Sequence[Sequence[memoryview]], counts: Sequence[int]) -> Self:
        """The lists that `packed` gave of some parts, whose rows, so many each, follow each other."""
        postings, first = cls(), 0
        columns = [(postings._terms, postings._rows, postings._counts)]
        for parts, count in zip(lists, counts, strict=True):
            rows = np.frombuffer(parts[2], "<u4")
            narrow = "<u1" if len(parts[3]) == len(rows) else "<u4"
            terms = np.repeat(np.frombuffer(parts[0], "<u8"), np.frombuffer(parts[1], "<u4")).astype(np.uint64)
            held = np.frombuffer(parts[3], narrow).astype(np.int64)
            columns.append((terms, rows.astype(np.int64) + first, held))
            first += count
        postings._terms, postings._rows, postings._counts = (np.concatenate(one) for one in zip(*columns, strict=True))
        if len(lists) > 1:
            order = np.argsort(postings._terms, kind="stable")
            postings._terms, postings._rows = postings._terms[order], postings._rows[order]
            postings._counts = postings._counts[order]
        postings._sorted = len(postings._terms)
        return postings

    def where(self, kept: npt.NDArray[np.bool_]) -> Self:
        """The lists of some of the rows, numbered as they are."""
        held, some = kept[self._rows], type(self)()
        some._terms, some._rows, some._counts = self._terms[held], self._rows[held], self._counts[held]
        some._sorted = int(held[: self._sorted].sum())
        return some
