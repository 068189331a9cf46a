"""The postings of a text search, packed, and which memories they put first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Held
from .decoding import id_text

RECORD = np.dtype([("high", ">u8"), ("low", ">u8"), ("count", ">i4"), ("length", ">i4")])


def rarest(postings: Mapping[str, bytes], limit: int) -> Held:
    """Memory id → (length, {term: count}) of the `limit` memories with the highest sum of 1/frequency.

    `postings`: term → for every visible memory that holds it 24 bytes: id (16), count (4), length (4), big endian.
    Ties by id, later ids first.
    """
    terms = sorted(postings)
    if not terms or limit <= 0:
        return Held((), (), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
    blocks = [np.frombuffer(postings[term], RECORD) for term in terms]
    records = np.concatenate(blocks)
    owner, first = _numbered(records)
    weights = np.bincount(owner, np.concatenate([np.full(len(block), 1 / len(block)) for block in blocks]))
    # Rounded, so that 1/2 and 1/3 + 1/6 tie whatever order they were added in.
    best = np.lexsort((np.arange(len(weights)), weights.round(12)))[::-1][:limit]
    return _collected(terms, blocks, records, owner, first, best)


def _numbered(records: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    # Each record's memory as a number that grows with the id, and the first record of each memory.
    high, low = records["high"].astype(np.uint64), records["low"].astype(np.uint64)
    order = np.lexsort((low, high))
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
    owner = np.empty(len(order), dtype=np.intp)
    owner[order] = np.cumsum(fresh) - 1
    return owner, order[fresh]


def _collected(
    terms: list[str],
    blocks: list[npt.NDArray[Any]],
    records: npt.NDArray[Any],
    owner: npt.NDArray[np.intp],
    first: npt.NDArray[np.intp],
    best: npt.NDArray[np.intp],
) -> Held:
    rank = np.full(len(first), -1)
    rank[best] = np.arange(len(best))
    columns = np.repeat(np.arange(len(terms)), [len(block) for block in blocks])
    rows = rank[owner]
    kept = rows >= 0
    counts = np.zeros((len(best), len(terms)), dtype=np.int64)
    counts[rows[kept], columns[kept]] = records["count"][kept]
    heads = records[first[best]]
    return Held(_ids(heads), terms, heads["length"].astype(np.int64), counts)


def _ids(heads: npt.NDArray[Any]) -> list[str]:
    """The ids as UUID text."""
    pairs = zip(heads["high"].tolist(), heads["low"].tolist(), strict=True)
    return [id_text(f"{high << 64 | low:032x}") for high, low in pairs]
