"""The embedded adapter: the shared scripts on the driver thread, and its own exact vector scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from typing_extensions import Unpack, override

from ...records import Filter, Memory, Scope, Vector
from ..base import EmbeddingSpace, OpenOptions, Pruned
from ..encryption import KeyRing
from ..sql.store import SqlStore
from ..values import ForgottenTenant, Rotated
from ..view import Nearest
from .database import Database
from .session import LibSQLSession
from .vector_search import nearest, unchanged


class LibSQLStore(SqlStore[LibSQLSession]):
    """Memories in one SQLite file, which several processes may use at once, or in memory.

    URIs: `libsql:///relative.db`, `libsql:////absolute.db` and `libsql:///:memory:` (each store its own).
    """

    supports = frozenset({"encryption_keys", "file_encryption_key"})

    def __init__(
        self, database: Database, options: OpenOptions = OpenOptions(), *, ring: KeyRing | None = None
    ) -> None:
        super().__init__(database, options, ring=ring)
        self._file = database

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Self:
        """Opens or makes the file; the options but `cache_mb` and the keys are a server's, and are
        left aside: a file has one schema and one connection, and waits five seconds for another process's lock.
        """
        ring = KeyRing.parse(options.get("encryption_keys"))
        database = await Database.open(uri, ring, key=options.get("file_encryption_key"))
        return cls(database, options, ring=ring)

    @classmethod
    @override
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        return await Database.exists(uri)

    @override
    async def _make_vectors(self, session: LibSQLSession, space: EmbeddingSpace) -> None:
        for statement in ("make_vectors", "index_vectors", "index_vector_changes"):
            await session.run(statement, {}, space_number=space.number)

    @override
    async def _drop_vectors(self, session: LibSQLSession, number: int) -> None:
        await session.run("drop_vectors", {}, space_number=number)

    @override
    async def drop_retired(self) -> Sequence[str]:
        dropped = await super().drop_retired()
        if dropped:
            await self._erase()
        return dropped

    @override
    async def forget(
        self,
        scope: Scope,
        *,
        ids: Sequence[str] = (),
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Sequence[str] = (),
        dry_run: bool = False,
        who: str | None = None,
        now: datetime,
    ) -> tuple[str, ...]:
        gone = await super().forget(
            scope,
            ids=ids,
            session_id=session_id,
            everything=everything,
            event_ids=event_ids,
            dry_run=dry_run,
            who=who,
            now=now,
        )
        if not dry_run:
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

    @override
    async def forget_tenant(self, tenant: str, *, limit: int, who: str | None = None, now: datetime) -> ForgottenTenant:
        erased = await super().forget_tenant(tenant, limit=limit, who=who, now=now)
        if erased.scopes or erased.memories or erased.tokens:
            await self._erase()
        return erased

    @override
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        rotated = await super().rotate_keys(dry_run=dry_run)
        if rotated.rows:  # what they said before must not stay in the log
            await self._file.erase()
        return rotated

    async def _erase(self) -> None:
        self._cache.drop()
        await self._file.erase()

    @override
    async def nearest(
        self,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        *,
        limit: int,
        filter: Filter,
        version: int | None,
        passing: Sequence[str] | None,
        now: datetime,
    ) -> list[Nearest]:
        read = self._database.within(scope).read(
            nearest,
            self.indexes,
            self._cache,
            scope,
            space_number,
            vectors,
            limit=limit,
            filter=filter,
            version=version,
            passing=passing,
            now=now,
        )
        return await self._searched(space_number, read)

    @override
    async def unchanged(
        self, scope: Scope, ids: Sequence[str], *, version: int, marks: Mapping[int, int], now: datetime
    ) -> Mapping[str, Memory] | None:
        return await self._database.within(scope).read(
            unchanged, self.indexes, scope, ids, version=version, marks=marks, now=now
        )
