"""The PostgreSQL adapter: its connections, its transactions, and the vector search, which is its own."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

import psycopg
from cachetools import LRUCache
from psycopg import AsyncConnection, sql
from typing_extensions import Unpack, override

from ...concurrency import cancel_and_wait, run_in_thread, uninterrupted
from ...errors import ConfigurationError, KagentMemoryError
from ...records import Filter, Memory, Scope, Vector
from ..base import EmbeddingSpace, OpenOptions, StandbyError
from ..encryption import KeyRing
from ..sql.store import SqlStore
from ..text_index import ScopeIndex
from ..vector_index import ScopeVectors
from ..view import Nearest, Stale, View
from . import embedded_server
from .connection import AnyConnection, Target, Traits
from .database import PostgresDatabase
from .distribution import drop_local_rows, is_distributed, left_to_distribute
from .errors import check_loop, refused
from .pool import Pool
from .schema import MIGRATION_SECONDS, prepare
from .session import PostgresSession
from .standby import Standby
from .vector_search import UNPACKED_BYTES, catch_up, nearest, vectors_of

COVERED_DIMENSIONS = 1300  # what fits into an index row of 2,704 bytes
INLINE_DIMENSIONS = 4000  # what fits into a row of one page
MOST_DIMENSIONS = 16_000  # of pgvector's halfvec
MOST_AT_ONCE = 2**22  # numbers in the vectors that come in one answer
MOST_CHANGED = 1000  # memories whose vectors are read anew; where more changed, all are
MOST_ASKED = 10_000
LOOK_SECONDS = 10
_LOOK = """
SELECT to_regclass(%s) IS NOT NULL,
    EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')
        OR EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),
    to_regnamespace(%s) IS NOT NULL OR has_database_privilege(current_database(), 'CREATE')
"""

logger = logging.getLogger(__name__)


class PostgresStore(SqlStore[PostgresSession]):
    """Memories in PostgreSQL with pgvector 0.7 or newer. It belongs to the event loop that opened it."""

    supports = frozenset({"encryption_keys", "rls", "read_uri"})
    _standby: Standby | None = None

    def __init__(
        self, database: PostgresDatabase, options: OpenOptions = OpenOptions(), *, ring: KeyRing | None = None
    ) -> None:
        super().__init__(database, options, ring=ring)
        self._asked = LRUCache[tuple[bytes, int], int](MOST_ASKED)  # whose vectors one search more brings into memory
        self._loading: set[tuple[bytes, int]] = set()
        self._loads: set[asyncio.Task[None]] = set()  # of more than come in one answer: one, beside searches

    @override
    @classmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Self:
        check_loop()
        if not uri.startswith("pgserver:"):
            return await cls._open(uri, None, options)
        directory = embedded_server.directory_of(uri)
        conninfo = await asyncio.to_thread(embedded_server.start, directory)
        try:
            return await cls._open(conninfo, directory, options)
        except BaseException:
            await asyncio.to_thread(embedded_server.stop, directory)
            raise

    @classmethod
    async def _open(cls, conninfo: str, directory: Path | None, options: OpenOptions) -> Self:
        target = Target(
            conninfo=conninfo,
            schema=options.get("schema", "kagent_memory"),
            statement_seconds=options.get("statement_timeout_seconds", 15.0),
        )
        ring = KeyRing.parse(options.get("encryption_keys"))
        standby: Standby | None = None
        if (given := options.get("pool")) is not None:
            pool = await Pool.lent(given, target)
        else:
            pool = await Pool(target, size=options.get("pool_size", 10)).open()
        try:
            if await pool.use(partial(prepare, row_security=options.get("rls", False))):
                await pool.forget()
            if (read_uri := options.get("read_uri")) is not None:
                standby = await Standby.of(read_uri, target, pool, options)
        except psycopg.Error as error:
            await pool.close()
            raise refused(error) from error
        except BaseException:
            await pool.close()
            raise
        database = PostgresDatabase(pool, directory, ring=ring, wrote=standby and standby.wrote)
        store = cls(database, options, ring=ring)
        store._standby = standby
        return store

    @override
    async def close(self) -> None:
        await cancel_and_wait(*self._loads)
        if self._standby is not None:
            await self._standby.close()
        await super().close()

    @override
    def cached_views(
        self, scopes: Sequence[Scope], *, filter: Filter, now: datetime, after: Stale | None = None
    ) -> tuple[Sequence[View], str | None]:
        source: PostgresStore = self
        trouble: str | None = None
        if self._standby is not None and isinstance(after, StandbyError):
            trouble = self._standby.failed(after)
        elif self._standby is not None and (trouble := self._standby.held_off()) is None:
            there: PostgresStore = copy.copy(self)
            there._standby, there._reads = None, self._standby.database()
            source = there
        views, _ = super(PostgresStore, source).cached_views(scopes, filter=filter, now=now, after=after)
        return views, trouble

    @override
    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        if uri.startswith("pgserver:"):
            return (embedded_server.directory_of(uri) / "PG_VERSION").exists()
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                connection = await AsyncConnection.connect(
                    uri, autocommit=True, connect_timeout=LOOK_SECONDS, prepare_threshold=None
                )
                async with connection:
                    ledger = sql.Identifier(schema, "schema_migration").as_string(connection)
                    names = (ledger, sql.Identifier(schema).as_string(connection))
                    [(there, extension, right)] = await (await connection.execute(_LOOK, names)).fetchall()
        except (psycopg.Error, TimeoutError):
            return True
        if not there and not extension:
            raise ConfigurationError(
                "The pgvector extension is missing: `CREATE EXTENSION vector` needs pgvector installed on the server."
            )
        if not there and not right:
            raise ConfigurationError(
                f"The database user lacks a privilege: CREATE on the database, to make {schema!r}."
            )
        return bool(there)

    @override
    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 32, dry_run: bool = False
    ) -> Mapping[str, str]:
        check_loop()
        target = Target(conninfo=uri, schema=schema, statement_seconds=MIGRATION_SECONDS)

        async def work(connection: AnyConnection, traits: Traits) -> Mapping[str, str]:
            left = await left_to_distribute(connection, traits)
            if left and not dry_run:
                await prepare(connection, traits, shards=shards)
                await drop_local_rows(connection, traits)
            return left

        pool = await Pool(target).open()
        try:
            return await pool.use(work)
        except psycopg.Error as error:
            raise refused(error) from error
        finally:
            await pool.close()

    @override
    async def _make_vectors(self, session: PostgresSession, space: EmbeddingSpace) -> None:
        width = space.dimensions
        if width > MOST_DIMENSIONS:
            raise ConfigurationError(
                f"PostgreSQL keeps vectors of up to {MOST_DIMENSIONS:,} dimensions, and {space.name!r} has "
                f"{width:,}; set dimensions={MOST_DIMENSIONS} or less, choose another model, or use libSQL."
            )
        made = "make_vectors" if width <= COVERED_DIMENSIONS else "make_wide_vectors"
        tuned = "tune_vectors" if width <= INLINE_DIMENSIONS else "tune_long_vectors"
        guarded = ("guard_tables",) if session.row_security else ()
        for query in (made, tuned, *guarded):
            await session.define(query, space.number, width)
        if await is_distributed(session):
            await session.rows("distribute_table", {"name": f"memory_vector_{space.number}"})

    @override
    async def _drop_vectors(self, session: PostgresSession, number: int) -> None:
        if session.row_security:  # the table may be older than the guard, and then another's than maintenance's
            await session.rows("act_for_self", {})
        await session.define("drop_vectors", number, 0)

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
        read = self.reader_of(scope).read(
            nearest,
            self.indexes,
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
    async def cached_vectors(self, scope: Scope, space_number: int, index: ScopeIndex) -> ScopeVectors | None:
        key, dimensions = (scope.id, space_number), await self._dimensions_of(space_number)
        known = self._cache.known(key)
        stands = known is not None and (known.version, known.erased) == (index.version, index.erased)
        if known is not None and stands and not known.is_behind:
            return known
        is_large = index.count * dimensions > MOST_AT_ONCE
        if known is not None and is_large and key not in self._loading:
            return await self._caught_up(scope, space_number, index, known)
        if not self._cache.has_room(index.count, dimensions) or key in self._loading:
            return None
        if self._asked.get(key) != index.version:  # a scope that is written to all the time is not read for one search
            self._asked[key] = index.version
            return None
        if not is_large:
            return await self._load(scope, space_number, index.count)
        if not self._loads:
            task = asyncio.create_task(self._load_aside(scope, space_number, index.count), name="kagent-memory-vectors")
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)
        return None

    async def _caught_up(
        self, scope: Scope, space_number: int, index: ScopeIndex, held: ScopeVectors
    ) -> ScopeVectors | None:
        key, dimensions = (scope.id, space_number), await self._dimensions_of(space_number)
        if held.version > index.version:
            said = self.indexes.unchanged(scope, index.version)
            if said is None or said["salt"] == held.salt:
                return None  # the index does not know all of these yet, and would have them let go
        self._loading.add(key)
        try:
            version = index.version
            if held.lacking is None or held.erased != index.erased:
                await uninterrupted(run_in_thread(held.size // UNPACKED_BYTES, held.align, index))
            if len(held.lacking or ()) < MOST_CHANGED:
                read = self.reader_of(scope).read(
                    catch_up, scope, space_number, dimensions, held, least=version, most=MOST_CHANGED
                )
                if await self._searched(space_number, read):
                    self._cache.keep(key, held)
                    return held
            self._cache.drop(key)
            return None
        finally:
            self._loading.discard(key)

    async def _load_aside(self, scope: Scope, space_number: int, count: int) -> None:
        try:
            await self._load(scope, space_number, count)
        except KagentMemoryError as error:
            logger.warning("A scope's vectors could not be brought into memory; the database searches them: %s", error)

    async def _load(self, scope: Scope, space_number: int, count: int) -> ScopeVectors | None:
        key, dimensions = (scope.id, space_number), await self._dimensions_of(space_number)
        self._loading.add(key)
        try:
            self._cache.drop(key)
            at_once = max(2, MOST_AT_ONCE // dimensions)
            read = self.reader_of(scope).read(vectors_of, scope, space_number, dimensions, count, at_once=at_once)
            held = await self._searched(space_number, read)
            if held is not None:
                self._cache.keep(key, held)
            return held
        finally:
            self._asked.pop(key, None)
            self._loading.discard(key)

    @override
    async def unchanged(
        self, scope: Scope, ids: Sequence[str], *, version: int, marks: Mapping[int, int], now: datetime
    ) -> Mapping[str, Memory] | None:
        found = await super().unchanged(scope, ids, version=version, marks=marks, now=now)
        if found is None:
            for number in marks:
                if (held := self._cache.known((scope.id, number))) is not None:
                    held.is_behind = True
        return found
