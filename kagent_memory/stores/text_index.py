"""What one scope's memories are searched by, held in memory between calls: terms, places, visibility; no content.

Pure: it is told what the database holds (`sql/index_cache.py`) and answers from that alone. It is kept in columns,
which go to the database and come back as they are (`packed`): a process that never saw the scope loads it at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from copy import copy
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ..language.time_words import TIME_TERMS, time_terms_of
from .codec import id_text, is_id
from .postings import Held, Postings, Rows, holding, keys_of, term_key
from .values import RankFeatures, TermMatrix, TextMatches

NEVER = np.iinfo(np.int64).max
NONE = np.iinfo(np.int64).min
ENTRY_BYTES = 600
DEAD_AT_LEAST = 500
FEW_TERMS = 64
PACKED_AT_LEAST = 50
PACKED_SHARE = 4
_ID_BYTES = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME_KEYS = keys_of(TIME_TERMS)
# what another release packed may tell other terms for times: the format says which
FORMAT = f"kagent_memory index 1 {term_key(' '.join(sorted(TIME_TERMS))):016x}\n".encode()
_COLUMNS = np.dtype(
    [
        ("high", ">u8"),
        ("low", ">u8"),
        ("expires", "<i8"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("position", "<i8"),
        ("importance", "<f8"),
        ("length", "<i4"),
        ("chars", "<i4"),
        ("session", "<i4"),
        ("author", "<i4"),
        ("type", "<i4"),
        ("origin", "<i4"),
        ("active", "?"),
        ("alive", "?"),
        ("asks", "?"),
        ("names_a_time", "?"),
    ]
)
_NAMES = ("session_id", "author", "type", "origin")  # texts that many memories share
_NAMED = ("session", "author", "type", "origin")  # their columns: numbers of those texts; -1: none

Columns: TypeAlias = npt.NDArray[np.void]
Mask: TypeAlias = npt.NDArray[np.bool_]


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
        self._rows: dict[bytes, int] = {}
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._ids: dict[int, str] = {}  # of rows that were asked for, as their features are: made once
        self._texts: dict[str, int] = {}  # the rows of living ones whose ids were asked about
        self._places: dict[int, RankFeatures] = {}
        self._columns: Columns = np.zeros(0, _COLUMNS)
        self._postings = Postings()
        self._standing: tuple[Rows, Rows] | None = None
        self.loading = Lock()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self._count * ENTRY_BYTES + self._columns.nbytes + self._postings.size + sum(map(len, self._names))

    @property
    def count(self) -> int:
        """How many memories it knows."""
        return len(self._rows)

    @property
    def worn(self) -> bool:
        """Whether so much of it is dead that it should be made anew."""
        dead = self._count - len(self._rows)
        return dead > max(DEAD_AT_LEAST, len(self._rows))

    @property
    def outgrown(self) -> bool:
        """Whether so much came since it was packed that it should be packed again."""
        return self._count - self._packed >= max(PACKED_AT_LEAST, self._packed // PACKED_SHARE)

    def packed(self) -> bytes:
        """All that it holds of living rows, for `unpacked`. May run beside a `load` on another thread."""
        with self.loading:
            columns, names, postings = self._columns[: self._count].copy(), list(self._names), copy(self._postings)
            self._packed = self._count
        living = np.flatnonzero(columns["alive"])
        texts = json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode()
        parts = [texts, columns[living].tobytes(), *postings.packed(living, len(columns))]
        return FORMAT + np.array([len(part) for part in parts], "<u8").tobytes() + b"".join(parts)

    @classmethod
    def unpacked(cls, data: bytes, *, erased: int, version: int) -> Self | None:
        """The index that was packed at this version; None when it is of another format."""
        if not data.startswith(FORMAT):
            return None
        start = len(FORMAT) + 8 * (2 + Postings.PARTS)
        parts: list[memoryview] = []
        for length in np.frombuffer(data, "<u8", 2 + Postings.PARTS, len(FORMAT)).tolist():
            parts.append(memoryview(data)[start : start + length])
            start += length
        index = cls(erased)
        index._names = json.loads(bytes(parts[0]))
        index._numbers = {name: number for number, name in enumerate(index._names)}
        index._columns = np.frombuffer(parts[1], _COLUMNS).copy()
        index._count = index._packed = len(index._columns)
        index._rows = {id: row for row, id in enumerate(_ids(index._columns))}
        index._postings = Postings.unpacked(parts[2:])
        index.version = version
        return index

    def load(self, entries: Sequence[Entry]) -> None:
        """Takes in memories that are new or have changed; the same again changes nothing that shows."""
        if entries:
            with self.loading:
                self._load(entries)

    def _load(self, entries: Sequence[Entry]) -> None:
        first, places = self._count, [entry.place for entry in entries]
        lengths = self._postings.add(first, [entry.postings for entry in entries])
        if (needed := first + len(entries)) > len(self._columns):
            columns = np.zeros(max(needed, len(self._columns) * 3 // 2), _COLUMNS)
            columns[: len(self._columns)] = self._columns
            self._columns = columns
        ids = b"".join(bytes.fromhex(place.id.replace("-", "")) for place in places)
        fresh = self._columns[first:needed]
        halves = np.frombuffer(ids, ">u8")
        fresh["high"], fresh["low"] = halves[0::2], halves[1::2]
        fresh["length"] = lengths
        fresh["active"] = [entry.active for entry in entries]
        fresh["expires"] = [NEVER if entry.expires_at is None else _ticks(entry.expires_at) for entry in entries]
        fresh["created"] = [_ticks(place.created_at) for place in places]
        fresh["happened"] = [NONE if place.happened_at is None else _ticks(place.happened_at) for place in places]
        fresh["position"] = [NONE if place.position is None else place.position for place in places]
        for column in ("importance", "chars", "asks"):
            fresh[column] = [getattr(place, column) for place in places]
        fresh["names_a_time"] = _names_a_time(entries)
        for name, column in zip(_NAMES, _NAMED, strict=True):
            fresh[column] = [self._number(getattr(place, name)) for place in places]
        for row, id in enumerate(_ids(fresh), first):
            if (former := self._rows.get(id)) is not None:
                self._columns["alive"][former] = False
                self._texts.pop(self._ids.get(former, ""), None)
            self._columns["alive"][row] = True
            self._rows[id] = row
        self._count = needed
        self._standing = None

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
        seen: Mask = columns["alive"] & (columns["expires"] > _ticks(now))
        if not superseded:
            seen &= columns["active"]
        if among is not None:
            chosen = np.zeros(len(seen), bool)
            chosen[list(self._among(among, seen))] = True
            seen &= chosen
        return seen

    def hidden(self, visible: Mask) -> int:
        """How many memories are not among these rows."""
        return len(self._rows) - int(visible.sum())

    def ids(self, visible: Mask) -> list[str]:
        """The ids of these rows."""
        return self._ids_of(np.flatnonzero(visible))

    def _ids_of(self, rows: Rows) -> list[str]:
        known, wanted = self._ids, rows.tolist()
        if fresh := [row for row in wanted if row not in known]:
            known.update(zip(fresh, (id_text(id.hex()) for id in _ids(self._columns[fresh])), strict=True))
        return [known[row] for row in wanted]

    def shown(self, visible: Mask, ids: Iterable[str] | None = None) -> set[str]:
        """Which of these memories, or of all, are among these rows."""
        if ids is None:
            return set(self.ids(visible))
        return {id for id in ids if (row := self._row(id)) is not None and visible[row]}

    def search(self, terms: Sequence[str], visible: Mask, limit: int) -> TextMatches:
        """What `MemoryStore.search_text` promises, of these rows."""
        terms = list(dict.fromkeys(terms))
        known = terms if len(terms) <= FEW_TERMS else self._postings.among(terms)
        held = self._postings.of(ordered := sorted(known))
        held = held.where(visible[held.rows])
        often = np.bincount(held.terms, minlength=len(ordered))
        counted = dict(zip(ordered, often.tolist(), strict=True))
        documents = int(visible.sum())
        lengths = self._columns["length"][: len(visible)]
        return TextMatches(
            documents=documents,
            average_length=int(lengths[visible].sum()) / documents if documents else 0.0,
            frequencies={term: counted[term] for term in known if counted[term]},
            matches=self._rarest(ordered, held, often, limit),
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
        found = np.flatnonzero(often)
        column, number = np.zeros(len(terms), np.int64), np.full(self._count, -1)
        column[found] = np.arange(len(found))
        weights = np.bincount(held.rows, 1 / often[held.terms], minlength=self._count).astype(np.float64)
        best = self._best(weights.round(12), limit)
        number[best] = np.arange(len(best))
        kept = held.where(number[held.rows] >= 0)
        counts = np.zeros((len(best), len(found)), np.int64)
        counts[number[kept.rows], column[kept.terms]] = kept.counts
        lengths = self._columns["length"][best].astype(np.int64)
        return TermMatrix(self._ids_of(best), [terms[place] for place in found.tolist()], lengths, counts)

    def _best(self, weights: npt.NDArray[np.float64], limit: int) -> Rows:
        # Rounded weights, so that 1/2 and 1/3 + 1/6 tie whatever order they were added in; ties by id, later first.
        rows = np.flatnonzero(weights)
        if len(rows) > limit:
            rows = rows[weights[rows] >= np.partition(weights[rows], len(rows) - limit)[len(rows) - limit]]
        columns = self._columns
        order = np.lexsort((columns["low"][rows], columns["high"][rows], weights[rows]))[::-1]
        return rows[order][:limit]

    def places(self, ids: Iterable[str], reach: int, now: datetime) -> list[RankFeatures]:
        """What `MemoryStore.places` promises. May run beside a `load` on another thread."""
        with self.loading:
            visible = self.visible(now)
            found = np.fromiter(self._among(ids, visible), np.int64)
            if reach > 0 and len(found):
                found = np.union1d(found, self._around(found, reach))
            found = found[visible[found]]
            order = np.lexsort((self._columns["low"][found], self._columns["high"][found]))
            return [self._place(row) for row in found[order].tolist()]

    def _among(self, ids: Iterable[str], visible: Mask) -> set[int]:
        return {row for id in ids if (row := self._row(id)) is not None and visible[row]}

    def _row(self, id: str) -> int | None:
        row = self._texts.get(id)
        if row is None and is_id(id) and (row := self._rows.get(bytes.fromhex(id.replace("-", "")))) is not None:
            self._ids[row], self._texts[id] = id, row
        return row

    def _around(self, rows: Rows, reach: int) -> Rows:
        """The rows at most so far from one of these in their sessions, dead ones included."""
        if self._standing is None:
            columns = self._columns[: self._count]
            placed = np.flatnonzero((columns["session"] >= 0) & (columns["position"] != NONE))
            keys = self._keys(placed)
            order = np.argsort(keys, kind="stable")
            self._standing = placed[order], keys[order]
        standing, keys = self._standing
        placed = rows[(self._columns["session"][rows] >= 0) & (self._columns["position"][rows] != NONE)]
        own = self._keys(placed)
        starts, ends = np.searchsorted(keys, own - reach, "left"), np.searchsorted(keys, own + reach, "right")
        found = [np.zeros(0, np.int64)]
        for row, start, end in zip(placed.tolist(), starts.tolist(), ends.tolist(), strict=True):
            part = standing[start:end]
            found.append(part[self._columns["session"][part] == self._columns["session"][row]])
        return np.concatenate(found)

    def _keys(self, rows: Rows) -> Rows:
        # one key a place, 2^32 from the next session's; that of another session in reach is left out when it is found
        return (self._columns["session"][rows].astype(np.int64) << 32) + self._columns["position"][rows]

    def _place(self, row: int) -> RankFeatures:
        if row not in self._places:
            one, happened = self._columns[row], int(self._columns["happened"][row])
            numbers = (int(one[column]) for column in _NAMED)
            session_id, author, type, origin = (self._names[number] if number >= 0 else None for number in numbers)
            self._places[row] = RankFeatures(
                id=self._ids_of(np.array([row]))[0],
                session_id=session_id,
                position=None if one["position"] == NONE else int(one["position"]),
                author=author,
                type=type or "",
                origin=origin or "",
                importance=float(one["importance"]),
                created_at=_EPOCH + int(one["created"]) * _MICROSECOND,
                happened_at=None if happened == NONE else _EPOCH + happened * _MICROSECOND,
                chars=int(one["chars"]),
                asks=bool(one["asks"]),
                names_a_time=bool(one["names_a_time"]),
            )
        return self._places[row]


def _ids(columns: Columns) -> list[bytes]:
    halves = np.empty((len(columns), 2), ">u8")
    halves[:, 0], halves[:, 1] = columns["high"], columns["low"]
    raw = halves.tobytes()
    return [raw[start : start + _ID_BYTES] for start in range(0, len(raw), _ID_BYTES)]


def _names_a_time(entries: Sequence[Entry]) -> Mask:
    """Whether a memory's terms name a time, those of its author's name aside."""
    found = holding([entry.postings for entry in entries], _TIME_KEYS)
    for row in np.flatnonzero(found).tolist():
        if own := time_terms_of(entries[row].place.author):
            found[row] = holding([entries[row].postings], keys_of(TIME_TERMS - own))[0]
    return found


def _ticks(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
