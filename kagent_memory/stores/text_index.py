"""What one scope's memories are searched by, held in memory between calls: terms, places, visibility; no content.

Pure: it is told what the database holds (`sql/indexes.py`) and answers from that alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..language.time_words import TIME_TERMS, time_terms_of
from .postings import Postings, Rows, holding, keys_of
from .values import RankFeatures, TermMatrix, TextMatches

NEVER = np.iinfo(np.int64).max
ENTRY_BYTES = 1000
DEAD_AT_LEAST = 500
FEW_TERMS = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIME_KEYS = keys_of(TIME_TERMS)
_COLUMNS = np.dtype(
    [("expires", "i8"), ("length", "i8"), ("active", "?"), ("alive", "?"), ("high", "u8"), ("low", "u8")]
)

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
    """

    def __init__(self, erased: int = 0) -> None:
        self.version = -1
        self.erased = erased
        self._places: list[RankFeatures] = []
        self._rows: dict[str, int] = {}
        self._sessions: dict[str, dict[int, list[int]]] = {}
        self._columns = np.zeros(0, _COLUMNS)
        self._postings = Postings()
        self._loading = Lock()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return len(self._places) * ENTRY_BYTES + self._columns.nbytes + self._postings.size

    @property
    def worn(self) -> bool:
        """Whether so much of it is dead that it should be made anew."""
        dead = len(self._places) - len(self._rows)
        return dead > max(DEAD_AT_LEAST, len(self._rows))

    def load(self, entries: Sequence[Entry]) -> None:
        """Takes in memories that are new or have changed; the same again changes nothing that shows."""
        if entries:
            with self._loading:
                self._load(entries)

    def _load(self, entries: Sequence[Entry]) -> None:
        first = len(self._places)
        lengths = self._postings.add(first, [entry.postings for entry in entries])
        if (needed := first + len(entries)) > len(self._columns):
            columns = np.zeros(max(needed, len(self._columns) * 3 // 2), _COLUMNS)
            columns[: len(self._columns)] = self._columns
            self._columns = columns
        for row, place in enumerate(_placed(entries), first):
            self._enter(row, place)
        ids = np.frombuffer(b"".join(bytes.fromhex(entry.place.id.replace("-", "")) for entry in entries), ">u8")
        fresh = self._columns[first : len(self._places)]
        fresh["high"], fresh["low"] = ids[0::2], ids[1::2]
        fresh["length"] = lengths
        fresh["active"] = [entry.active for entry in entries]
        fresh["expires"] = [NEVER if entry.expires_at is None else _ticks(entry.expires_at) for entry in entries]

    def _enter(self, row: int, place: RankFeatures) -> None:
        former = self._rows.get(place.id)
        if former is not None:
            self._columns["alive"][former] = False
        self._rows[place.id] = row
        self._places.append(place)
        self._columns["alive"][row] = True
        if place.session_id is not None and place.position is not None:
            self._sessions.setdefault(place.session_id, {}).setdefault(place.position, []).append(row)

    def visible(self, now: datetime, *, superseded: bool = False, among: Iterable[str] | None = None) -> Mask:
        """Which rows readers may see at `now`: of all, or of these ids."""
        columns = self._columns[: len(self._places)]
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
        return [self._places[row].id for row in np.flatnonzero(visible).tolist()]

    def shown(self, visible: Mask, ids: Iterable[str] | None = None) -> set[str]:
        """Which of these memories, or of all, are among these rows."""
        if ids is None:
            return set(self.ids(visible))
        return {self._places[row].id for row in self._among(ids, visible)}

    def search(self, terms: Sequence[str], visible: Mask, limit: int) -> TextMatches:
        """What `MemoryStore.search_text` promises, of these rows."""
        found: dict[str, tuple[Rows, Rows]] = {}
        terms = list(dict.fromkeys(terms))
        for term in terms if len(terms) <= FEW_TERMS else self._postings.among(terms):
            rows, counts = self._postings.of(term)
            seen = visible[rows]
            if seen.any():
                found[term] = rows[seen], counts[seen]
        documents = int(visible.sum())
        lengths = self._columns["length"][: len(visible)]
        return TextMatches(
            documents=documents,
            average_length=int(lengths[visible].sum()) / documents if documents else 0.0,
            frequencies={term: len(rows) for term, (rows, _) in found.items()},
            matches=self._rarest(found, limit),
            version=self.version,
        )

    def _rarest(self, found: dict[str, tuple[Rows, Rows]], limit: int) -> TermMatrix:
        if not found or limit <= 0:
            return TermMatrix((), (), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        terms = sorted(found)
        weights = np.zeros(len(self._places))
        for term in terms:
            weights[found[term][0]] += 1 / len(found[term][0])
        best = self._best(weights.round(12), limit)
        rank = np.full(len(weights), -1)
        rank[best] = np.arange(len(best))
        held = np.zeros((len(best), len(terms)), np.int64)
        for column, term in enumerate(terms):
            rows, counts = found[term]
            kept = rank[rows] >= 0
            held[rank[rows][kept], column] = counts[kept]
        return TermMatrix([self._places[int(row)].id for row in best], terms, self._columns["length"][best], held)

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
        with self._loading:
            visible = self.visible(now)
            rows = self._among(ids, visible)
            if reach > 0:
                rows = rows.union(*(self._around(self._places[row], reach) for row in rows))
            found = np.fromiter(rows, np.int64, len(rows))
            found = found[visible[found]]
            order = np.lexsort((self._columns["low"][found], self._columns["high"][found]))
            return [self._places[int(row)] for row in found[order]]

    def _among(self, ids: Iterable[str], visible: Mask) -> set[int]:
        return {row for id in ids if (row := self._rows.get(id)) is not None and visible[row]}

    def _around(self, place: RankFeatures, reach: int) -> list[int]:
        if place.session_id is None or place.position is None:
            return []
        positions = self._sessions[place.session_id]
        near = range(place.position - reach, place.position + reach + 1)
        within = near if len(near) < len(positions) else [one for one in positions if one in near]
        return [row for position in within for row in positions.get(position, ())]


def _placed(entries: Sequence[Entry]) -> Iterator[RankFeatures]:
    """Where the memories stand, with what their terms say of times."""
    found = holding([entry.postings for entry in entries], _TIME_KEYS)
    for entry, named in zip(entries, found.tolist(), strict=True):
        author = entry.place.author
        if named and (own := time_terms_of(author)):
            named = bool(holding([entry.postings], keys_of(TIME_TERMS - own))[0])
        yield replace(entry.place, names_a_time=True) if named else entry.place


def _ticks(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND
