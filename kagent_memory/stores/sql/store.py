"""What SQL stores have in common: verbs as transactions, each a script that is written once for all dialects."""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from typing_extensions import override

from ...concurrency import LONG, cancel_and_wait, each_aside, run_in_thread
from ...errors import ConfigurationError, InvalidInput, StoreError
from ...records import EVERYTHING, Change, Filter, Memory, Revision, Scope, Vector
from .. import planning
from ..base import (
    Applied,
    Batch,
    Delivery,
    Facets,
    Job,
    JobKind,
    JobState,
    OpenOptions,
    Order,
    Page,
    PendingJobs,
    Pruned,
    ScopeStats,
    Token,
)
from ..encryption import KeyRing
from ..receipts import Receipt, ReceiptChain
from ..text_index import ScopeIndex
from ..values import ForgottenTenant, Restored, Rotated, Whole
from ..vector_index import ScopeVectors, VectorCache
from ..view import Nearest, Stale, View
from . import forgetting, maintenance, queue, read_queries, receipts, rotation, tokens, transfer, write_queries
from .index_cache import Indexes
from .scope_view import SEARCHED_BYTES, ScopeView
from .session import Database
from .spaces import ATTEMPTS, AnySession, SpaceStore

logger = logging.getLogger(__name__)

CACHE_MB = 256
CANDIDATES = 100
SERVED = 100
PACKING_AT_ONCE = 2
PACKING_SECONDS = 5.0
MOST_PACKED = 64 * 2**20
SCOPES_AT_ONCE = 100
ERASED_AT_ONCE = 500
RESEALED = 200


class SqlStore(SpaceStore[AnySession]):
    """A store whose verbs are the scripts of `stores.sql`, run by an adapter's `Database`.

    An adapter adds `open` and `nearest`, which are its own, and how the table of an embedding space is made.
    """

    supports = frozenset({"encryption_keys"})

    def __init__(
        self, database: Database[AnySession], options: OpenOptions = OpenOptions(), *, ring: KeyRing | None = None
    ) -> None:
        super().__init__(database)
        cache_bytes = options.get("cache_mb", CACHE_MB) * 2**20
        self._reads = database  # of one scope, for readers
        self._ring = ring
        self.indexes = Indexes(cache_bytes)
        self._cache = VectorCache(cache_bytes)
        self._served = deque[bytes](maxlen=SERVED)  # the ids of the scopes whose jobs were claimed, the last at the end
        self._due = queue.Due()
        self._packing: set[asyncio.Task[None]] = set()

    @override
    async def close(self) -> None:
        self.indexes.note_unpacked()
        with suppress(TimeoutError):
            async with asyncio.timeout(PACKING_SECONDS):
                await self._pack_all()
        await cancel_and_wait(*self._packing)
        await self._database.close()
        self.indexes.drop()
        self._cache.drop()

    def pack_outgrown(self) -> None:
        """Begin to keep the packed indexes of scopes that have outgrown theirs: a few at a time, beside searches."""
        outgrown = self.indexes.outgrown
        while outgrown and len(self._packing) < PACKING_AT_ONCE:
            task = asyncio.create_task(self._pack(outgrown.pop()), name="kagent-memory-index")
            self._packing.add(task)
            task.add_done_callback(self._packing.discard)

    async def _pack_all(self) -> None:
        self.pack_outgrown()
        while self._packing:
            await asyncio.wait(self._packing, return_when=asyncio.FIRST_COMPLETED)
            self.pack_outgrown()

    async def _pack(self, scope: Scope) -> None:
        packed = await run_in_thread(LONG, self.indexes.packed, scope)
        if packed is None or len(packed.packed) > MOST_PACKED:
            return
        try:
            await self._database.within(scope).write(write_queries.keep_index, scope, packed)
        except StoreError as error:
            logger.warning("A scope's index could not be kept; each process loads it memory by memory: %s", error)

    def _of(self, scopes: Collection[Scope]) -> Database[AnySession]:
        """The database for scripts of these scopes, restricted to the scope where there is only one."""
        return self._database.within(*scopes) if len(scopes) == 1 else self._database

    # -- one scope: writing ---------------------------------------------------------------------

    @override
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        if batch.vectors and batch.space_number is None:
            raise InvalidInput("Vectors need the number of their embedding space.")
        dimensions = None if batch.space_number is None else await self._dimensions_of(batch.space_number)
        texts = planning.Texts(await each_aside(batch.changes, _length, planning.texts_of))
        batch = await run_in_thread(
            len(batch.vectors) + len(batch.taken), planning.with_checked_vectors, batch, dimensions
        )
        steady = self.indexes.unsettle(scope)
        write = self._of({scope} | {job.scope for job in batch.jobs}).write
        applied, written = await write(write_queries.apply, scope, batch, texts=texts, now=now)
        if written is not None and self._ring is None:
            self.indexes.written(scope, written, steady=steady)
        return applied

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
        database = self._database.within(scope)
        gone = await (database.read if dry_run else database.write)(
            forgetting.forget,
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
            await self._let_go(scope, gone)
        return gone

    async def _let_go(self, scope: Scope, gone: Sequence[str]) -> None:
        """Drops what is cached of a scope from which these memories were erased."""
        if (index := self.indexes.at_hand(scope)) is not None:
            await run_in_thread(index.size // SEARCHED_BYTES, index.discard, gone)
        for number in self._dimensions:
            self._cache.discard((scope.id, number), gone)

    @override
    async def kept(self, scope: Scope, filter: Filter) -> Sequence[str]:
        return await self.reader_of(scope).read(read_queries.kept, scope, filter)

    @override
    async def whole(self, scope: Scope, ids: Sequence[str]) -> Sequence[Whole]:
        return await self.reader_of(scope).read(transfer.whole, scope, ids)

    @override
    async def vectors(self, scope: Scope, space_number: int, ids: Sequence[str]) -> Mapping[str, Vector]:
        await self._dimensions_of(space_number)
        read = self.reader_of(scope).read(transfer.vectors, scope, space_number, ids)
        return await self._searched(space_number, read)

    @override
    async def restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool = False, now: datetime
    ) -> Sequence[Restored]:
        changes = [Change(kind="add", memory=one.memory) for one in memories]
        texts = planning.Texts(await each_aside(changes, _length, planning.texts_of))
        fitting: list[Whole] = []
        for one in memories:
            vectors = {n: (await self.checked_vectors(n, [vector]))[0] for n, vector in one.vectors.items()}
            fitting.append(replace(one, vectors=vectors))
        database = self._database.within(scope)
        run = database.read if dry_run else database.write
        return await run(transfer.restore, scope, fitting, texts=texts, dry_run=dry_run)

    @override
    async def evict(self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime) -> tuple[str, ...]:
        gone = await self._database.within(scope).write(forgetting.evict, scope, ids, keep=keep, now=now)
        await self._let_go(scope, gone)
        return gone

    @override
    async def feedback(self, scope: Scope, memory_id: str, *, success: bool) -> None:
        await self._database.within(scope).write(write_queries.feedback, scope, memory_id, success=success)

    # -- one scope: reading ---------------------------------------------------------------------

    @override
    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        return await self.reader_of(scope).read(read_queries.get, scope, ids, now=now, superseded=superseded)

    @override
    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        now: datetime,
    ) -> Page:
        return await self.reader_of(scope).read(
            read_queries.list_page, scope, filter=filter, order=order, limit=limit, cursor=cursor, now=now
        )

    @override
    def view(self, scope: Scope, *, filter: Filter = EVERYTHING, now: datetime) -> View:
        return ScopeView(self, scope, filter=filter, now=now)

    @override
    def cached_views(
        self, scopes: Sequence[Scope], *, filter: Filter, now: datetime, after: Stale | None = None
    ) -> tuple[Sequence[View], str | None]:
        is_trusted = len(scopes) == 1 and after is None
        return [ScopeView(self, scope, filter=filter, now=now, cached=is_trusted) for scope in scopes], None

    def reader_of(self, scope: Scope) -> Database[AnySession]:
        """Return the database that searches of a scope read."""
        return self._reads.within(scope)

    async def unchanged(
        self, scope: Scope, ids: Sequence[str], *, version: int, marks: Mapping[int, int], now: datetime
    ) -> Mapping[str, Memory] | None:
        """Return the visible ones of these memories; None where the scope was written to since this version.

        The question whether its vectors still are at these marks (by embedding space) is part of the same statement.
        """
        return await self.reader_of(scope).read(
            read_queries.unchanged, self.indexes, scope, ids, version=version, marks=marks, now=now
        )

    async def cached_vectors(self, scope: Scope, space_number: int, index: ScopeIndex) -> ScopeVectors | None:
        """Return the vectors of a scope whose index is current, where they are in memory."""
        return self._cache.known((scope.id, space_number))

    @abstractmethod
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
        """Return what `View.nearest` promises, read from the database.

        Args:
            scope: whose memories.
            space_number: of which embedding space.
            vectors: checked ones.
            limit: how many for each vector.
            filter: which memories.
            version: of the scope, seen just now; which memories are visible need not be newer.
            passing: the ids that pass the filter, where they were read just now.
            now: the time.
        """

    @override
    async def in_slots(self, scope: Scope, slots: Sequence[str], *, now: datetime) -> Sequence[Memory]:
        return await self.reader_of(scope).read(read_queries.in_slots, scope, slots=slots, now=now)

    @override
    async def short_term(self, scope: Scope, *, session_id: str | None, limit: int, now: datetime) -> Sequence[Memory]:
        return await self.reader_of(scope).read(
            read_queries.short_term, scope, session_id=session_id, limit=limit, now=now
        )

    @override
    async def keeps_short_term(self) -> bool:
        return await self._database.read(maintenance.keeps_short_term)

    @override
    async def taken(self, scope: Scope, session_id: str, event_ids: Sequence[str]) -> frozenset[str]:
        return await self.reader_of(scope).read(read_queries.taken, scope, session_id, event_ids)

    @override
    async def history(self, scope: Scope, memory_id: str) -> Sequence[Revision]:
        return await self.reader_of(scope).read(read_queries.history, scope, memory_id)

    @override
    async def group(self, scope: Scope, group: str) -> Sequence[Revision]:
        return await self.reader_of(scope).read(read_queries.group, scope, group)

    @override
    async def unembedded(self, scope: Scope, space_number: int, *, limit: int, now: datetime) -> Sequence[Memory]:
        await self._dimensions_of(space_number)
        return await self.reader_of(scope).read(read_queries.unembedded, scope, space_number, limit=limit, now=now)

    @override
    async def unembedded_ids(self, scope: Scope, space_number: int, *, now: datetime) -> Sequence[str]:
        await self._dimensions_of(space_number)
        return await self.reader_of(scope).read(read_queries.unembedded_ids, scope, space_number, now=now)

    @override
    async def orphans(self, scope: Scope) -> Mapping[str, Sequence[str]]:
        return await self.reader_of(scope).read(read_queries.orphans, scope)

    @override
    async def version(self, scope: Scope) -> int:
        return await self.reader_of(scope).read(read_queries.version, scope)

    @override
    async def facets(self, scope: Scope, *, filter: Filter = Filter(), most: int = 100, now: datetime) -> Facets:
        if self._ring is not None:  # the database holds digests
            return await super().facets(scope, filter=filter, most=most, now=now)
        return await self.reader_of(scope).read(read_queries.facets, scope, filter=filter, most=most, now=now)

    @override
    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        return await self.reader_of(scope).read(read_queries.stats, scope, now=now, popular_after=popular_after)

    # -- across scopes: models, queue, maintenance ----------------------------------------------

    @override
    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        for _ in range(ATTEMPTS):
            widths = await self._database.read(maintenance.widths, tenant=tenant)
            if dimensions in widths or len(widths) >= most:
                return widths
            async with self._making:
                await self._database.write(maintenance.note_width, tenant=tenant, dimensions=dimensions, most=most)
        raise StoreError("Several processes are registering vector widths at the same time; try again.")

    @override
    async def enqueue(self, jobs: Sequence[Job]) -> None:
        if jobs:
            await self._of({job.scope for job in jobs}).write(queue.enqueue, jobs)
            self._due.clear()  # who is new here has their turn next

    @override
    async def claim(
        self, owner: str, *, now: datetime, lease_seconds: float, exclude: Sequence[tuple[str, str]] = ()
    ) -> Job | None:
        unreadable: ConfigurationError | None = None
        self._due.expire(exclude)
        while True:
            if (found := self._due.next()) is None:
                if unreadable is not None:
                    raise unreadable
                self._due.fill(
                    await self._database.read(
                        queue.claimable, now=now, exclude=exclude, served=list(self._served), limit=CANDIDATES
                    ),
                    exclude,
                )
                if (found := self._due.next()) is None:
                    return None
            scope, id, fence = found
            try:
                mine = await self._database.within(scope).write(
                    queue.take, scope, id, fence, owner, now=now, lease_seconds=lease_seconds
                )
            except ConfigurationError as error:  # its key is missing: it waits, and holds up nobody else's
                mine, unreadable = None, error
                self._note_served(scope)
            if mine:
                self._note_served(scope)
                self._due.drop(scope)
                return mine

    def _note_served(self, scope: Scope) -> None:
        if scope.id in self._served:
            self._served.remove(scope.id)
        self._served.append(scope.id)

    @override
    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        return await self._database.within(job.scope).write(queue.renew, job, lease_seconds=lease_seconds)

    @override
    async def release(
        self, job: Job, *, run_after: datetime, error: str, dead: bool = False, payload: Mapping[str, Any] | None = None
    ) -> bool:
        return await self._database.within(job.scope).write(
            queue.release, job, run_after=run_after, error=error, dead=dead, payload=payload
        )

    @override
    async def end(self, job_id: str, fence: int) -> bool:
        return await self._database.write(queue.end, job_id, fence)

    @override
    async def withdraw(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Collection[str] = (),
    ) -> None:
        await self._database.within(scope).write(
            queue.withdraw, scope, session_id=session_id, everything=everything, event_ids=event_ids
        )

    @override
    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        state: JobState | None = None,
        limit: int = 100,
        id: str | None = None,
        payloads: bool = True,
    ) -> Sequence[Job]:
        database = self._database if scope is None else self._database.within(scope)
        return await database.read(
            queue.jobs,
            scope=scope,
            tenant=tenant,
            user=user,
            app=app,
            state=state,
            limit=limit,
            id=id,
            payloads=payloads,
        )

    @override
    async def waiting(self, scope: Scope, kind: JobKind, key: str) -> Job | None:
        return await self._database.within(scope).read(queue.waiting, scope, kind=kind, key=key)

    @override
    async def pending(self, *, now: datetime) -> PendingJobs:
        return await self._database.read(queue.pending, now=now)

    @override
    async def count(self, deliveries: Sequence[Delivery]) -> None:
        if any(one.retrieved or one.delivered or one.successes or one.failures for one in deliveries):
            await self._of({one.scope for one in deliveries}).write(write_queries.count, deliveries)

    @override
    async def retry(self, job_id: str, *, now: datetime) -> None:
        await self._database.write(queue.retry, job_id, now=now)

    @override
    async def drop(self, job_id: str) -> None:
        await self._database.write(queue.drop, job_id)

    @override
    async def lease(self, name: str, owner: str, *, seconds: float) -> bool:
        return await self._database.write(maintenance.lease, name, owner, seconds=seconds)

    @override
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        run = self._database.read if dry_run else self._database.write
        after: str | bytes | None = None
        total = Pruned()
        while some := await self._database.read(maintenance.expired_scopes, after=after, now=now):
            total += await run(maintenance.prune, some, now=now, popular_after=popular_after, dry_run=dry_run)
            after = some[-1][0]
        if total.deleted and not dry_run:
            self.indexes.drop()
            self._cache.drop()
        if not dry_run:
            await self._database.write(maintenance.release_widths)
        return total

    @override
    async def forget_tenant(self, tenant: str, *, limit: int, who: str | None = None, now: datetime) -> ForgottenTenant:
        tokens = await self._database.write(forgetting.drop_tokens, tenant=tenant)
        memories, gone, left = 0, set[Scope](), max(limit, 1)
        while some := await self._database.read(forgetting.tenant_scopes, tenant=tenant, limit=SCOPES_AT_ONCE):
            for scope in some:
                if left <= 0:
                    return ForgottenTenant(scopes=len(gone), memories=memories, tokens=tokens, done=False)
                database, ended = self._database.within(scope), False
                while not ended and left > 0:
                    most = min(left, ERASED_AT_ONCE)
                    erased, ended = await database.write(forgetting.erase_some, scope, limit=most, who=who, now=now)
                    memories, left = memories + erased, left - max(erased, 1)
                gone |= {scope} if ended else set()  # a worker may have begun it anew
                self.indexes.drop(scope)
                for number in self._dimensions:
                    self._cache.drop((scope.id, number))
        await self._database.write(forgetting.erase_widths, tenant=tenant)
        return ForgottenTenant(scopes=len(gone), memories=memories, tokens=tokens)

    @override
    async def lacking_vectors(self, scopes: Sequence[Scope], space_number: int, *, now: datetime) -> Sequence[Scope]:
        await self._dimensions_of(space_number)
        return await self._database.read(maintenance.lacking_vectors, scopes, space_number, now=now)

    @override
    async def crowded(self, *, above: int, now: datetime) -> Sequence[tuple[Scope, int]]:
        return await self._database.read(maintenance.crowded, above=above, now=now)

    @override
    async def scopes(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        app: str | None = None,
        after: Scope | None = None,
        limit: int = 1000,
    ) -> Sequence[Scope]:
        return await self._database.read(
            maintenance.scopes, tenant=tenant, user=user, app=app, after=after, limit=limit
        )

    @override
    async def add_receipt(self, scope: Scope, kind: str, ids: Sequence[str], *, who: str, now: datetime) -> None:
        await self._database.within(scope).write(receipts.add, scope, kind, ids, who=who, now=now)

    @override
    async def receipts(self, chain: str, *, after: int = 0, limit: int = 1000) -> Sequence[Receipt]:
        return await self._database.read(receipts.find, chain, after=after, limit=limit)

    @override
    async def chain(self, chain: str) -> ReceiptChain | None:
        return await self._database.read(receipts.chain, chain)

    @override
    async def chains(self) -> Sequence[str]:
        return await self._database.read(receipts.chains)

    @override
    async def add_token(self, token: Token) -> None:
        await self._database.write(tokens.add, token)

    @override
    async def tokens(self, *, digest: str | None = None) -> Sequence[Token]:
        return await self._database.read(tokens.find, digest)

    @override
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        if self._ring is None:
            raise ConfigurationError("There is no key to encrypt with: set KAGENT_MEMORY_ENCRYPTION_KEYS=id:key.")
        header = self._ring.header
        scopes, rows, after = 0, 0, None
        while some := await self._database.read(rotation.next_scopes, header, after=after, limit=SCOPES_AT_ONCE):
            for scope in (scope for scope, is_stale in some if is_stale):
                scopes, database = scopes + 1, self._database.within(scope)
                while not dry_run and (done := await database.write(rotation.reseal, scope, header, limit=RESEALED)):
                    rows += done
            after = some[-1][0]
        return Rotated(key=self._ring.current, scopes=scopes, rows=rows)

    @override
    async def about(self) -> Mapping[str, str]:
        return await self._database.read(maintenance.about)

    @override
    async def drop_token(self, token_id: str) -> None:
        await self._database.write(tokens.drop, token_id)


def _length(change: Change) -> int:
    return len(change.memory.content)
