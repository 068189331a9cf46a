"""The memories of one database. Every verb is a transaction, and all dialects share its script."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import Unpack, override

from ...concurrency import run_in_thread
from ...records import EVERYTHING, Change, Filter, Memory, Revision, Scope, Vector
from .. import planning
from ..base import MemoryStore
from ..codec import bounded, known
from ..decisions import in_order, named
from ..spaces import checked_vector
from ..values import (
    EARLIEST,
    USES,
    Applied,
    Batch,
    Delivery,
    Erasure,
    Facets,
    ForgottenTenant,
    MemoryQuery,
    Pruned,
    Restored,
    Rotated,
    ScopeQuery,
    ScopeStats,
    Whole,
)
from ..view import View
from . import forgetting, maintenance, write_queries
from .index_cache import IndexCache, ScopeView
from .index_reads import UNSEEN, SqlIndexReads, Stamp
from .row_codec import MEMORIES, Row, to_scope
from .session import Database, Part, Transaction, reading, run, writing
from .spaces import SqlEmbeddingSpaces

CACHE_MB = 256


class SqlMemoryStore(Part, MemoryStore):
    """The memories of one database.

    Args:
        database: the database; `searches` may answer some reads instead.
        cache_mb: the limit for cached indexes in MiB; see `IndexCache`.
        searches: a database, possibly a little behind, that answers searches and lists. None:
            `database`.
    """

    def __init__(
        self,
        database: Database,
        *,
        cache_mb: int = CACHE_MB,
        searches: Database | None = None,
    ) -> None:
        super().__init__(database)
        self.spaces = SqlEmbeddingSpaces(database)
        self.indexes = IndexCache(cache_mb * 2**20, self.keep_index)
        self.index_reads = SqlIndexReads(database)
        self._reader = self if searches is None else copy.copy(self)
        if searches is not None:
            self._reader.reads = searches
            self._reader.index_reads = SqlIndexReads(database, searches)

    @property
    @override
    def trouble(self) -> str | None:
        return self._reader.reads.trouble

    @override
    async def close(self) -> None:
        await self.indexes.close()
        await self._reader.reads.close()
        await self.database.close()

    @writing
    async def keep_index(
        self, session: Transaction, scope: Scope, stamp: Stamp, packed: bytes
    ) -> None:
        """Store a scope's packed index, unless something was erased since or a newer one is
        stored.
        """
        if await session.rows("hold_index", salt=stamp.salt, erased=stamp.erased):
            await session.send(
                "put_index", version=stamp.version, packed=session.codec.sealed_index(packed)
            )

    # -- one scope: writing ---------------------------------------------------------------------

    @override
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        number = batch.space_number
        dimensions = None if number is None else await self.spaces.dimensions_of(number)
        batch = await _prepared(batch, dimensions)
        self.indexes.unsettle(scope)
        return await run(
            self.database, partial(write_queries.apply, batch=batch, now=now), scope, write=True
        )

    @override
    async def forget(self, scope: Scope, which: Erasure) -> tuple[str, ...]:
        return await self._erase(
            scope, partial(forgetting.forget, which=which), dry_run=which.dry_run
        )

    async def _erase(
        self,
        scope: Scope,
        script: Callable[[Transaction], Coroutine[Any, Any, tuple[str, ...]]],
        *,
        dry_run: bool,
    ) -> tuple[str, ...]:
        erased_ids = await run(self.database, script, scope, write=not dry_run)
        if not dry_run:
            await self.database.erase()  # first: a cancelled caller may not skip it
            await self.indexes.discard(scope, erased_ids)
        return erased_ids

    @override
    async def restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool = False, now: datetime
    ) -> Sequence[Restored]:
        changes = [Change(kind="add", memory=whole.memory) for whole in memories]
        vectors = [
            {
                "id": whole.memory.id,
                "space": number,
                "embedding": checked_vector(vector, await self.spaces.dimensions_of(number)),
            }
            # of a memory that comes twice the last: a statement takes each row once
            for whole in {whole.memory.id: whole for whole in memories}.values()
            for number, vector in whole.vectors.items()
        ]
        return await run(
            self.database,
            partial(
                write_queries.restore,
                batch=await _prepared(Batch(changes=changes), None, written=not dry_run),
                memories=memories,
                vectors=vectors,
                dry_run=dry_run,
            ),
            scope,
            write=not dry_run,
        )

    @override
    async def evict(
        self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime, dry_run: bool = False
    ) -> tuple[str, ...]:
        return await self._erase(
            scope,
            partial(forgetting.evict, ids=ids, keep=keep, now=now, dry_run=dry_run),
            dry_run=dry_run,
        )

    # -- one scope: reading ---------------------------------------------------------------------

    @override
    @reading
    async def select(
        self, session: Transaction, scope: Scope, query: MemoryQuery
    ) -> Sequence[Memory]:
        if query.slots and self.database.ring is not None:
            await session.read_salt()
        values = await session.filter_values(query.filter, query.now)
        after_key, after_id = query.after or (None, None)
        return await session.memories(
            _statement(query),
            **values,
            ids=known(query.ids or ()),
            slots=session.codec.slots(query.slots or ()),
            space=query.lacking,
            after_key=after_key,
            after_id=after_id,
            limit=bounded(query.limit),
        )

    @property
    @override
    def reader(self) -> MemoryStore:
        return self._reader

    @override
    async def view(
        self, scope: Scope, *, filter: Filter = EVERYTHING, now: datetime, cached: bool = False
    ) -> View:
        steady = self.indexes.steady(scope) if cached and filter == EVERYTHING else None
        current, passing = steady or await self.indexes.current(scope, self.index_reads), None
        if filter != EVERYTHING and filter != Filter(superseded=True):
            passing = await self.index_reads.passing(scope, filter, now=now)
        return ScopeView(
            self,
            scope,
            current.index,
            filter,
            passing,
            now,
            indexes=self.indexes,
            reads=self.index_reads,
            cached=current,
            trusted=steady and steady.stamp,
        )

    @override
    async def kept(self, scope: Scope, filter: Filter) -> Sequence[str]:
        any_state = filter if filter.superseded else replace(filter, superseded=True)
        return sorted(await self.index_reads.passing(scope, any_state, now=EARLIEST))

    @override
    @reading
    async def whole(
        self, session: Transaction, scope: Scope, ids: Sequence[str] | None = None
    ) -> Sequence[Whole]:
        if ids is None:
            ids = await session.ids("scope_memories")
        return [*(await session.wholes(ids)).values()]

    @override
    @reading
    async def changed_since(
        self, session: Transaction, scope: Scope, at: datetime
    ) -> Mapping[str, bool]:
        [row] = await session.rows("changed_since", at=at)
        return {
            **dict.fromkeys(row["existing"].split(), True),
            **dict.fromkeys(row["absent"].split(), False),
        }

    @override
    async def vectors(
        self, scope: Scope, space_number: int, ids: Sequence[str]
    ) -> Mapping[str, Vector]:
        page = await self.index_reads.vectors(scope, space_number, UNSEEN, known(ids))
        if not page.ids:
            return {}
        vectors = page.vectors.astype(np.float32).reshape(len(page.ids), -1)
        return dict(zip(page.ids, vectors, strict=True))

    @override
    @reading
    async def taken(
        self, session: Transaction, scope: Scope, session_id: str, event_ids: Sequence[str]
    ) -> frozenset[str]:
        rows = await session.rows("taken_events", session_id=session_id, event_ids=[*event_ids])
        return frozenset(row["event_id"] for row in rows)

    @override
    @reading
    async def group(self, session: Transaction, scope: Scope, group: str) -> Sequence[Revision]:
        return await session.revisions("revisions_in", group=group)

    @override
    @reading
    async def version(self, session: Transaction, scope: Scope) -> int:
        row = await session.row("scope_row")
        return row["version"] if row else 0

    @override
    async def facets(
        self, scope: Scope, *, filter: Filter = Filter(), most: int = 100, now: datetime
    ) -> Facets:
        if self.database.ring is not None:  # the database holds digests
            return await super().facets(scope, filter=filter, most=most, now=now)
        return await self._facets(scope, filter, most, now)

    @reading
    async def _facets(
        self, session: Transaction, scope: Scope, filter: Filter, most: int, now: datetime
    ) -> Facets:
        values = await session.filter_values(filter, now)
        [row] = await session.rows("facets", **values, most=bounded(most))
        if row["sealed"] is not None:  # raises: there are no keys
            session.codec.opened(MEMORIES, row)
        return Facets(row["total"], row["topics"], row["tags"])

    @override
    @reading
    async def stats(
        self, session: Transaction, scope: Scope, *, now: datetime, popular_after: int = 10
    ) -> ScopeStats:
        [row] = await session.rows("scope_stats", now=now, popular_after=popular_after)
        counts = {**row}
        return ScopeStats(pinned=counts.pop("pins"), **counts)

    # -- across scopes --------------------------------------------------------------------------

    @override
    @writing
    async def count(self, session: Transaction, deliveries: Sequence[Delivery]) -> None:
        for delivery in sorted(deliveries, key=lambda each: each.scope.id):
            ids = sorted(known(id for counts in delivery.counts.values() for id in counts))
            counts = {use: [delivery.counts.get(use, {}).get(id, 0) for id in ids] for use in USES}
            await session.send(
                "count_usage", scope_id=delivery.scope.id, ids=ids, now=delivery.at, **counts
            )

    @override
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        script = partial(maintenance.prune, now=now, popular_after=popular_after, dry_run=dry_run)
        total = Pruned()
        async for rows in maintenance.pages(self.database, "expired_scopes", now=now):
            for scope in map(to_scope, rows):  # one transaction each, to block its writers briefly
                total += await run(self.database, script, scope, write=not dry_run)
        if total.deleted and not dry_run:
            self.indexes.drop()
            await self.database.erase()
        return total

    @override
    async def forget_tenant(
        self, tenant: str, *, limit: int, who: str | None = None, now: datetime
    ) -> ForgottenTenant:
        tokens, rows = await self._revoke_tokens(tenant)
        erased, remaining = ForgottenTenant(tokens=tokens, done=not rows), max(limit, 1)
        for scope in map(to_scope, rows):
            at_most = min(remaining, forgetting.ERASED_AT_ONCE)
            script = partial(forgetting.erase_some, limit=at_most, who=who, now=now)
            gone = await run(self.database, script, scope, write=True)
            self.indexes.drop(scope)
            erased += gone
            remaining -= max(gone.memories, 1)
            if remaining <= 0:
                break
        if rows or tokens:
            await self.database.erase()
        return erased

    @writing
    async def _revoke_tokens(self, session: Transaction, tenant: str) -> tuple[int, Sequence[Row]]:
        """Revoke a tenant's tokens; return their number, and some of its remaining scopes."""
        tokens = await session.rows("drop_tokens", tenant=tenant)
        return len(tokens), await session.rows(
            "tenant_scopes", tenant=tenant, limit=maintenance.SCOPES_AT_ONCE
        )

    @override
    @reading
    async def lacking_vectors(
        self, session: Transaction, scopes: Sequence[Scope], space_number: int, *, now: datetime
    ) -> Sequence[Scope]:
        rows = await session.rows(
            "lacking_vectors",
            space=space_number,
            scope_ids=[scope.id for scope in scopes],
            now=now,
        )
        return [*map(to_scope, rows)]

    @override
    @reading
    async def scopes(self, session: Transaction, **which: Unpack[ScopeQuery]) -> Sequence[Scope]:
        parts, limit = named(which), bounded(which.setdefault("limit", 1000))
        fixed = [name for name, part in parts.items() if part is not None]
        start = {f"from_{name}": getattr(which.get("after"), name, "") for name in parts}
        values = {**parts, **start, "limit": limit + 1}  # `after` itself may be among them
        rows = await session.rows("_".join(["scopes", *fixed]), **values)
        if fixed != ["tenant", "user"]:  # the index of a page lacks long names
            rows = [*rows, *await session.rows("long_scopes", **values)]
        return in_order(map(to_scope, rows), **which)

    @override
    @reading
    async def about(self, session: Transaction) -> Mapping[str, str]:
        rows = await session.rows("about")
        if any(row["part"] == "cluster" for row in rows):
            rows = [*rows, *await session.rows("about_cluster")]
        return {row["part"]: row["text"] for row in rows if row["text"]}

    @override
    @reading
    async def node(self, session: Transaction) -> Mapping[str, float]:
        [node] = await session.rows("node")
        return node

    @override
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        return await maintenance.rotate(self.database, dry_run=dry_run)


def _statement(query: MemoryQuery) -> str:
    """Return the name of the statement whose index fits a query."""
    if query.ids is not None:
        return "visible_memories"
    if query.slots is not None:
        return "in_slots"
    if query.lacking is not None:
        return "unembedded"
    is_short_term = query.filter.superseded == "short_term" and query.order == "newest"
    return "list_short_term" if is_short_term else f"list_{query.order}"


async def _prepared(batch: Batch, dimensions: int | None, *, written: bool = True) -> Batch:
    chars = sum(len(change.memory.content) for change in batch.changes)
    size = chars + len(batch.vectors) + len(batch.taken)
    return await run_in_thread(size, planning.prepared, batch, dimensions, written=written)
