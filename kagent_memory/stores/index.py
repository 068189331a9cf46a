"""What one scope's memories are searched by, held in memory: terms, places, visibility and vectors;
no content.

Pure: it is told what the database holds (`stores.sql.index_cache`) and answers from that alone. All
but the vectors goes to the database and comes back as it is (`packed`): a process that never saw
the scope loads it at once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from datetime import datetime
from itertools import pairwise
from threading import RLock
from typing import NamedTuple, Self

import numpy as np

from ..language.time_words import TIME_TERMS, time_terms_of
from ..language.tokenizer import is_question
from ..records import SEARCHED, Memory, Vector
from .columns import (
    COLUMNS,
    NEVER,
    NONE,
    Columns,
    Mask,
    Places,
    Rows,
    ids_of,
    is_rising,
    raw_ids,
    ticks,
)
from .postings import Held, Postings, holding, keys_of, spread
from .values import RankFeatures, TermMatrix, TextMatches
from .vectors import Halves, VectorColumn

ENTRY_BYTES = 300
SCOPE_BYTES = 4000  # of an index that holds nothing yet
DEAD_AT_LEAST = 500
FEW_TERMS = 64
PACKED_AT_LEAST = 50
PACKED_SHARE = 10
_TIME_KEYS = keys_of(TIME_TERMS)
# count up when the columns, the stemming or the terms for times change
FORMAT = b"kagent_memory index 3\n"

Nearest = list[tuple[str, float]]


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


def entry_of(memory: Memory, postings: bytes) -> Entry:
    """Return a memory as the index knows it."""
    place = RankFeatures(
        id=memory.id,
        session_id=memory.session_id,
        position=memory.position,
        author=memory.author,
        importance=memory.importance,
        created_at=memory.created_at,
        happened_at=memory.happened_at,
        chars=len(memory.content),
        asks=is_question(memory.content),
    )
    return Entry(
        place, memory.state in SEARCHED, None if memory.pinned else memory.expires_at, postings
    )


class Stand(NamedTuple):
    """What a scope's row says: by it an index tells whether it holds what the database holds.

    Attributes:
        salt: of the row: a scope that was erased and made anew counts its versions from the
            beginning.
        version: how often its memories were written to.
        erased: the version when something was last erased from it.
        mark: how often its vectors were set, or those of any embedding space dropped.
    """

    salt: bytes
    version: int
    erased: int
    mark: int


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

    Every method may be called from any thread.

    Attributes:
        stand: which state of the scope it holds; None: nothing was loaded yet.
        vectors: by the number of their embedding space.
        packed_count: how many of its rows are in the database, packed.
        loads: how often memories were taken in.
    """

    def __init__(self, stand: Stand | None = None) -> None:
        self.stand = stand
        self.vectors: dict[int, VectorColumn] = {}
        self.packed_count = 0
        self.loads = 0
        self._count = 0
        self._ids: list[str] = []  # by row; "": it is dead
        self._rows: dict[str, int] = {}  # the living ones
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._columns: Columns = np.zeros(0, COLUMNS)
        self._rising = True  # later rows have later ids, as long as none was changed
        self._postings = Postings()
        self._standing: tuple[Rows, Rows] | None = None
        self._changes = 0
        self._seen: _Seen | None = None
        self._lock = RLock()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        vectors = sum(column.size for column in [*self.vectors.values()])
        names = sum(map(len, self._names))
        own = self._count * ENTRY_BYTES + self._columns.nbytes + self._postings.size
        return SCOPE_BYTES + own + names + vectors

    @property
    def count(self) -> int:
        """How many memories it knows."""
        return len(self._rows)

    @property
    def is_worn(self) -> bool:
        """Whether so much of it is dead that it should be compacted."""
        return self._count - self.count > max(DEAD_AT_LEAST, self.count)

    @property
    def is_worth_packing(self) -> bool:
        """Whether 50 rows came since it was packed."""
        return self._count - self.packed_count >= PACKED_AT_LEAST

    @property
    def is_outgrown(self) -> bool:
        """Whether a tenth of it came since it was packed."""
        return (
            self.is_worth_packing
            and self._count - self.packed_count >= self.packed_count // PACKED_SHARE
        )

    # -- as bytes -------------------------------------------------------------------------------

    def packed(self) -> bytes:
        """Return all that it holds of living rows but for their vectors, for `unpacked`."""
        with self._lock:
            taken: ScopeIndex = copy(self)
            taken.vectors, taken._lock = {}, RLock()
            taken._columns, taken._ids, taken._names = (
                self._columns.copy(),
                list(self._ids),
                list(self._names),
            )
            taken._postings = copy(self._postings)
            self.packed_count = self._count
        taken.compact()
        used = np.unique([taken._columns["session"], taken._columns["author"]])
        used = used[used >= 0]
        numbers = np.full(len(taken._names) + 1, -1)  # the last stands for none, which is -1
        numbers[used] = np.arange(len(used))
        for column in ("session", "author"):
            taken._columns[column] = numbers[taken._columns[column]]
        names = json.dumps(
            [taken._names[number] for number in used.tolist()], ensure_ascii=False
        ).encode()
        pieces = [names, taken._columns.tobytes(), *taken._postings.packed()]
        return (
            FORMAT + np.array([len(piece) for piece in pieces], "<u8").tobytes() + b"".join(pieces)
        )

    @staticmethod
    def is_packed(packed: bytes) -> bool:
        """Return True if these are the bytes of a packed index, of today's format."""
        return packed.startswith(FORMAT)

    @classmethod
    def unpacked(cls, packed: bytes, stand: Stand) -> Self:
        """Return the index that was packed when the scope stood there."""
        count = 2 + Postings.PARTS
        first = len(FORMAT) + 8 * count
        ends = np.frombuffer(packed, "<u8", count, len(FORMAT)).cumsum() + first
        names, table, *postings = (
            memoryview(packed)[begin:end] for begin, end in pairwise((first, *ends.tolist()))
        )
        index = cls(stand)
        index._names = json.loads(bytes(names))
        index._numbers = {name: number for number, name in enumerate(index._names)}
        index._columns = np.frombuffer(bytearray(table), COLUMNS)
        index._ids = ids_of(index._columns)
        index._count = index.packed_count = len(index._ids)
        index._rows = dict(zip(index._ids, range(index._count), strict=True))
        index._postings = Postings.unpacked(postings)
        return index

    def compact(self) -> None:
        """Let go of dead rows, and put the others in the order of their ids."""
        with self._lock:
            living = self._by_id(np.flatnonzero(self._columns["alive"][: self._count]))
            numbers = np.full(self._count, -1)
            numbers[living] = np.arange(len(living))
            self._columns = self._columns[living]
            self._ids = self._ids_of(living)
            self._rows = dict(zip(self._ids, range(len(living)), strict=True))
            self._postings = self._postings.renumbered(numbers)
            for column in self.vectors.values():
                column.renumber(numbers)
            self._count, self._rising, self._standing = len(living), True, None
            self.packed_count = min(self.packed_count, self._count)
            self._changes += 1

    # -- what the database holds ----------------------------------------------------------------

    def load(self, entries: Sequence[Entry]) -> None:
        """Take in memories that are new or have changed; the same again changes nothing that
        shows.
        """
        if not entries:
            return
        with self._lock:
            first, last = self._count, self._count + len(entries)
            self._reserve(last)
            self._fill(self._columns[first:last], entries)
            self._columns["length"][first:last] = self._postings.add(
                first, [entry.postings for entry in entries]
            )
            self._rising = self._rising and is_rising(self._columns[max(0, first - 1) : last])
            for row, entry in enumerate(entries, first):
                id = entry.place.id
                if (former := self._rows.get(id)) is not None:
                    self._columns["alive"][former] = False
                    self._ids[former] = ""
                self._rows[id] = row
                self._ids.append(id)
            self._count, self._standing = last, None
            self._changes += 1
            self.loads += 1
            for column in self.vectors.values():
                column.mark = None

    def _reserve(self, count: int) -> None:
        if count > len(self._columns):
            columns = np.zeros(max(count, len(self._columns) * 3 // 2), COLUMNS)
            columns[: self._count] = self._columns[: self._count]
            self._columns = columns

    def _fill(self, columns: Columns, entries: Sequence[Entry]) -> None:
        places = [entry.place for entry in entries]
        halves = np.frombuffer(raw_ids("".join(place.id for place in places)), ">u8")
        columns["high"], columns["low"] = halves[0::2], halves[1::2]
        columns["alive"] = True
        columns["active"] = [entry.active for entry in entries]
        columns["expires"] = [
            NEVER if entry.expires_at is None else ticks(entry.expires_at) for entry in entries
        ]
        columns["created"] = [ticks(place.created_at) for place in places]
        columns["happened"] = [
            NONE if place.happened_at is None else ticks(place.happened_at) for place in places
        ]
        columns["position"] = [
            NONE if place.position is None else place.position for place in places
        ]
        for column in ("importance", "chars", "asks"):
            columns[column] = [getattr(place, column) for place in places]
        columns["session"] = [self._number(place.session_id) for place in places]
        columns["author"] = [self._number(place.author) for place in places]
        columns["names_a_time"] = _names_a_time(entries)

    def _number(self, text: str | None) -> int:
        if not text:
            return -1
        number = self._numbers.setdefault(text, len(self._names))
        if number == len(self._names):
            self._names.append(text)
        return number

    def put_vectors(self, column: VectorColumn, ids: str, vectors: Halves) -> None:
        """Set vectors of memories, whose ids follow each other; those that it does not know are
        left aside.
        """
        with self._lock:
            rows = self._rows_of(ids[start : start + 36] for start in range(0, len(ids), 36))
            column.put(rows[rows >= 0], vectors[rows >= 0] if (rows < 0).any() else vectors)

    def lacking(self, column: VectorColumn) -> list[str]:
        """Return the ids of the memories that have no vector there."""
        with self._lock:
            lacks = self._columns["alive"][: self._count] & ~column.present(self._count)
            return self._ids_of(np.flatnonzero(lacks))

    def keep(self, ids: Iterable[str]) -> None:
        """Let go of all memories but these, with their terms and vectors: the others were
        erased.
        """
        with self._lock:
            self.packed_count = 0  # what was packed is erased with them
            self.discard(self._rows.keys() - set(ids))

    def discard(self, ids: Collection[str]) -> None:
        """Let go of these memories, with their terms and vectors: they were erased."""
        with self._lock:
            self.packed_count = 0 if ids else self.packed_count
            gone = np.array([self._rows.pop(id) for id in ids if id in self._rows], np.int64)
            if not len(gone):
                return
            self._columns["alive"][gone] = False
            for row in gone.tolist():
                self._ids[row] = ""
            kept = self._columns["alive"][: self._count]
            self._postings = self._postings.renumbered(np.where(kept, np.arange(self._count), -1))
            for column in self.vectors.values():
                column.remove(gone)
            self._changes += 1

    # -- searches -------------------------------------------------------------------------------

    def text(
        self,
        terms: Sequence[str],
        limit: int,
        now: datetime,
        *,
        superseded: bool = False,
        among: Iterable[str] | None = None,
    ) -> TextMatches:
        """Return what `View.text` promises, of the memories that readers may see at `now` or of
        these among them.
        """
        with self._lock:
            visible = self.visible(now, superseded=superseded, among=among)
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
            )

    def nearest(
        self,
        space_number: int,
        queries: Sequence[Vector],
        limit: int,
        now: datetime,
        *,
        superseded: bool = False,
        among: Iterable[str] | None = None,
    ) -> list[Nearest]:
        """Return what `View.nearest` promises, of the vectors that it holds."""
        with self._lock:
            visible = self.visible(now, superseded=superseded, among=among)
            if (column := self.vectors.get(space_number)) is None:
                return [[] for _ in queries]
            answers: list[Nearest] = []
            for query in queries:
                kept = np.asarray(query, np.float16).astype(np.float32)  # as a database compares it
                rows, cosines = column.nearest(kept, visible, limit)
                order = self._order(rows)
                rows, cosines = rows[order], cosines[order]
                # of those that tie, later ids first
                best = cosines.argsort(kind="stable")[::-1][:limit]
                answers.append(
                    list(zip(self._ids_of(rows[best]), cosines[best].tolist(), strict=True))
                )
            return answers

    def features(self, ids: Iterable[str], reach: int, now: datetime) -> Places:
        """Return what `View.features` promises."""
        with self._lock:
            visible = self.visible(now)
            among = self._known(ids)
            among = among[visible[among]]
            chosen = np.zeros(len(visible), bool)
            chosen[among] = True
            if reach > 0:
                chosen[self._around(among, reach)] = True
            rows = self._by_id(np.flatnonzero(chosen & visible))
            own = self._columns[rows]
            sessions, authors, positions, chars = (
                own[column].astype(np.int64)
                for column in ("session", "author", "position", "chars")
            )
            return Places(
                ids=self._ids_of(rows),
                sessions=sessions,
                positions=positions,
                authors=authors,
                chars=chars,
                asks=own["asks"],
                names_a_time=own["names_a_time"],
                importance=own["importance"],
                created=own["created"],
                happened=own["happened"],
                names=self._names,
            )

    def visible(
        self, now: datetime, *, superseded: bool = False, among: Iterable[str] | None = None
    ) -> Mask:
        """Return which rows readers may see at `now`: of all, or of these ids."""
        with self._lock:
            if not superseded and among is None:
                return self._seen_at(ticks(now)).rows
            columns = self._columns[: self._count]
            seen: Mask = columns["alive"] & (columns["expires"] > ticks(now))
            if not superseded:
                seen &= columns["active"]
            if among is not None:
                chosen = np.zeros(len(seen), bool)
                chosen[self._known(among)] = True
                seen &= chosen
            return seen

    def visible_ids(
        self, now: datetime, *, superseded: bool = False, among: Iterable[str] | None = None
    ) -> Sequence[str]:
        """Return the ids of those rows."""
        with self._lock:
            return self._ids_of(
                np.flatnonzero(self.visible(now, superseded=superseded, among=among))
            )

    def _seen_at(self, ticks: int) -> _Seen:
        """Return what readers see at a time, worked out once until something changes or expires."""
        held = self._seen
        if held is not None and held.changes == self._changes and held.since <= ticks < held.until:
            return held
        columns = self._columns[: self._count]
        expires = columns["expires"]
        rows: Mask = columns["alive"] & columns["active"] & (expires > ticks)
        rows.flags.writeable = False
        size, length = int(rows.sum()), int(columns["length"][rows].sum())
        self._seen = _Seen(
            self._changes, ticks, int(expires[rows].min(initial=NEVER)), rows, size, length
        )
        return self._seen

    def _counted(self, visible: Mask) -> tuple[int, int]:
        """Return how many these rows are, and how many index terms they have."""
        if (seen := self._seen) is not None and seen.rows is visible:
            return seen.size, seen.length
        return int(visible.sum()), int(self._columns["length"][: len(visible)][visible].sum())

    def _rarest(self, terms: Sequence[str], held: Held, often: Rows, limit: int) -> TermMatrix:
        if not len(held.rows) or limit <= 0:
            return TermMatrix((), (), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        weights = np.bincount(held.rows, 1 / often[held.terms], minlength=self._count).astype(
            np.float64
        )
        # so that 1/2 and 1/3 + 1/6 tie whatever order they were added in
        weights = weights.round(12)
        best = weights.nonzero()[0]
        if (over := len(best) - limit) > 0:
            worth = weights[best]
            best = best[worth >= np.partition(worth, over)[over]]
        best = self._by_id(best)
        # those that tie, later ids first
        best = best[weights[best].argsort(kind="stable")[::-1]][:limit]
        # of the others, which share a row that is left aside
        number = np.full(self._count, len(best))
        number[best] = np.arange(len(best))
        counts = np.zeros((len(best) + 1, len(terms)), np.int64)
        counts[number[held.rows], held.terms] = held.counts
        found = [place for place, times in enumerate(often.tolist()) if times]
        lengths = self._columns["length"][best].astype(np.int64)
        return TermMatrix(
            self._ids_of(best), [terms[place] for place in found], lengths, counts[:-1, found]
        )

    # -- rows -----------------------------------------------------------------------------------

    def _ids_of(self, rows: Rows) -> list[str]:
        return [*map(self._ids.__getitem__, rows.tolist())]

    def _rows_of(self, ids: Iterable[str]) -> Rows:
        """Return the rows of these ids; -1: there is none."""
        return np.fromiter((self._rows.get(id, -1) for id in ids), np.int64)

    def _known(self, ids: Iterable[str]) -> Rows:
        rows = self._rows_of(ids)
        return rows[rows >= 0]

    def _order(self, rows: Rows) -> Rows:
        if self._rising:
            return rows.argsort(kind="stable")
        return np.lexsort((self._columns["low"][rows], self._columns["high"][rows]))

    def _by_id(self, rows: Rows) -> Rows:
        """Return rising rows in the order of their ids."""
        return rows if self._rising else rows[self._order(rows)]

    def _around(self, rows: Rows, reach: int) -> Rows:
        """Return the rows at most so far from one of these in their sessions, dead ones
        included.
        """
        if self._standing is None:
            columns = self._columns[: self._count]
            placed = np.flatnonzero((columns["session"] >= 0) & (columns["position"] != NONE))
            keys = self._keys(placed)
            order = keys.argsort(kind="stable")
            self._standing = placed[order], keys[order]
        standing, keys = self._standing
        placed = rows[
            (self._columns["session"][rows] >= 0) & (self._columns["position"][rows] != NONE)
        ]
        if not len(placed):
            return placed
        own = self._keys(placed)
        starts, ends = (
            keys.searchsorted(own - reach, "left"),
            keys.searchsorted(own + reach, "right"),
        )
        lengths = ends - starts
        found = standing[spread(starts, lengths)]
        sessions = self._columns["session"]
        return found[sessions[found] == np.repeat(sessions[placed], lengths)]

    def _keys(self, rows: Rows) -> Rows:
        # one key a place, 2^32 from the next session's; that of another session in reach is left
        # out when it is found
        return (self._columns["session"][rows].astype(np.int64) << 32) + self._columns["position"][
            rows
        ]


def _names_a_time(entries: Sequence[Entry]) -> Mask:
    """Return whether each memory's terms name a time, those of its author's name aside."""
    found = holding([entry.postings for entry in entries], _TIME_KEYS)
    for row in np.flatnonzero(found).tolist():
        if own := time_terms_of(entries[row].place.author):
            found[row] = holding([entries[row].postings], keys_of(TIME_TERMS - own))[0]
    return found
