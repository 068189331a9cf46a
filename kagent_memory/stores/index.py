"""An in-memory index of one scope's memories: terms, features and visibility, but no content.

The index does no I/O: `stores.sql.index_cache` tells it what the database holds. It can be packed
and stored in the database, so that a process new to the scope loads it at once.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from io import BytesIO
from itertools import compress
from typing import NamedTuple, Self

import numpy as np
from typing_extensions import override

from ..language.dates import TIME_TERMS
from ..language.preferences import PREFERENCE_TERM
from ..language.tokenizer import is_question
from ..records import Memory
from .columns import (
    COLUMNS,
    NEVER,
    NO_SESSION,
    NONE,
    Columns,
    Floats,
    Mask,
    Rows,
    best,
    spots_of,
    ticks,
)
from .postings import Postings, keys_of, spread
from .values import TermMatrix, TextMatches

ENTRY_BYTES = 360
# the cost of indexing a memory, in characters of other work in threads
ENTRY_WEIGHT = 20
SCOPE_BYTES = 4000  # of an empty index
_TIME_KEYS = keys_of(TIME_TERMS)
_PREFERENCE_KEY = keys_of([PREFERENCE_TERM])[0]
# increase when the columns, the stemming or the terms for times change
FORMAT = b"kagent_memory index 9\n"
_HEAD_BYTES = len(FORMAT) + 4  # the format and a checksum of the rest


class Entry(NamedTuple):
    """The index entry of one memory.

    Attributes:
        id: the id of the memory.
        session_id: the session that it was learned from, if known.
        position: its position in that session, if known.
        author: who said it, if known.
        created_at: when it was saved.
        happened_at: when it happened, if known.
        chars: the length of its content.
        asks: True if its content ends with a question mark (?, ？ or ؟) and optional white space.
        expires_at: when it becomes invisible; None: never, as for pinned memories.
        active: True if searches see it until then.
        turn: True for a kept turn, which is not a memory of its own.
        postings: its packed terms (`postings.packed`).
    """

    id: str
    session_id: str | None
    position: int | None
    author: str | None
    created_at: datetime
    happened_at: datetime | None
    chars: int = 0
    asks: bool = False
    expires_at: datetime | None = None
    active: bool = True
    turn: bool = False
    postings: bytes = b""


def entry_of(memory: Memory, postings: bytes, *, active: bool) -> Entry:
    """Return the index entry of a memory; see `Entry`."""
    return Entry(
        id=memory.id,
        session_id=memory.session_id,
        position=memory.position,
        author=memory.author,
        created_at=memory.created_at,
        happened_at=memory.happened_at,
        chars=len(memory.content),
        asks=is_question(memory.content),
        expires_at=None if memory.pinned else memory.expires_at,
        active=active,
        turn=memory.state == "source",
        postings=postings,
    )


@dataclass(frozen=True)
class ScopeIndex:
    """The immutable index of one scope.

    Attributes:
        ids: the ids of its memories in order; the other attributes share their row numbers.
        columns: the features for ranking, and the visibility (`COLUMNS`).
        authors: the authors.
        postings: the terms, in order of their keys.
    """

    ids: list[str] = field(default_factory=list[str])
    columns: Columns = field(default_factory=lambda: np.empty(0, COLUMNS))
    authors: Sequence[str | None] = ()
    postings: Postings = field(default_factory=lambda: Postings.unpacked(()))

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        own = len(self.ids) * ENTRY_BYTES + self.columns.nbytes + self.postings.size
        return SCOPE_BYTES + own

    def packed(self) -> bytes:
        """Return the index as bytes for `unpacked`."""
        texts = json.dumps([self.ids, self.authors], ensure_ascii=False).encode()
        arrays = {"texts": np.frombuffer(texts, np.uint8), "columns": self.columns}
        file = BytesIO()
        np.savez_compressed(file, **arrays, **self.postings._asdict())
        packed = file.getvalue()
        return _head(packed) + packed

    @staticmethod
    def is_packed(packed: bytes) -> bool:
        """Return True if the bytes are an undamaged packed index of this format."""
        return packed.startswith(_head(memoryview(packed)[_HEAD_BYTES:]))

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """Return the index from its packed bytes; of none an empty one."""
        if not packed:
            return cls()
        parts = np.load(BytesIO(packed[_HEAD_BYTES:]))
        ids, authors = json.loads(parts["texts"].tobytes())
        postings = Postings(*(parts[name] for name in Postings._fields))
        return cls(ids, parts["columns"], authors, postings)

    def updated(self, entries: Sequence[Entry], gone: Collection[str] = ()) -> ScopeIndex:
        """Return the index with new and changed memories, without erased ones."""
        added = _indexed([*{entry.id: entry for entry in entries}.values()])
        remaining = np.ones(len(self.ids), bool)
        remaining[self.rows_of([*added.ids, *gone])] = False
        ids = [*compress(self.ids, remaining.tolist()), *added.ids]
        authors = [*compress(self.authors, remaining.tolist()), *added.authors]
        order = sorted(range(len(ids)), key=ids.__getitem__)
        row_numbers = np.argsort(order).astype(np.int32)  # of the new rows
        count = int(remaining.sum())
        new_rows = np.full(len(self.ids), -1, np.int32)
        new_rows[remaining] = row_numbers[:count]
        return ScopeIndex(
            [ids[row] for row in order],
            np.concatenate([self.columns[remaining], added.columns])[order],
            [authors[row] for row in order],
            self.postings.renumbered(new_rows).joined(
                added.postings.renumbered(row_numbers[count:])
            ),
        )

    # -- searches -------------------------------------------------------------------------------

    def visible(
        self, now: datetime, *, superseded: bool = False, among: Iterable[str] | None = None
    ) -> Mask:
        """Return the mask of the rows visible at `now`, among all or these ids."""
        mask: Mask = self.columns["expires"] > ticks(now, NEVER)
        if not superseded:
            mask &= self.columns["active"]
        if among is not None:
            selection = np.zeros_like(mask)
            selection[self.rows_of(among)] = True
            mask &= selection
        return mask

    def ids_of(self, rows: Mask | Rows) -> list[str]:
        """Return the ids of some rows."""
        return [self.ids[row] for row in np.arange(len(self.ids))[rows].tolist()]

    def text(self, terms: Iterable[str], limit: int, visible: Mask) -> TextMatches:
        """Return the answer of `View.text` for the visible rows."""
        terms = list(dict.fromkeys(terms))
        holders = self.holders(terms)
        holders = holders.where(visible[holders.rows])
        counts = np.bincount(holders.terms, minlength=len(terms))
        pairs = zip(terms, counts.tolist(), strict=True)
        frequencies = {term: count for term, count in pairs if count}
        documents = int(np.count_nonzero(visible))
        length = int(self.columns["length"][visible].sum())
        return TextMatches(
            documents=documents,
            average_length=length / documents if documents else 0.0,
            frequencies=frequencies,
            matches=self._rarest([*frequencies], holders, counts, limit),
        )

    def holders(self, terms: Sequence[str]) -> Postings:
        """Return the rows that hold these terms, each by its place among them."""
        return self.postings.of(terms)

    def _rarest(
        self, terms: Sequence[str], holders: Postings, frequencies: Rows, limit: int
    ) -> TermMatrix:
        rarity = 1 / frequencies[holders.terms]
        weights = np.bincount(holders.rows, rarity, minlength=len(self.ids))
        rows = weights.nonzero()[0]
        # rounded, so that 1/2 and 1/3 + 1/6 tie whatever order they were added in
        rows = self.highest(rows, weights[rows].round(12), limit)
        # all other rows share an extra row, dropped below
        number = np.full(len(self.ids), len(rows))
        number[rows] = np.arange(len(rows))
        counts = np.zeros((len(rows) + 1, len(terms)), np.int64)
        counts[number[holders.rows], ((frequencies > 0).cumsum() - 1)[holders.terms]] = (
            holders.counts
        )
        lengths = self.columns["length"][rows].astype(np.int64)
        return TermMatrix(rows, terms, lengths, counts[:-1])

    def newest(
        self,
        limit: int,
        visible: Mask,
        after: datetime | None = None,
        before: datetime | None = None,
    ) -> Rows:
        """Return the newest visible rows, ties by id descending, without kept turns.

        Args:
            limit: the most rows to return.
            visible: the mask of visible rows.
            after: only rows that happened at this time or later.
            before: only rows that happened earlier.
        """
        rows = (visible & ~self.columns["turn"]).nonzero()[0]
        if after is not None or before is not None:
            happened = self.columns["happened"][rows]
            rows = rows[(happened >= ticks(after, NONE + 1)) & (happened < ticks(before, NEVER))]
        return self.highest(rows, self.columns["created"][rows], limit)

    def highest(self, rows: Rows, values: Floats | Rows, limit: int) -> Rows:
        """Return the rows with the highest values, highest first; ties by id descending."""
        return rows[best(values, limit)]

    def near(self, rows: Rows, reach: int, visible: Mask) -> Rows:
        """Return visible rows and their visible neighbours, up to `reach` positions away in the
        same session, in order.
        """
        rows = rows[visible[rows]]
        selection = np.zeros_like(visible)
        selection[rows] = True
        spots, rising, order = self._spots
        targets = spots[rows]
        targets = targets[targets != NONE]
        starts = rising.searchsorted(targets - reach)
        selection[order[spread(starts, rising.searchsorted(targets + reach, "right") - starts)]] = (
            True
        )
        return (selection & visible).nonzero()[0]

    @cached_property
    def _spots(self) -> tuple[Rows, Rows, Rows]:
        return spots_of(self.columns)

    def row_of(self, id: str) -> int:
        """Return the row of a memory, or -1 if it is not indexed."""
        row = bisect_left(self.ids, id)
        return row if self.ids[row : row + 1] == [id] else -1

    def rows_of(self, ids: Iterable[str]) -> Rows:
        """Return the rows of the indexed ones of these ids."""
        rows = np.array([*map(self.row_of, ids)], np.int64)
        return rows[rows >= 0]


@dataclass(frozen=True)
class JoinedIndex(ScopeIndex):
    """The indexes of several scopes joined row by row; their sessions are kept apart.

    Ids are sorted only within each part, and may occur in several: look up rows in the parts.
    """

    parts: Sequence[tuple[int, ScopeIndex]] = ()

    @classmethod
    def of(cls, indexes: Sequence[ScopeIndex], of_scope: int) -> ScopeIndex:
        """Return one index of all, a single one unchanged; each scope has `of_scope` of them."""
        if len(indexes) == 1:
            return indexes[0]
        ids, authors = list[str](), list[str | None]()
        columns = np.concatenate([np.empty(0, COLUMNS), *(index.columns for index in indexes)])
        parts: list[tuple[int, ScopeIndex]] = []
        for number, index in enumerate(indexes):
            parts.append((len(ids), index))
            sessions = columns["session"][len(ids) :][: len(index.ids)]
            # beyond all positions
            sessions[sessions != NO_SESSION] += number // of_scope << 32
            ids += index.ids
            authors += index.authors
        return cls(ids, columns, authors, parts=parts)

    @override
    def holders(self, terms: Sequence[str]) -> Postings:
        lists = [(start, part.holders(terms)) for start, part in self.parts]
        columns = zip(
            *(holders._replace(rows=holders.rows + start) for start, holders in lists), strict=True
        )
        return Postings(*map(np.concatenate, columns))

    @override
    def highest(self, rows: Rows, values: Floats | Rows, limit: int) -> Rows:
        # ties by time, or those of the last scope would crowd out the others
        order = np.lexsort((self.columns["created"][rows], values))
        return rows[order[::-1][:limit]]


def _indexed(entries: Sequence[Entry]) -> ScopeIndex:
    """Return the index of these memories alone, in their order."""
    rows = [
        (
            NO_SESSION,
            NONE if entry.position is None else entry.position,
            ticks(entry.created_at, NONE),
            ticks(entry.happened_at, NONE),
            entry.chars,
            entry.asks,
            False,
            False,
            0,
            ticks(entry.expires_at, NEVER),
            entry.active,
            entry.turn,
        )
        for entry in entries
    ]
    columns = np.array(rows, COLUMNS)
    has_session = [bool(entry.session_id) for entry in entries]
    sessions = keys_of(entry.session_id or "" for entry in entries).astype(np.int64)
    columns["session"] = np.where(has_session, sessions, NO_SESSION)
    postings = Postings.unpacked([entry.postings for entry in entries])
    columns["length"] = np.bincount(postings.rows, postings.counts, minlength=len(entries))
    timed = postings.where(np.isin(postings.terms, _TIME_KEYS))
    columns["names_a_time"] = np.bincount(timed.rows, minlength=len(entries)) > 0
    columns["prefers"][postings.where(postings.terms == _PREFERENCE_KEY).rows] = True
    authors = [entry.author for entry in entries]
    return ScopeIndex([entry.id for entry in entries], columns, authors, postings)


def _head(packed: bytes | memoryview) -> bytes:
    """Return the head of a packed index: its format and a checksum."""
    return FORMAT + zlib.crc32(packed).to_bytes(4, "big")
