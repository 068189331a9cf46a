"""The embedded adapter: the shared scripts on the driver thread, and its own exact vector scan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

from typing_extensions import Unpack, override

from ...records import Filter, Scope, Vector
from ..base import EmbeddingSpace, OpenOptions, Pruned
from ..sql import read_queries as reading
from ..sql.decoding import bounded
from ..sql.session import Session
from ..sql.store import Script, SqlStore
from .connection import Connection
from .database import Database
from .session import play, sql
from .vector_search import ScopeVectors, VectorCache, search

T = TypeVar("T")


class LibSQLStore(SqlStore):
    """Memories in one libSQL file, which several processes may use at once, or in memory.

    URIs: `libsql:///relative.db`, `libsql:////absolute.db`, `libsql:///:memory:` (each store its own).
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._cache = VectorCache()

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Self:
        """Opens or makes the file; the options are a server's, and are left aside: a file has one schema and one
        connection, and waits five seconds for another process's lock.
        """
        return cls(await Database.open(uri))

    @classmethod
    @override
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        return await Database.exists(uri)

    @override
    async def close(self) -> None:
        await self._database.close()

    @override
    async def _read(self, script: Script[T]) -> T:
        return await self._database.read(lambda connection: play(script, connection))

    @override
    async def _write(self, script: Script[T]) -> T:
        return await self._database.write(lambda connection: play(script, connection))

    @override
    async def _make_vectors(self, session: Session, generation: EmbeddingSpace) -> None:
        for statement in ("make_vectors", "index_vectors", "index_vector_changes"):
            await session.run(statement, {}, generation=generation.number)

    @override
    async def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] = (),
        session_id: str | None = None,
        everything: bool = False,
        now: datetime,
    ) -> tuple[str, ...]:
        gone = await super().forget(scope, ids=ids, session_id=session_id, everything=everything, now=now)
        await self._erase()
        return gone

    @override
    async def evict(self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime) -> tuple[str, ...]:
        gone = await super().evict(scope, ids, keep=keep, now=now)
        if gone:
            await self._erase()
        return gone

    @override
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        pruned = await super().prune(now=now, popular_after=popular_after, dry_run=dry_run)
        if pruned.deleted and not dry_run:
            await self._erase()
        return pruned

    async def _erase(self) -> None:
        self._cache.drop()
        await self._database.erase()

    @override
    async def search_vector(
        self,
        scope: Scope,
        generation: int,
        vectors: Sequence[Vector],
        *,
        limit: int,
        filter: Filter = Filter(),
        version: int | None = None,
        passing: Sequence[str] | None = None,
        now: datetime,
    ) -> list[list[tuple[str, float]]]:
        dimensions = await self._dimensions_of(generation)
        queries = await self._checked_vectors(generation, vectors)

        def scan(connection: Connection) -> list[list[tuple[str, float]]]:
            index = play(partial(self._indexes.current, scope=scope, version=version), connection)
            among = passing
            if among is None:
                among = play(partial(reading.passing, scope=scope, filter=filter, now=now), connection)
            visible = index.visible(now, superseded=filter.superseded, among=among)
            held = self._current(connection, scope.id, generation, dimensions, index.version)
            return search(held, queries, bounded(limit), partial(index.shown, visible))

        return await self._database.read(scan)

    def _current(
        self, connection: Connection, scope_id: bytes, generation: int, dimensions: int, version: int
    ) -> ScopeVectors:
        scope = {"scope_id": scope_id}
        since, count = sql("vectors_since", generation), sql("count_vectors", generation)
        return self._cache.current(
            (scope_id, generation),
            dimensions,
            version=version,
            loader=lambda seq, limit: connection.tuples(since, {**scope, "seq": seq, "limit": limit}),
            count=lambda: connection.tuples(count, scope)[0][0],
        )
