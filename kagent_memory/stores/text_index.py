"""What one scope's memories are searched by, held in memory between calls: terms, places, visibility; no content.

Pure: it is told what the database holds (`sql/index_cache.py`) and answers from that alone. It is kept in columns,
which go to the database and come back as they are (`packed`): a process that never saw the scope loads it at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import partial
from itertools import compress, pairwise
from threading import Lock
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..language.time_words import TIME_TERMS, time_terms_of
from .codec import is_id
from .columns import NONE, Mask, Places, Rows
from .index_rows import (
    COLUMNS,
    NAMED,
    NAMES,
    Columns,
    RawIds,
    each_id,
    features_of,
    id_texts,
    raw_id,
    raw_ids,
    renamed,
    rising,
    ticks,
)
from .postings import Held, Postings, holding, keys_of, spread
from .values import RankFeatures, TermMatrix, TextMatches

NEVER = np.iinfo(np.int64).max
ENTRY_BYTES = 600
SCOPE_BYTES = 4000  # of an index that holds nothing yet
DEAD_AT_LEAST = 500
FEW_TERMS = 64
PACKED_AT_LEAST = 50
PACKED_SHARE = 10
_TIME_KEYS = keys_of(TIME_TERMS)
FORMAT = b"kagent_memory index 2\n"  # count up when the columns, the stemming or the terms for times change


class Entry(NamedTuple):
    """One memory as the index knows it.

    Attributes:
        expires_at: when readers cease to see it; None: never, as with pinned ones.
        postings: its packed terms (`postings.packed`).
    """

    place: RankFeatures
    active: bool
    expires_at: datetime | None
    postings: bytes


class _Seen(NamedTuple):
    """What readers see from one time to another, as long as no memory comes or goes.

    Attributes:
        changes: how many there had been.
        size: how many rows these are.
        length: how many index terms these rows have.
    """

    changes: int
    since: int
    until: int
    rows: Mask
    size: int
    length: int


class ScopeIndex:
    """The index of one scope. A memory that changes takes a new row; its old one is dead.

    Attributes:
        version: the scope's version that it stands at; -1: nothing was loaded yet.
        erased: the scope's version when something was last erased from it.
        loading: held while it takes memories in, and by whoever reads it beside that.
    """

    def __init__(self, erased: int = 0) -> None:
        self.version = -1
        self.erased = erased
        self._count = 0
        self._packed = 0
        self._living = 0
        self._in_order: RawIds = raw_ids(np.zeros(0, COLUMNS))  # of the rows that were packed, which come first
        self._later: dict[bytes, int] = {}  # the living rows after those
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._ids: npt.NDArray[np.object_] = np.empty(0, object)  # by row; None: not asked for yet
        self._texts: dict[str, int] = {}  # the rows of living ones whose ids were asked about
        self._columns: Columns = np.zeros(0, COLUMNS)
        self._rising = True  # later rows have later ids, as long as none was changed
        self._postings = Postings()
        self._standing: tuple[Rows, Rows] | None = None
        self._changes = 0
        self._seen: _Seen | None = None
        self.loading = Lock()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return (
            SCOPE_BYTES
            + self._count * ENTRY_BYTES
            + self._columns.nbytes
            + self._postings.size
            + sum(map(len, self._names))
        )

    @property
    def count(self) -> int:
        """How many memories it knows."""
        return self._living

    @property
    def worn(self) -> bool:
        """Whether so much of it is dead that it should be made anew."""
        dead = self._count - self._living
        return dead > max(DEAD_AT_LEAST, self._living)

    @property
    def is_worth_packing(self) -> bool:
        """Whether 50 rows came since it was packed."""
        return self._count - self._packed >= PACKED_AT_LEAST

    @property
    def outgrown(self) -> bool:
        """Whether a tenth of it came since it was packed."""
        return self.is_worth_packing and self._count - self._packed >= self._packed // PACKED_SHARE

    def packed(self) -> bytes:
        """Return all that it holds of living rows, for `unpacked`; may run beside a `load` on another thread."""
        with self.loading:
            columns, names, postings = self._columns[: self._count].copy(), list(self._names), copy(self._postings)
            self._packed = self._count
        living = np.flatnonzero(columns["alive"])
        living = living[np.lexsort((columns["low"][living], columns["high"][living]))]
        own, used = renamed(columns[living], names)
        texts = json.dumps(used, ensure_ascii=False, separators=(",", ":")).encode()
        pieces = [texts, own.tobytes(), *postings.packed(living, len(columns))]
        return FORMAT + np.array([len(piece) for piece in pieces], "<u8").tobytes() + b"".join(pieces)

    @classmethod
    def unpacked(cls, packed: bytes, *, erased: int, version: int) -> Self | None:
        """Return the index that was packed at this version; None when it is of another format."""
        if not packed.startswith(FORMAT):
            return None
        names, table, *postings = _pieces(packed)
        index = cls(erased)
        for name in json.loads(bytes(names)):
            index._number(name)
        index._columns = np.frombuffer(bytearray(table), COLUMNS)
        if not rising(index._columns):
            return None
        index._in_order = raw_ids(index._columns)
        index._count = index._living = index._packed = len(index._columns)
        index._ids = np.empty(index._count, object)
        index._postings = Postings.unpacked(postings)
        index.version = version
        return index

    def leave(self, ids: Sequence[str]) -> None:
        """Lets go of all memories but these, with their terms: the others were erased."""
        there = set(each_id(raw_id(*ids)))
        with self.loading:
            columns = self._columns[: self._count]
            living = each_id(raw_ids(columns[columns["alive"]]).tobytes())
            self._packed = 0  # what was packed is erased with them
            self._discard([id for id in living if id not in there])

    def discard(self, ids: Iterable[str]) -> None:
        """Lets go of these memories, with their terms: they were erased."""
        with self.loading:
            raw = each_id(raw_id(*set(ids)))
            self._packed = 0 if raw else self._packed
            self._discard([id for id, row in zip(raw, self._living_rows(b"".join(raw)), strict=True) if row >= 0])

    def _discard(self, ids: Sequence[bytes]) -> None:
        if not ids:
            return
        rows = self._living_rows(b"".join(ids))
        self._columns["alive"][rows] = False
        for row, id in zip(rows, ids, strict=True):
            self._later.pop(id, None)
            self._texts.pop(self._ids[row], None)
            self._ids[row] = None
        self._living -= len(rows)
        self._postings = self._postings.where(self._columns["alive"][: self._count])
        self._changes += 1

    def _living_rows(self, ids: bytes) -> list[int]:
        """The rows of ids whose bytes follow each other; -1: there is none, or it is dead."""
        wanted = np.frombuffer(ids, self._in_order.dtype)
        rows = np.full(len(wanted), -1)
        if len(self._in_order):
            near = np.minimum(self._in_order.searchsorted(wanted), len(self._in_order) - 1)
            rows = np.where((self._in_order[near] == wanted) & self._columns["alive"][near], near, -1)
        found: list[int] = rows.tolist()
        return [self._later.get(id, row) for id, row in zip(each_id(ids), found, strict=True)] if self._later else found

    def load(self, entries: Sequence[Entry]) -> None:
        """Takes in memories that are new or have changed; the same again changes nothing that shows."""
        if entries:
            with self.loading:
                self._load(entries)

    def _load(self, entries: Sequence[Entry]) -> None:
        first, places = self._count, [entry.place for entry in entries]
        lengths = self._postings.add(first, [entry.postings for entry in entries])
        if (needed := first + len(entries)) > len(self._columns):
            size = max(needed, len(self._columns) * 3 // 2)
            columns, texts = np.zeros(size, COLUMNS), np.empty(size, object)
            columns[: len(self._columns)], texts[: len(self._ids)] = self._columns, self._ids
            self._columns, self._ids = columns, texts
        ids = raw_id(*(place.id for place in places))
        fresh = self._columns[first:needed]
        halves = np.frombuffer(ids, ">u8")
        fresh["high"], fresh["low"] = halves[0::2], halves[1::2]
        fresh["length"] = lengths
        fresh["active"] = [entry.active for entry in entries]
        fresh["expires"] = [NEVER if entry.expires_at is None else ticks(entry.expires_at) for entry in entries]
        fresh["created"] = [ticks(place.created_at) for place in places]
        fresh["happened"] = [NONE if place.happened_at is None else ticks(place.happened_at) for place in places]
        fresh["position"] = [NONE if place.position is None else place.position for place in places]
        for column in ("importance", "chars", "asks"):
            fresh[column] = [getattr(place, column) for place in places]
        fresh["names_a_time"] = _names_a_time(entries)
        for name, column in zip(NAMES, NAMED, strict=True):
            fresh[column] = [self._number(getattr(place, name)) for place in places]
        self._rising = self._rising and rising(self._columns[max(0, first - 1) : needed])
        for row, (id, held) in enumerate(zip(each_id(ids), self._living_rows(ids), strict=True), first):
            if (former := self._later.get(id, held)) >= 0:  # asked again: an id may come twice
                self._columns["alive"][former] = False
                self._texts.pop(self._ids[former], None)
            else:
                self._living += 1
            self._columns["alive"][row] = True
            self._later[id] = row
        self._count = needed
        self._standing = None
        self._changes += 1

    def _number(self, text: str | None) -> int:
        if text is None:
            return -1
        if text not in self._numbers:
            self._numbers[text] = len(self._names)
            self._names.append(text)
        return self._numbers[text]

    def visible(self, now: datetime, *, superseded: bool = False, among: Iterable[str] | None = None) -> Mask:
        """Which rows readers may see at `now`: of all, or of these ids."""
        columns = self._columns[: self._count]
        if not superseded and among is None:
            return self._seen_at(ticks(now)).rows
        seen: Mask = columns["alive"] & (columns["expires"] > ticks(now))
        if not superseded:
            seen &= columns["active"]
        if among is not None:
            chosen = np.zeros(len(seen), bool)
            chosen[self._among(among)] = True
            seen &= chosen
        return seen

    def _seen_at(self, ticks: int) -> _Seen:
        """What readers see at a time, worked out once until something changes or expires."""
        held, changes = self._seen, self._changes  # told first: what changes meanwhile is not in what is kept
        if held is not None and held.changes == changes and held.since <= ticks < held.until:
            return held
        columns = self._columns[: self._count]
        expires = columns["expires"]
        rows: Mask = columns["alive"] & columns["active"] & (expires > ticks)
        rows.flags.writeable = False
        size, length = int(rows.sum()), int(columns["length"][rows].sum())
        self._seen = _Seen(changes, ticks, int(expires[rows].min(initial=NEVER)), rows, size, length)
        return self._seen

    def hidden(self, visible: Mask) -> int:
        """How many memories are not among these rows."""
        return self._living - self._counted(visible)[0]

    def _counted(self, visible: Mask) -> tuple[int, int]:
        """How many these rows are, and how many index terms they have."""
        if (seen := self._seen) is not None and seen.rows is visible:
            return seen.size, seen.length
        return int(visible.sum()), int(self._columns["length"][: len(visible)][visible].sum())

    def ids(self, visible: Mask) -> list[str]:
        """The ids of these rows."""
        return self._ids_of(np.flatnonzero(visible))

    def _ids_of(self, rows: Rows) -> list[str]:
        found = self._ids[rows].tolist()
        if None in found:
            fresh: list[int] = rows[[id is None for id in found]].tolist()
            self._ids[fresh] = texts = id_texts(raw_ids(self._columns[fresh]).tobytes())
            alive = self._columns["alive"][fresh].tolist()
            self._texts.update(zip(compress(texts, alive), compress(fresh, alive), strict=True))
            found = self._ids[rows].tolist()
        return found

    def shown(self, visible: Mask, ids: Iterable[str] | None = None) -> set[str]:
        """Which of these memories, or of all, are among these rows."""
        if ids is None:
            return set(self.ids(visible))
        rows = self._rows_of(ids := list(ids))
        return {id for id in ids if (row := rows.get(id)) is not None and visible[row]}

    def search(self, terms: Sequence[str], visible: Mask, limit: int) -> TextMatches:
        """What `View.text` promises, of these rows."""
        terms = list(dict.fromkeys(terms))
        known = terms if len(terms) <= FEW_TERMS else self._postings.among(terms)
        held = self._postings.of(known)
        documents, length = self._counted(visible)
        if documents < self._count:
            held = held.where(visible[held.rows])
        often = np.bincount(held.terms, minlength=len(known))
        counted = dict(zip(known, often.tolist(), strict=True))
        return TextMatches(
            documents=documents,
            average_length=length / documents if documents else 0.0,
            frequencies={term: counted[term] for term in known if counted[term]},
            matches=self._rarest(known, held, often, limit),
            version=self.version,
        )

    def search_visible(
        self, terms: Sequence[str], limit: int, now: datetime, *, superseded: bool, among: Iterable[str] | None
    ) -> TextMatches:
        """`search` of the rows that are `visible`. May run beside a `load` on another thread."""
        with self.loading:
            return self.search(terms, self.visible(now, superseded=superseded, among=among), limit)

    def _rarest(self, terms: Sequence[str], held: Held, often: Rows, limit: int) -> TermMatrix:
        if not len(held.rows) or limit <= 0:
            return TermMatrix((), (), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        weights = np.bincount(held.rows, 1 / often[held.terms], minlength=self._count).astype(np.float64)
        weights = weights.round(12)  # so that 1/2 and 1/3 + 1/6 tie whatever order they were added in
        best = weights.nonzero()[0]
        if (over := len(best) - limit) > 0:
            worth = weights[best]
            best = best[worth >= np.partition(worth, over)[over]]
        if not self._rising:
            best = self._by_id(best)
        best = best[weights[best].argsort(kind="stable")[::-1]][:limit]  # those that tie, later ids first
        number = np.full(self._count, len(best))  # of the others, which share a row that is left aside
        number[best] = np.arange(len(best))
        counts = np.zeros((len(best) + 1, len(terms)), np.int64)
        counts[number[held.rows], held.terms] = held.counts
        found = [place for place, times in enumerate(often.tolist()) if times]
        lengths = self._columns["length"][best].astype(np.int64)
        return TermMatrix(self._ids_of(best), [terms[place] for place in found], lengths, counts[:-1, found])

    def places(self, ids: Iterable[str], reach: int, now: datetime) -> Places:
        """What `View.features` promises. May run beside a `load` on another thread."""
        with self.loading:
            visible = self.visible(now)
            among = self._among(ids)
            among = among[visible[among]]
            chosen = np.zeros(len(visible), bool)
            chosen[among] = True
            if reach > 0:
                chosen[self._around(among, reach)] = True
            found = np.flatnonzero(chosen & visible)
            rows = found if self._rising else self._by_id(found)
            own, named, names = self._columns[rows], self._ids_of(rows), self._names
            sessions = own["session"].astype(np.int64)
            if (empty := self._numbers.get("")) is not None:
                sessions[sessions == empty] = -1
            authors = own["author"].astype(np.int64)
            placed, chars = own["position"].astype(np.int64), own["chars"].astype(np.int64)
            made = partial(features_of, named, own, names)
            asks, names_a_time = own["asks"], own["names_a_time"]
            return Places(named, sessions, placed, authors, names, chars, asks, names_a_time, made)

    def _by_id(self, rows: Rows) -> Rows:
        return rows[np.lexsort((self._columns["low"][rows], self._columns["high"][rows]))]

    def _among(self, ids: Iterable[str]) -> Rows:
        """The rows of these ids, as far as they are known."""
        rows = [*map(self._texts.get, ids := list(ids))]
        if None in rows:
            known = self._rows_of(ids)
            rows = [known[id] for id in ids if id in known]
        return np.array(rows, np.int64)

    def _rows_of(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The rows of living memories, of these ids at least."""
        if fresh := [id for id in ids if id not in self._texts and is_id(id)]:
            for id, row in zip(fresh, self._living_rows(raw_id(*fresh)), strict=True):
                if row >= 0:
                    self._ids[row], self._texts[id] = id, row
        return self._texts

    def _around(self, rows: Rows, reach: int) -> Rows:
        """The rows at most so far from one of these in their sessions, dead ones included."""
        if self._standing is None:
            columns = self._columns[: self._count]
            placed = np.flatnonzero((columns["session"] >= 0) & (columns["position"] != NONE))
            keys = self._keys(placed)
            order = keys.argsort(kind="stable")
            self._standing = placed[order], keys[order]
        standing, keys = self._standing
        placed = rows[(self._columns["session"][rows] >= 0) & (self._columns["position"][rows] != NONE)]
        if not len(placed):
            return placed
        own = self._keys(placed)
        starts, ends = keys.searchsorted(own - reach, "left"), keys.searchsorted(own + reach, "right")
        lengths = ends - starts
        found = standing[spread(starts, lengths)]
        sessions = self._columns["session"]
        return found[sessions[found] == np.repeat(sessions[placed], lengths)]

    def _keys(self, rows: Rows) -> Rows:
        # one key a place, 2^32 from the next session's; that of another session in reach is left out when it is found
        return (self._columns["session"][rows].astype(np.int64) << 32) + self._columns["position"][rows]


def _pieces(packed: bytes) -> list[memoryview]:
    """What an index was packed from."""
    count = 2 + Postings.PARTS
    ends = np.frombuffer(packed, "<u8", count, len(FORMAT)).cumsum() + (len(FORMAT) + 8 * count)
    return [memoryview(packed)[begins:ends] for begins, ends in pairwise((len(FORMAT) + 8 * count, *ends.tolist()))]


def _names_a_time(entries: Sequence[Entry]) -> Mask:
    """Whether a memory's terms name a time, those of its author's name aside."""
    found = holding([entry.postings for entry in entries], _TIME_KEYS)
    for row in np.flatnonzero(found).tolist():
        if own := time_terms_of(entries[row].place.author):
            found[row] = holding([entries[row].postings], keys_of(TIME_TERMS - own))[0]
    return found
