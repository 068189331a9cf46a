"""Database reads for scope indexes: the changes since the last read, entries and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np

from ...records import Filter, Memory, Scope, Vector
from ..codec import ids_in, known
from ..columns import Mask
from ..index import Entry, ScopeIndex
from ..values import Behind, Stale
from ..vectors import Halves, Nearest
from .session import Part, Row, Transaction, reading


class Stamp(NamedTuple):
    """Counters in a scope's row, which tell if an index of the scope is up to date.

    Attributes:
        salt: the scope's salt; a scope that was erased and created again has a new one, and counts
            its versions from the beginning.
        version: the number of writes to its memories.
        erased: the version of the last erasure.
        mark: the number of times its vectors were set, or those of any embedding space dropped.
    """

    salt: bytes
    version: int
    erased: int
    mark: int


UNSEEN = Stamp(b"", 0, 0, 0)
"""The stamp of a scope before its first read."""


class Changes(NamedTuple):
    """The changes of a scope since an index was brought up to date.

    Attributes:
        stamp: the stamp of the scope now.
        written: the ids of the memories written since.
        remaining: the ids of all remaining memories if some were erased, else None.
        packed: the last packed index, or b"" for an empty one, to apply `written` to; None: the
            cached index.
    """

    stamp: Stamp
    written: Sequence[str]
    remaining: Sequence[str] | None
    packed: bytes | None


class VectorPage(NamedTuple):
    """Some vectors of a scope.

    Attributes:
        mark: the `Stamp.mark` of the scope when they were read.
        ids: the ids of their memories, in order.
        vectors: the numbers of all vectors, in the same order.
    """

    mark: int
    ids: Sequence[str]
    vectors: Halves


class SqlIndexReads(Part):
    """Reads for the indexes of one database's scopes."""

    @reading
    async def changes(self, session: Transaction, scope: Scope, since: Stamp) -> Changes | None:
        """Return the changes since a stamp, or None if the scope is empty.

        Raises:
            Behind: this database has not reached that stamp yet.
        """
        rows = await session.rows("scope_changes", **since._asdict())
        self._check_not_older(rows, since)
        if not rows:
            return None
        [row] = rows
        session.codec.salt(row)
        written, ids = ids_in(row["written"] or ""), row["remaining"]
        packed = session.codec.index(bytes(row["packed"] or b"")) if row["is_new"] else None
        if packed and not ScopeIndex.is_packed(packed):
            packed, written = b"", await session.ids("scope_memories")
        stamp = Stamp(bytes(row["salt"]), row["version"], row["erased"], row["mark"])
        return Changes(stamp, written, None if ids is None else ids_in(ids), packed)

    @reading
    async def passing(
        self, session: Transaction, scope: Scope, filter: Filter, *, now: datetime
    ) -> Sequence[str]:
        """Return the ids of the visible memories that pass a filter."""
        values = await session.filter_values(filter, now, sources=True)
        return await session.ids("passing", **values)

    @reading
    async def entries(
        self, session: Transaction, scope: Scope, ids: Sequence[str]
    ) -> Sequence[Entry]:
        """Return the index entries of these memories, without missing ones."""
        return [session.codec.entry(row) for row in await session.rows("indexed", ids=ids)]

    @reading
    async def unchanged(
        self,
        session: Transaction,
        scope: Scope,
        ids: Sequence[str],
        *,
        stamp: Stamp,
        now: datetime,
    ) -> Mapping[str, Memory]:
        """Return the visible ones of these memories if the scope has not changed.

        One statement checks the stamp and reads the memories.

        Args:
            session: the transaction.
            scope: the scope.
            ids: the ids of the memories.
            stamp: the stamp that the scope must have.
            now: the time.

        Raises:
            Stale: the scope has changed.
        """
        ids = known(ids)
        rows = await session.rows("unchanged_memories", ids=ids, now=now, **stamp._asdict())
        if not rows:
            raise Stale
        memories = {row["id"]: session.codec.memory(row) for row in rows if row["id"] is not None}
        return {id: memories[id] for id in ids if id in memories}

    @reading
    async def vectors(
        self,
        session: Transaction,
        scope: Scope,
        space_number: int,
        stamp: Stamp,
        ids: Sequence[str],
    ) -> VectorPage:
        """Return the vectors of these memories of a scope.

        Raises:
            Behind: this database has not reached this stamp yet.
            InvalidInput: there is no such embedding space.
        """
        rows = await session.rows("vectors_of", space=space_number, ids=ids)
        self._check_not_older(rows, stamp)
        if not rows:  # the scope was erased meanwhile
            return VectorPage(stamp.mark, (), np.empty(0, np.float16))
        [row] = rows
        numbers = np.frombuffer(row["sent"] or b"", session.session.half)
        return VectorPage(row["mark"], ids_in(row["ids"] or ""), numbers)

    @reading
    async def nearest(
        self,
        session: Transaction,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        limit: int,
        index: ScopeIndex,
        visible: Mask,
    ) -> list[Nearest]:
        """Return the nearest visible rows of a scope's index for each query vector.

        The database searches; it must have `has_nearest`.
        """
        rows = await session.rows(
            "search_vector",
            space=space_number,
            vectors=vectors,
            limit=limit,
            hidden=index.ids_of(~visible),
        )
        answers = [Nearest() for _ in vectors]
        for row in rows:
            near = np.array([*map(index.row_of, ids_in(row["ids"]))], np.int64)
            cosines = np.array(row["scores"], np.float64) / 1e6
            # the database may hold a memory that the index does not have yet
            answers[row["number"] - 1] = Nearest(near[near >= 0], cosines[near >= 0])
        return answers

    def _check_not_older(self, rows: Sequence[Row], since: Stamp) -> None:
        """Check that an answer is not older than the one before.

        Raises:
            Behind: the database holds an older version of the scope, or an erased scope of its
                name.
        """
        if self.reads is not self.database and since is not UNSEEN:
            row = rows[0] if rows else UNSEEN._asdict()
            if bytes(row["salt"]) != since.salt or row["version"] < since.version:
                raise Behind
