"""The indexes of the scopes searched last, each brought up to what the database holds before it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from cachetools import LRUCache

from ... import telemetry
from ...records import Memory, Scope
from ..codec import ids_in
from ..planning import Texts
from ..text_index import Entry, ScopeIndex
from ..values import StandbyBehind
from .decoding import entry_of, to_entry
from .session import Row, Session

LOAD_ROWS = 250
MOST_OUTGROWN = 1000
UNPACKED_BYTES = 1500  # of a packed index, to be taken in as long as it takes to read one character
MOST_COMING = 100  # memories that wait to be taken in: no more than one search should have to do


@dataclass(frozen=True, slots=True)
class Written:
    """New memories that this process wrote, and nothing else in the same transaction: what an index that stands at the
    version before lacks.
    """

    salt: bytes
    version: int
    memories: Sequence[Memory]
    texts: Texts


@dataclass(slots=True)
class _Kept:
    scope: Scope
    salt: bytes  # of the scope's row: one that was erased and made anew counts its versions from the beginning
    steady: bool = False  # nothing had been written when the database was asked last
    index: ScopeIndex = field(default_factory=ScopeIndex)
    # each version follows the one before, the first the index's; its entries have not been taken in
    coming: list[tuple[int, Sequence[Entry]]] = field(default_factory=list[tuple[int, Sequence[Entry]]])

    def take_in(self) -> None:
        """Brings the index up to what this process wrote; all of it, or what comes is left to the database."""
        coming, self.coming = self.coming, []
        for version, entries in coming:
            if version <= self.index.version:  # a search has read it meanwhile
                continue
            if version != self.index.version + 1:
                self.steady = False
                return
            self.index.load(entries)
            self.index.version = version

    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Indexes:
    """Keeps the indexes of some scopes, those used last, up to so many bytes.

    Every write moves its scope's version and marks the memories it wrote with it, so a search loads what came since the
    version it knows; every erasure is marked on the scope, and then it learns which memories are left. The version is
    read first: what is written meanwhile is at worst loaded twice. A scope not seen before is loaded as it was packed
    last, unless something was erased since.

    Attributes:
        outgrown: scopes, not too many, whose indexes hold much that was not there when they were last packed.
    """

    def __init__(self, max_bytes: int) -> None:
        # the one searched last stays, even where it alone is larger
        self._kept = LRUCache[bytes, _Kept](max_bytes, lambda kept: min(kept.index.size, max_bytes))
        self._lock = Lock()  # a file's indexes are read on its thread, too
        self.outgrown: set[Scope] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def drop(self, scope: Scope | None = None) -> None:
        """Lets go of one scope's index, or of all."""
        with self._lock:
            if scope is None:
                self._kept.clear()
            else:
                self._kept.pop(scope.id, None)

    def _get(self, scope: Scope) -> _Kept | None:
        with self._lock:
            return self._kept.get(scope.id)

    def _set(self, scope: Scope, kept: _Kept) -> None:
        with self._lock:
            self._kept[scope.id] = kept

    def known(self, scope: Scope, version: int | None) -> ScopeIndex | None:
        """The scope's index as of this version or a later one, if it is kept."""
        kept = self._get(scope)
        return kept.index if kept is not None and version is not None and 0 <= version <= kept.index.version else None

    def steady(self, scope: Scope) -> ScopeIndex | None:
        """The scope's index, if nothing had been written when the database was asked last; `unchanged` says whether
        that is still so.
        """
        kept = self._get(scope)
        if kept is not None and kept.coming:
            self._take_in(scope, kept)
        return kept.index if kept is not None and kept.steady else None

    def at_hand(self, scope: Scope) -> ScopeIndex | None:
        """The scope's index at whatever version; the next search asks the database first, for something was erased."""
        self.unsettle(scope)
        kept = self._get(scope)
        if kept is None:
            return None
        kept.coming.clear()
        return kept.index

    def _take_in(self, scope: Scope, kept: _Kept) -> None:
        kept.take_in()
        self._resized(scope, kept)

    def _resized(self, scope: Scope, kept: _Kept) -> None:
        with self._lock:
            if self._kept.get(scope.id) is kept:
                self._kept[scope.id] = kept  # weighed anew
        if kept.index.outgrown and len(self.outgrown) < MOST_OUTGROWN:
            self.outgrown.add(scope)

    def unsettle(self, scope: Scope) -> bool:
        """The scope is written to: the next search asks the database first. Tells whether it would not have had to."""
        if (kept := self._get(scope)) is None:
            return False
        steady, kept.steady = kept.steady, False
        return steady

    def written(self, scope: Scope, written: Written, *, steady: bool) -> None:
        """What this process wrote is taken in at the next search, where nobody else wrote since the last one.

        That search asks nothing first if the scope was `steady` before the write: one that others write to all the
        time is looked at first.
        """
        kept = self._get(scope)
        if kept is None or kept.salt != written.salt or kept.loading.locked():
            return
        stands = kept.coming[-1][0] if kept.coming else kept.index.version
        waiting = sum(len(entries) for _, entries in kept.coming) + len(written.memories)
        if stands >= 0 and stands == written.version - 1 and waiting <= MOST_COMING:
            entries = [entry_of(one, written.texts.postings(one)) for one in written.memories]
            kept.coming.append((written.version, entries))
            kept.steady = steady

    def unchanged(self, scope: Scope, version: int) -> Mapping[str, Any] | None:
        """What the scope's row says as long as its index at this version is right; None when that is kept no more."""
        kept = self._get(scope)
        if kept is None or kept.index.version != version:
            return None
        return {"scope_id": scope.id, "salt": kept.salt, "version": version, "erased": kept.index.erased}

    def likely(self, scope: Scope) -> ScopeIndex | None:
        """The scope's index with all that this process wrote, if it is kept; the database must tell whether it is
        right.
        """
        kept = self._get(scope)
        if kept is not None and kept.coming:
            self._take_in(scope, kept)
        return kept.index if kept is not None and kept.index.version >= 0 else None

    async def current(
        self, session: Session, scope: Scope, version: int | None = None, *, found: Sequence[Row] | None = None
    ) -> ScopeIndex:
        """The scope's index as the database holds it now, or as of this version of the scope or a later one; `found`
        are the rows of `scope_row` where they were just read.
        """
        if (known := self.known(scope, version)) is not None:
            telemetry.cache_looked_up("text", hit=True)
            return known
        unseen = found is None and self._get(scope) is None
        if found is None:
            found = await session.rows("unseen_scope" if unseen else "scope_row", {"scope_id": scope.id})
        if session.is_standby and not unseen:
            _check_not_older(self._get(scope), found)
        if not found:
            return ScopeIndex()
        salt = bytes(found[0]["salt"])
        kept = self._get(scope)
        if kept is None or kept.salt != salt:
            kept = _Kept(scope, salt)
            self._set(scope, kept)
        if kept.coming:
            self._take_in(scope, kept)
        stands = _stands(kept.index, found[0])
        kept.steady = stands
        telemetry.cache_looked_up("text", hit=stands)
        if stands:
            return kept.index
        async with kept.loading:  # one loads for all who wait
            kept.index = index = await _loaded(session, scope, kept.index, found if unseen else None)
            self._resized(scope, kept)
        return index

    def packed(self, scope: Scope) -> Packed | None:
        """Return the scope's index as `keep_index` takes it; None when it is not kept. May take long: call it in a
        thread.
        """
        kept = self._get(scope)
        if kept is None or kept.index.version < 0:
            return None
        index = kept.index  # told first: a load on another thread meanwhile makes it newer than it says
        version, erased = index.version, index.erased
        return Packed(kept.salt, version, erased, index.packed())

    def note_unpacked(self) -> None:
        """Count every index as outgrown that holds enough which was not packed."""
        with self._lock:
            kept = list(self._kept.values())
        self.outgrown.update(one.scope for one in kept if one.index.is_worth_packing)


@dataclass(frozen=True, slots=True)
class Packed:
    """An index on its way to the database.

    Attributes:
        salt: of the scope's row.
        version: the scope's version at which it was packed.
        erased: the scope's version when something was last erased from it.
        packed: see `ScopeIndex.packed`.
    """

    salt: bytes
    version: int
    erased: int
    packed: bytes


def _check_not_older(kept: _Kept | None, found: Sequence[Row]) -> None:
    """What was seen once is not unseen: a reader's next answer does not come from before the last one.

    Raises:
        StandbyBehind: the standby holds an older version of the scope than the index, or another scope's row.
    """
    if kept is None or kept.index.version < 0:
        return
    if not found or bytes(found[0]["salt"]) != kept.salt or found[0]["version"] < kept.index.version:
        raise StandbyBehind


def _stands(index: ScopeIndex, scope: Row) -> bool:
    return (index.version, index.erased) == (scope["version"], scope["erased"])


async def _loaded(session: Session, scope: Scope, index: ScopeIndex, found: Sequence[Row] | None) -> ScopeIndex:
    """The index as the database holds it; `found` are the rows of `unseen_scope` where it was asked for."""
    if found is None or index.version >= 0:
        found = await session.rows("scope_row", {"scope_id": scope.id})
        if found and _stands(index, found[0]):
            return index
        if not found or index.version < 0 or index.version > found[0]["version"] or index.worn:
            found = await session.rows("unseen_scope", {"scope_id": scope.id})
        elif index.erased != found[0]["erased"]:
            [left] = await session.rows("written_since", {"scope_id": scope.id, "version": 0})
            await session.aside(len(left["ids"]), index.leave, ids_in(left["ids"]))
            index.erased = found[0]["erased"]
    if not found:  # it was erased meanwhile
        return ScopeIndex()
    index, ids = await _unpacked(session, found[0]) if "packed" in found[0] else (index, None)
    if ids is None:  # all that were written since
        [written] = await session.rows("written_since", {"scope_id": scope.id, "version": index.version + 1})
        ids = written["ids"]
    wanted = ids_in(ids or "")
    for start in range(0, len(wanted), LOAD_ROWS):
        some = {"scope_id": scope.id, "ids": wanted[start : start + LOAD_ROWS]}
        index.load([to_entry(one) for one in await session.rows("indexed", some)])
    index.version = max(found[0]["version"], index.version)
    return index


async def _unpacked(session: Session, row: Row) -> tuple[ScopeIndex, str | None]:
    """Return the index as it was packed last, and the ids of what it lacks; None: it is of another format."""
    empty, packed = ScopeIndex(row["erased"]), row["packed"]
    if packed is None:
        return empty, row["ids"]
    unpacked = await session.aside(
        len(packed) // UNPACKED_BYTES,
        ScopeIndex.unpacked,
        bytes(packed),
        erased=row["erased"],
        version=row["packed_version"],
    )
    return (empty, None) if unpacked is None else (unpacked, row["ids"])
