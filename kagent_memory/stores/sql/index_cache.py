"""The indexes of the scopes searched last, each brought up to what the database holds before it answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ... import telemetry
from ...concurrency import LRU
from ...records import Scope
from ..codec import ids_in
from ..text_index import Entry, ScopeIndex
from .decoding import to_place
from .session import Row, Session

LOAD_ROWS = 250


@dataclass(slots=True)
class _Kept:
    salt: bytes  # of the scope's row: one that was erased and made anew counts its versions from the beginning
    index: ScopeIndex = field(default_factory=ScopeIndex)
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Indexes:
    """Keeps the indexes of some scopes, those used last, up to so many bytes.

    Every write moves its scope's version and marks the memories it wrote with it, so a search loads what came since the
    version it knows; every erasure is marked on the scope, and then all of it is loaded anew. The version is read
    first: what is written meanwhile is at worst loaded twice.
    """

    def __init__(self, max_bytes: int) -> None:
        self._kept = LRU[bytes, _Kept](max_bytes, lambda kept: kept.index.size)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """About how many bytes all of them hold."""
        return self._kept.size

    def drop(self, scope: Scope | None = None) -> None:
        """Lets go of one scope's index, or of all."""
        if scope is None:
            self._kept.clear()
        else:
            self._kept.pop(scope.id)

    def known(self, scope: Scope, version: int | None) -> ScopeIndex | None:
        """The scope's index as of this version or a later one, if it is kept."""
        kept = self._kept.get(scope.id)
        return kept.index if kept is not None and version is not None and 0 <= version <= kept.index.version else None

    async def current(self, session: Session, scope: Scope, version: int | None = None) -> ScopeIndex:
        """The scope's index as the database holds it now, or as of this version of the scope or a later one."""
        if (known := self.known(scope, version)) is not None:
            telemetry.cache_looked_up("text", hit=True)
            return known
        found = await session.rows("scope_row", {"scope_id": scope.id})
        if not found:
            return ScopeIndex()
        salt = bytes(found[0]["salt"])
        kept = self._kept.setdefault(scope.id, _Kept(salt))
        if kept.salt != salt:
            kept = self._kept[scope.id] = _Kept(salt)
        stands = _stands(kept.index, found[0])
        telemetry.cache_looked_up("text", hit=stands)
        if stands:
            return kept.index
        async with kept.loading:  # one loads for all who wait
            kept.index = index = await _loaded(session, scope, kept.index)
            self._kept.resize(scope.id, kept)
        return index


def _stands(index: ScopeIndex, scope: Row) -> bool:
    return (index.version, index.erased) == (scope["version"], scope["erased"])


async def _loaded(session: Session, scope: Scope, index: ScopeIndex) -> ScopeIndex:
    row, *_ = await session.rows("scope_row", {"scope_id": scope.id})
    if _stands(index, row):
        return index
    if index.erased != row["erased"] or index.version > row["version"] or index.worn:
        index = ScopeIndex(row["erased"])
    since = {"scope_id": scope.id, "version": index.version + 1}
    [written] = await session.rows("written_since", since)
    ids = ids_in(written["ids"])
    for start in range(0, len(ids), LOAD_ROWS):
        some = {"scope_id": scope.id, "ids": ids[start : start + LOAD_ROWS]}
        index.load([_entry(one) for one in await session.rows("indexed", some)])
    index.version = row["version"]
    return index


def _entry(row: Row) -> Entry:
    expires_at = None if row["pinned"] else row["expires_at"]
    return Entry(to_place(row), bool(row["active"]), expires_at, bytes(row["postings"]))
