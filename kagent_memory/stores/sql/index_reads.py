"""What a scope's index is made of: what changed in a scope since it was read last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ...records import EVERYTHING, Filter, Memory, Scope, Vector
from ..codec import ids_in, known
from ..index import Entry, Nearest, ScopeIndex, Stand
from ..values import Stale, StandbyBehind
from ..vectors import Halves
from .filters import filter_values
from .scripts import reading
from .session import Database, Row, Session, Values
from .spaces import SqlEmbeddingSpaces


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a scope since an index was brought up to date.

    Attributes:
        stand: of the scope now.
        written: the ids of the memories written since.
        left: the ids of all memories, where some were erased; None: none were.
        is_whole: `written` goes on from `packed`, or from nothing, instead of from what is known.
        packed: the index that was packed last, and the version of the scope then.
        matching: the ids of the visible memories that a filter lets through; None: all, or nobody
            asked.
    """

    stand: Stand
    written: Sequence[str] = ()
    left: Sequence[str] | None = None
    is_whole: bool = False
    packed: tuple[bytes, int] | None = None
    matching: Sequence[str] | None = None


class VectorPage(NamedTuple):
    """Some vectors of a scope.

    Attributes:
        stand: of the scope when they were read.
        ids: of their memories, one after the other, in order.
        vectors: in the same order.
    """

    stand: Stand
    ids: str
    vectors: Halves


class SqlIndexReads:
    """What the indexes of one database's scopes are made of.

    Args:
        database: that searches read.
        spaces: its embedding spaces.
    """

    def __init__(self, database: Database, spaces: SqlEmbeddingSpaces) -> None:
        self.database = self.reads = database
        self.has_nearest = database.has_nearest
        self._spaces = spaces

    async def checked_vectors(
        self, space_number: int, vectors: Sequence[Vector]
    ) -> Sequence[Vector]:
        """Return the vectors as they are kept.

        Raises:
            InvalidInput: one does not fit the embedding space, or there is none of this number.
        """
        return await self._spaces.checked_vectors(space_number, vectors)

    @reading
    async def changes(
        self, session: Session, scope: Scope, since: Stand | None, *, filter: Filter, now: datetime
    ) -> Changes | None:
        """Return what happened since, and what the filter lets through; None: the scope holds
        nothing.

        Raises:
            StandbyBehind: this is a standby that has not seen as much.
        """
        found = await _changes(session, scope, since)
        if found is None or filter == EVERYTHING:
            return found
        values = await filter_values(session, scope, filter, now, sources=True)
        if not values["filtered"]:
            return found
        return replace(found, matching=[row["id"] for row in await session.rows("passing", values)])

    @reading
    async def entries(self, session: Session, scope: Scope, ids: Sequence[str]) -> Sequence[Entry]:
        """Return these memories as the index knows them, those that are there."""
        rows = await session.rows("indexed", {"scope_id": scope.id, "ids": ids})
        return session.codec.entries(scope, rows)

    @reading
    async def unchanged(
        self,
        session: Session,
        scope: Scope,
        ids: Sequence[str],
        *,
        stand: Stand,
        mark: int | None,
        now: datetime,
    ) -> Mapping[str, Memory]:
        """Return the visible ones of these memories; whether the scope still stands there is part
        of the same statement, and with a mark whether its vectors do.

        Raises:
            Stale: it does not.
        """
        wanted = known(ids)
        values = {"scope_id": scope.id, **stand._asdict(), "mark": mark, "ids": wanted, "now": now}
        rows = await session.rows("unchanged_memories", values)
        if not rows:
            raise Stale
        memories = session.codec.memories(scope, (row for row in rows if row["id"] is not None))
        found = {memory.id: memory for memory in memories}
        return {id: found[id] for id in wanted if id in found}

    async def vectors_from(
        self, scope: Scope, space_number: int, first: str, *, limit: int
    ) -> VectorPage | None:
        """Return the vectors of a scope from one id on; None: the scope holds nothing."""
        dimensions = await self._spaces.dimensions_of(space_number)
        found = self._vectors_from(scope, space_number, dimensions, first, limit)
        return await self._spaces.searched(space_number, found)

    @reading
    async def _vectors_from(
        self,
        session: Session,
        scope: Scope,
        space_number: int,
        dimensions: int,
        first: str,
        limit: int,
    ) -> VectorPage | None:
        values = {"scope_id": scope.id, "first": first, "limit": limit}
        found = await session.rows("vectors_from", values, space_number=space_number)
        return _page(session, found[0], dimensions) if found else None

    async def vectors_since(
        self,
        scope: Scope,
        space_number: int,
        stand: Stand,
        *,
        version: int,
        ids: Sequence[str],
        limit: int,
    ) -> VectorPage | None:
        """Return the vectors of the memories written at a version or later, and of these ids; None:
        they are more than the limit, or the scope is another one.

        Raises:
            StandbyBehind: this is a standby that does not stand there yet.
        """
        dimensions = await self._spaces.dimensions_of(space_number)
        values = {"scope_id": scope.id, "version": version, "ids": ids, "limit": limit}
        found = self._vectors_since(scope, space_number, dimensions, stand, values)
        return await self._spaces.searched(space_number, found)

    @reading
    async def _vectors_since(
        self,
        session: Session,
        scope: Scope,
        space_number: int,
        dimensions: int,
        stand: Stand,
        values: Values,
    ) -> VectorPage | None:
        found = await session.rows("vectors_since", values, space_number=space_number)
        _check_not_older(session, found, stand)
        if not found or bytes(found[0]["salt"]) != stand.salt:
            return None
        return (
            _page(session, found[0], dimensions) if found[0]["memories"] < values["limit"] else None
        )

    async def nearest(
        self,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        *,
        limit: int,
        among: Sequence[str] | None,
    ) -> list[Nearest]:
        """Return the nearest of all of the scope's vectors, or of those of these memories, found by
        the database; only where it `has_nearest`.
        """
        found = self._nearest(scope, space_number, vectors, limit, among)
        return await self._spaces.searched(space_number, found)

    @reading
    async def _nearest(
        self,
        session: Session,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        limit: int,
        among: Sequence[str] | None,
    ) -> list[Nearest]:
        values = {"scope_id": scope.id, "vectors": vectors, "limit": limit, "among": among}
        query = "search_vector" if among is None else "search_vector_among"
        found: list[Nearest] = [[] for _ in vectors]
        for row in await session.rows(query, values, space_number=space_number):
            scores: list[float] = (np.array(row["scores"], np.float64) / 1e6).tolist()
            found[row["number"] - 1] = list(zip(ids_in(row["ids"]), scores, strict=True))
        return found


async def _changes(session: Session, scope: Scope, since: Stand | None) -> Changes | None:
    """Return what happened since. The row comes first: what is written meanwhile is at worst told
    twice.
    """
    whose = {"scope_id": scope.id}
    found = await session.rows("unseen_scope" if since is None else "scope_row", whose)
    _check_not_older(session, found, since)
    if not found:
        return None
    session.codec.salt(scope, found[0])
    stand = _stand(found[0])
    if since is None or since.salt != stand.salt or since.version > stand.version:
        if since is not None and not (found := await session.rows("unseen_scope", whose)):
            return None
        return await _whole(session, scope, found[0])
    if (since.version, since.erased) == (stand.version, stand.erased):
        return Changes(stand)
    left = await _written_since(session, scope, 0) if since.erased != stand.erased else None
    written = await _written_since(session, scope, since.version + 1)
    if left is None and not written and not await session.rows("scope_row", whose):
        return None  # it was erased meanwhile
    return Changes(stand, written, left)


async def _whole(session: Session, scope: Scope, row: Row) -> Changes:
    packed = session.codec.index(scope, bytes(row["packed"] or b""))
    if ScopeIndex.is_packed(packed):
        written = ids_in(row["ids"] or "")
        return Changes(_stand(row), written, is_whole=True, packed=(packed, row["packed_version"]))
    return Changes(_stand(row), await _written_since(session, scope, 0), is_whole=True)


async def _written_since(session: Session, scope: Scope, version: int) -> Sequence[str]:
    [written] = await session.rows("written_since", {"scope_id": scope.id, "version": version})
    return ids_in(written["ids"] or "")


def _page(session: Session, row: Row, dimensions: int) -> VectorPage:
    vectors = np.frombuffer(row["sent"] or b"", session.half).reshape(-1, dimensions)
    return VectorPage(_stand(row), row["ids"] or "", vectors)


def _stand(row: Row) -> Stand:
    return Stand(bytes(row["salt"]), row["version"], row["erased"], row["mark"])


def _check_not_older(session: Session, found: Sequence[Row], since: Stand | None) -> None:
    """Check that a reader's next answer does not come from before the last one.

    Raises:
        StandbyBehind: a standby holds an older version of the scope, or another scope's row.
    """
    if not session.is_standby or since is None:
        return
    if not found or bytes(found[0]["salt"]) != since.salt or found[0]["version"] < since.version:
        raise StandbyBehind
