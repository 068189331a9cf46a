"""Reads for a scope's index: what changed in a scope since it was read last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ...errors import StoreError
from ...records import Filter, Memory, Scope, Vector
from ..codec import ids_in, known
from ..columns import Mask
from ..index import Entry, ScopeIndex
from ..values import Behind, Stale
from ..vectors import Halves, Nearest
from .session import Database, Part, Row, Transaction, reading, run
from .spaces import SqlEmbeddingSpaces


class Stand(NamedTuple):
    """State of a scope's row, by which an index tells whether it holds what the database holds.

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

    def is_at(self, other: Stand) -> bool:
        """Return True if the memories are those of the other, whatever became of vectors."""
        return self[:3] == other[:3]


UNSEEN = Stand(b"", 0, 0, 0)
"""Of a scope of which nothing was read yet."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a scope since an index was brought up to date.

    Attributes:
        stand: of the scope now.
        written: the ids of the memories written since.
        left: the ids of all memories, where some were erased; None: none were.
        packed: the index that was packed last, or b"" for an empty one, from which `written` goes
            on; None: it goes on from what is known.
    """

    stand: Stand
    written: Sequence[str] = ()
    left: Sequence[str] | None = None
    packed: bytes | None = None


class VectorPage(NamedTuple):
    """Some vectors of a scope.

    Attributes:
        mark: of the scope when they were read (`Stand.mark`).
        ids: of their memories, in order.
        vectors: the numbers of all, in the same order.
    """

    mark: int
    ids: Sequence[str]
    vectors: Halves


class SqlIndexReads(Part):
    """Reads that the indexes of one database's scopes are made of.

    Args:
        database: that searches read.
        spaces: its embedding spaces.
        may_lag: whether an answer may be older than what was read elsewhere before.
    """

    def __init__(
        self, database: Database, spaces: SqlEmbeddingSpaces, *, may_lag: bool = False
    ) -> None:
        super().__init__(database)
        self._may_lag = may_lag
        self.has_nearest = database.has_nearest
        self.spaces = spaces

    @reading
    async def changes(self, session: Transaction, scope: Scope, since: Stand) -> Changes | None:
        """Return what happened since; None: the scope holds nothing.

        Raises:
            Behind: this database has not seen as much.
        """
        rows = await session.rows("scope_changes", **since._asdict())
        self._check_not_older(rows, since)
        if not rows:
            return None
        [row] = rows
        session.codec.salt(row)
        written, left = ids_in(row["written"] or ""), row["remaining"]
        packed = session.codec.index(bytes(row["packed"] or b"")) if row["is_new"] else None
        if packed and not ScopeIndex.is_packed(packed):
            packed, written = b"", await session.ids("scope_memories")
        return Changes(_stand(row), written, None if left is None else ids_in(left), packed)

    @reading
    async def passing(
        self, session: Transaction, scope: Scope, filter: Filter, *, now: datetime
    ) -> Sequence[str]:
        """Return the ids of the visible memories that a filter lets through."""
        values = await session.filter_values(filter, now, sources=True)
        return await session.ids("passing", **values)

    @reading
    async def entries(
        self, session: Transaction, scope: Scope, ids: Sequence[str]
    ) -> Sequence[Entry]:
        """Return these memories as the index knows them, those that are there."""
        return [session.codec.entry(row) for row in await session.rows("indexed", ids=ids)]

    @reading
    async def unchanged(
        self,
        session: Transaction,
        scope: Scope,
        ids: Sequence[str],
        *,
        stand: Stand,
        vectors: bool,
        now: datetime,
    ) -> Mapping[str, Memory]:
        """Return the visible ones of these memories; whether the scope still stands there is part
        of the same statement, and with `vectors` whether its vectors do.

        Raises:
            Stale: it does not.
        """
        wanted = known(ids)
        values = {**stand._asdict(), "mark": stand.mark if vectors else None}
        rows = await session.rows("unchanged_memories", ids=wanted, now=now, **values)
        if not rows:
            raise Stale
        memories = {row["id"]: session.codec.memory(row) for row in rows if row["id"] is not None}
        return {id: memories[id] for id in wanted if id in memories}

    async def vectors(
        self, scope: Scope, space_number: int, stand: Stand, ids: Sequence[str]
    ) -> VectorPage:
        """Return the vectors of these memories of a scope.

        Raises:
            Behind: this database does not stand there yet.
            InvalidInput: there is no such embedding space.
        """
        rows, half = await self._rows(scope, "vectors_of", space_number, stand, ids=ids)
        if not rows:  # it was erased meanwhile
            return VectorPage(stand.mark, (), np.empty(0, np.float16))
        [row] = rows
        numbers = np.frombuffer(row["sent"] or b"", half)
        return VectorPage(row["mark"], ids_in(row["ids"] or ""), numbers)

    async def nearest(
        self,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        limit: int,
        index: ScopeIndex,
        visible: Mask,
    ) -> list[Nearest]:
        """Return the nearest of the visible rows of a scope's index to each vector, found by the
        database; only where it `has_nearest`.
        """
        values = {"vectors": vectors, "limit": limit, "hidden": index.ids_of(~visible)}
        rows, _ = await self._rows(scope, "search_vector", space_number, UNSEEN, **values)
        answers = [Nearest() for _ in vectors]
        for row in rows:
            near = np.array([*map(index.row_of, ids_in(row["ids"]))], np.int64)
            cosines = np.array(row["scores"], np.float64) / 1e6
            # it may have a memory that came since
            answers[row["number"] - 1] = Nearest(near[near >= 0], cosines[near >= 0])
        return answers

    async def _rows(
        self,
        scope: Scope,
        query: str,
        space_number: int,
        since: Stand,
        **values: object,
    ) -> tuple[Sequence[Row], np.dtype[np.float16]]:
        """Return the rows of a query of vectors, and the type of the numbers in them.

        Raises:
            InvalidInput: the embedding space was dropped.
        """

        async def read(session: Transaction) -> tuple[Sequence[Row], np.dtype[np.float16]]:
            rows = await session.rows(query, space=space_number, **values)
            self._check_not_older(rows, since)
            return rows, session.session.half

        try:
            return await run(self.reads, read, scope, write=False)
        except StoreError:
            await self.spaces.numbered(space_number)
            raise

    def _check_not_older(self, found: Sequence[Row], since: Stand) -> None:
        """Check that a reader's next answer does not come from before the last one.

        Raises:
            Behind: the database holds an older version of the scope, or another scope's row.
        """
        if self._may_lag and since is not UNSEEN:
            row: Row = found[0] if found else UNSEEN._asdict()
            if bytes(row["salt"]) != since.salt or row["version"] < since.version:
                raise Behind


def _stand(row: Row) -> Stand:
    return Stand(bytes(row["salt"]), row["version"], row["erased"], row["mark"])
