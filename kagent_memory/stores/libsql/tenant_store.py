"""`libsql:///directory/{tenant}.db`: one file a tenant, behind one store.

What belongs to a tenant lies in its file, its queue, its tombstones and its receipts included, so that every promise of
a transaction holds as in one file. A catalogue beside them, `@tenants.db`, holds what is common: the numbers of
the embedding spaces, which each file takes over, bearer tokens, leases, which files may hold jobs, and the receipts of
tenants that were forgotten.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote, urlsplit

from typing_extensions import Unpack, override

from ...concurrency import LRU
from ...errors import Conflict, KagentMemoryError, NotFound, StoreError
from ...records import Scope, Vector
from ..base import (
    Applied,
    Batch,
    Delivery,
    EmbeddingSpace,
    Job,
    JobState,
    OpenOptions,
    PendingJobs,
    Pruned,
    checked_job,
)
from ..encryption import KeyRing
from ..receipts import Receipt, ReceiptChain, chain_id
from ..sql import forgetting
from ..sql.decoding import named
from ..sql.session import Row
from ..values import ForgottenTenant, Rotated
from .database import Database, Moved
from .location import check_file
from .session import LibSQLSession
from .store import LibSQLStore
from .tenant_files import (
    CATALOGUE,
    PLACE,
    OpenFiles,
    TenantDatabase,
    TenantFile,
    TenantPlaces,
    TenantView,
    file_name,
    named_tenant,
)

T = TypeVar("T")
ATTEMPTS = 5
SERVED = 1000
NOTED_SECONDS = 30.0  # half of what a note is good for without a job


def names_tenants(uri: str) -> bool:
    """Whether a URI asks for one file a tenant."""
    return PLACE in unquote(urlsplit(uri).path)


class TenantFileStore(LibSQLStore):
    """Memories in one SQLite file a tenant. URI: `libsql:///directory/{tenant}.db`."""

    def __init__(
        self,
        places: TenantPlaces,
        catalogue: Database,
        options: OpenOptions = OpenOptions(),
        *,
        ring: KeyRing | None = None,
    ) -> None:
        super().__init__(TenantDatabase(self._run, catalogue), options, ring=ring)
        self._places = places
        self._driver = options.get("driver")
        self._key = options.get("file_encryption_key")
        self._catalogue = TenantFile(catalogue, ring)
        self._files = OpenFiles(self._opened)
        self._spaces: Sequence[Row] = ()
        self._turns = LRU[str, None](SERVED)  # the tenants whose jobs were claimed last
        self._noted = LRU[str, float](SERVED)
        self._long_names: dict[str, str] = {}

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Self:
        ring, places = KeyRing.parse(options.get("encryption_keys")), TenantPlaces.parse(uri)
        driver, key = options.get("driver"), options.get("file_encryption_key")
        catalogue = await Database.open_place(places.path(CATALOGUE), driver, ring, key=key)
        store = cls(places, catalogue, options, ring=ring)
        try:
            await store.embedding_spaces()
        except BaseException:
            await store.close()
            raise
        return store

    @classmethod
    @override
    async def exists(cls, uri: str, *, schema: str = "kagent_memory", table_prefix: str = "") -> bool:
        places = TenantPlaces.parse(uri)
        await asyncio.to_thread(check_file, places.path(CATALOGUE))
        there = await asyncio.to_thread(places.names)
        return bool(there) or await asyncio.to_thread(Path(places.path(CATALOGUE)).exists)

    @override
    async def close(self) -> None:
        await super().close()
        await self._files.close()
        await self._catalogue.close()

    # -- the files ------------------------------------------------------------------------------

    async def _run(self, tenant: str, work: Callable[[TenantFile], Awaitable[T]], /, *, makes: bool = False) -> T:
        named(tenant=tenant)
        for _ in range(ATTEMPTS):
            if not makes and tenant not in self._files and not await asyncio.to_thread(self._path(tenant).exists):
                return await work(self._catalogue)
            async with self._files.use(tenant) as file:
                try:
                    await self._take_over_numbers(file)
                    return await work(file)
                except Moved:
                    self._files.let_go(tenant, file)
        raise StoreError("The tenant's file keeps being removed while it is in use; try again.")

    def _path(self, tenant: str) -> Path:
        return Path(self._places.path(file_name(tenant)))

    async def _opened(self, tenant: str) -> TenantFile:
        path = str(self._path(tenant))
        file = await self._file_at(path, removable=True)
        try:
            await self.embedding_spaces()  # after the file is there: who changes them later finds it among the others
            await self._take_over_numbers(file)
            await file.copy_chain(tenant, self._catalogue)  # of a tenant who was forgotten, and came again
            if (await file.next_work())["jobs"] and tenant not in await self._working_tenants():
                await self._note(tenant, None, seconds=0.0)
        except BaseException:
            await file.close()
            raise
        return file

    async def _file_at(self, path: str, *, removable: bool = False) -> TenantFile:
        ring = self._ring
        return TenantFile(await Database.open_place(path, self._driver, ring, key=self._key, removable=removable), ring)

    async def _take_over_numbers(self, file: TenantFile) -> None:
        """Embedding spaces are numbered by the catalogue; what a file brings from elsewhere joins them."""
        while file.spaces is not self._spaces:
            known = {(row["name"], row["dimensions"]) for row in self._spaces}
            dropped = {(row["number"], row["name"]) for row in self._spaces if row["state"] == "dropped"}
            for row in await file.embedding_spaces():
                was_dropped = (row.number, f"{row.name} (dropped {row.number})") in dropped
                if (row.name, row.dimensions) not in known and not was_dropped:
                    await self.add_embedding_space(row.name, row.dimensions, row.probe)
            if await file.number_spaces(self._spaces):
                self._cache.drop()
            await self.embedding_spaces()  # whoever changed them meanwhile may have been here before

    async def _tenants(self) -> Sequence[str]:
        """All that have a file, in order."""
        found: list[str] = []
        for name in await asyncio.to_thread(self._places.names):
            tenant = named_tenant(name) or self._long_names.get(name)
            if tenant is None and name != file_name(""):
                file = await self._file_at(self._places.path(name))
                try:
                    tenant = await file.tenant()
                finally:
                    await file.close()
                if tenant is None or file_name(tenant) != name:  # nobody is in it, or it was not made here
                    continue
                self._long_names[name] = tenant
            found.append(tenant or "")
        return sorted(found)

    async def _in_each(
        self, work: Callable[[TenantFile], Awaitable[T]], tenants: Sequence[str] | None = None
    ) -> Mapping[str, T]:
        """What some work gives in each file, in order; what fails in one of them is raised after all the others."""
        found: dict[str, T] = {}
        failed: KagentMemoryError | None = None
        for tenant in await self._tenants() if tenants is None else tenants:
            try:
                found[tenant] = await self._run(tenant, work)
            except KagentMemoryError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return found

    # -- embedding spaces -----------------------------------------------------------------------

    @override
    async def embedding_spaces(self) -> Sequence[EmbeddingSpace]:
        rows = await self._catalogue.all_spaces()
        if list(rows) != list(self._spaces):
            self._spaces = rows
        return await self._catalogue.embedding_spaces()

    @override
    async def add_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        space = await super().add_embedding_space(name, dimensions, probe)
        await self.embedding_spaces()
        return space

    @override
    async def replace_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        space = await super().replace_embedding_space(name, dimensions, probe)
        await self._number_all()
        return space

    @override
    async def finish_replacing(self, number: int) -> None:
        await super().finish_replacing(number)
        await self._number_all()

    @override
    async def drop_retired(self) -> Sequence[str]:
        dropped = await super().drop_retired()
        await self._number_all()
        await self._in_each(lambda file: file.database.erase())
        return dropped

    async def _number_all(self) -> None:
        await self.embedding_spaces()
        await self._in_each(self._take_over_numbers)  # those that are open have them already

    @override
    async def keeps_short_term(self) -> bool:
        return True  # to know it, every tenant's file would be opened

    @override
    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        return await self._run(tenant, lambda file: file.note_width(tenant, dimensions, most=most), makes=most > 0)

    # -- what may be of several tenants ---------------------------------------------------------

    @override
    def _of(self, scopes: Collection[Scope]) -> TenantView:
        return TenantView(self._run, next(iter(scopes)).tenant)  # of one tenant, as the verbs below see to

    @override
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        for job in batch.jobs:
            checked_job(job)
        if batch.job is not None and not await asyncio.to_thread(self._path(scope.tenant).exists):
            raise Conflict(f"The job {batch.job[0]} is gone with all of its tenant.")
        here = [job for job in batch.jobs if job.scope.tenant == scope.tenant]
        batch, elsewhere = replace(batch, jobs=here), [job for job in batch.jobs if job not in here]
        if here or batch.job:
            due = [job.run_after for job in here]
            async with self._noting(scope.tenant, now if batch.job or not due else min(due)):
                applied = await super().apply(scope, batch, now=now)
        else:
            applied = await super().apply(scope, batch, now=now)
        if batch.vectors:
            await self.embedding_spaces()
            if any(row["state"] in ("filling", "retired") for row in self._spaces):  # it may have queued a job
                await self._note(scope.tenant, now)
        await self.enqueue(elsewhere)
        return applied

    @override
    async def enqueue(self, jobs: Sequence[Job]) -> None:
        for tenant, some in _by_tenant(map(checked_job, jobs), lambda job: job.scope).items():
            async with self._noting(tenant, min(job.run_after for job in some)):
                await self._run(tenant, partial(LibSQLStore.enqueue, jobs=some), makes=True)

    @override
    async def count(self, deliveries: Sequence[Delivery]) -> None:
        for some in _by_tenant(deliveries, lambda one: one.scope).values():
            await super().count(some)

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
        named(tenant=tenant, user=user, app=app)
        found: list[Scope] = []
        for one in await self._tenants() if tenant is None else [tenant]:
            if (after is None or one >= after.tenant) and len(found) < limit:
                narrowed = partial(LibSQLStore.scopes, tenant=one, user=user, app=app, after=after)
                found += await self._run(one, partial(narrowed, limit=limit - len(found)))
        return found

    @override
    async def lacking_vectors(self, scopes: Sequence[Scope], space_number: int, *, now: datetime) -> Sequence[Scope]:
        await self._dimensions_of(space_number)
        lacking: list[Scope] = []
        for tenant, some in sorted(_by_tenant(scopes, lambda scope: scope).items()):
            work = partial(LibSQLStore.lacking_vectors, scopes=some, space_number=space_number, now=now)
            lacking += await self._run(tenant, work)
        return lacking

    @override
    async def crowded(self, *, above: int, now: datetime) -> Sequence[tuple[Scope, int]]:
        found = await self._in_each(lambda file: file.crowded(above=above, now=now))
        return [one for some in found.values() for one in some]

    @override
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        async def one(file: TenantFile) -> tuple[Pruned, Row]:
            pruned = await file.prune(now=now, popular_after=popular_after, dry_run=dry_run)
            return pruned, await file.next_work()

        found = await self._in_each(one)
        if not dry_run:
            self._indexes.drop()
            self._cache.drop()
            for tenant, (_, work) in found.items():
                if work["jobs"]:  # of a file that was put here by hand, say
                    await self._note(tenant, work["run_after"], seconds=0.0)
        return sum((pruned for pruned, _ in found.values()), Pruned())

    @override
    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        if self._ring is None:
            return await super().rotate_keys(dry_run=dry_run)
        done = (await self._in_each(lambda file: file.rotate_keys(dry_run=dry_run))).values()
        scopes, rows = sum(one.scopes for one in done), sum(one.rows for one in done)
        return Rotated(key=self._ring.current, scopes=scopes, rows=rows)

    @override
    async def forget_tenant(self, tenant: str, *, limit: int, who: str | None = None, now: datetime) -> ForgottenTenant:
        named(tenant=tenant)
        tokens = await self._database.write(forgetting.drop_tokens, tenant=tenant)
        erased = await self._run(tenant, lambda file: self._forgotten(file, tenant, limit=limit, who=who, now=now))
        self._indexes.drop()
        self._cache.drop()
        if erased.done:
            await self._catalogue.database.write(LibSQLSession.run, "forget_work", {"tenant": tenant})
            await self._catalogue.database.erase()
            self._long_names.pop(file_name(tenant), None)
        return replace(erased, tokens=tokens)

    async def _forgotten(
        self, file: TenantFile, tenant: str, *, limit: int, who: str | None, now: datetime
    ) -> ForgottenTenant:
        erased = await file.forget_tenant(tenant, limit=limit, who=who, now=now)
        if not erased.done or file is self._catalogue:
            return erased
        copied = await self._catalogue.copy_chain(tenant, file)
        if not await file.remove(str(self._path(tenant)), receipts=copied):
            return replace(erased, done=False)
        self._files.let_go(tenant, file)
        return erased

    @override
    async def about(self) -> Mapping[str, str]:
        told = await super().about()
        count = len(await asyncio.to_thread(self._places.names))
        return {**told, "database": f"{told['database']}, {count} tenants' files"}

    # -- the queue ------------------------------------------------------------------------------

    async def _note(self, tenant: str, due: datetime | None, *, seconds: float | None = None) -> None:
        """Has a worker look into a file for jobs from then on, or in so many seconds."""
        values = {"tenant": tenant, "due_at": "9999" if due is None else due, "seconds": seconds}
        await self._catalogue.database.write(LibSQLSession.run, "note_work", values)
        self._noted[tenant] = time.monotonic()

    @asynccontextmanager
    async def _noting(self, tenant: str, due: datetime) -> AsyncGenerator[None]:
        """Around the writing of jobs. Noted before, so that they are found though this process is killed; and after,
        for those who have looked meanwhile.
        """
        if time.monotonic() - (self._noted.get(tenant) or 0.0) > NOTED_SECONDS:
            await self._note(tenant, due)
        yield
        await self._note(tenant, due)

    async def _working_tenants(self) -> Sequence[str]:
        """Those whose files may hold jobs."""
        found = await self._catalogue.database.read(LibSQLSession.rows, "working_tenants", {})
        return [row["tenant"] for row in found]

    @override
    async def claim(
        self, owner: str, *, now: datetime, lease_seconds: float, exclude: Sequence[tuple[str, str]] = ()
    ) -> Job | None:
        async def one(file: TenantFile) -> tuple[Job | None, Row]:
            job = await file.claim(owner, now=now, lease_seconds=lease_seconds, exclude=exclude)
            return job, {} if job else await file.next_work()

        failed: KagentMemoryError | None = None
        asked = {"now": now, "served": list(self._turns)}
        for row in await self._catalogue.database.read(LibSQLSession.rows, "due_work", asked):
            whose = {"tenant": row["tenant"], "notes": row["notes"]}
            try:
                job, work = await self._run(row["tenant"], one)
            except KagentMemoryError as error:  # of this tenant alone: the others' jobs go on
                failed = failed or error
                self._turns[row["tenant"]] = None
                continue
            if job is not None:
                self._turns[row["tenant"]] = None
                return job
            await self._catalogue.database.write(_looked, whose, work)
        if failed is not None:
            raise failed
        return None

    @override
    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        renewed = await super().renew(job, lease_seconds=lease_seconds)
        if renewed:
            await self._note(job.scope.tenant, None, seconds=lease_seconds)
        return renewed

    @override
    async def release(
        self, job: Job, *, run_after: datetime, error: str, dead: bool = False, payload: Mapping[str, Any] | None = None
    ) -> bool:
        async with self._noting(job.scope.tenant, run_after):
            return await super().release(job, run_after=run_after, error=error, dead=dead, payload=payload)

    @override
    async def end(self, job_id: str, fence: int) -> bool:
        for job in await self.jobs(id=job_id, limit=1, payloads=False):
            async with self._noting(job.scope.tenant, job.run_after):
                return await self._run(job.scope.tenant, lambda file: file.end(job_id, fence))
        return False

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
        named(tenant=tenant, user=user, app=app)
        whose = tenant if scope is None else scope.tenant
        found = await self._in_each(
            lambda file: file.jobs(
                scope=scope, tenant=tenant, user=user, app=app, state=state, limit=limit, id=id, payloads=payloads
            ),
            await self._working_tenants() if whose is None else [whose],
        )
        listed = sorted((job for some in found.values() for job in some), key=lambda job: (job.created_at, job.id))
        return listed[: max(0, limit)]

    @override
    async def pending(self, *, now: datetime) -> PendingJobs:
        found = (await self._in_each(lambda file: file.pending(now=now), await self._working_tenants())).values()
        oldest = min((one.oldest_at for one in found if one.oldest_at), default=None)
        return PendingJobs(count=sum(one.count for one in found), oldest_at=oldest)

    @override
    async def retry(self, job_id: str, *, now: datetime) -> None:
        for job in await self.jobs(id=job_id, limit=1, payloads=False):
            async with self._noting(job.scope.tenant, now):
                return await self._run(job.scope.tenant, lambda file: file.retry(job_id, now=now))
        raise NotFound(f"There is no dead letter {job_id!r}.")

    @override
    async def drop(self, job_id: str) -> None:
        for job in await self.jobs(id=job_id, limit=1, payloads=False):
            return await self._run(job.scope.tenant, lambda file: file.drop(job_id))
        raise NotFound(f"There is no idle job {job_id!r}.")

    # -- receipts -------------------------------------------------------------------------------

    @override
    async def receipts(self, chain: str, *, after: int = 0, limit: int = 1000) -> Sequence[Receipt]:
        return await self._run_of_chain(chain, lambda file: file.receipts(chain, after=after, limit=limit))

    @override
    async def chain(self, chain: str) -> ReceiptChain | None:
        return await self._run_of_chain(chain, lambda file: file.chain(chain))

    @override
    async def chains(self) -> Sequence[str]:
        found = {*await self._catalogue.chains()}
        return sorted(found.union(*(await self._in_each(lambda file: file.chains())).values()))

    async def _run_of_chain(self, chain: str, work: Callable[[TenantFile], Awaitable[T]]) -> T:
        whose = next((one for one in await self._tenants() if chain_id(one) == chain), None)
        return await (work(self._catalogue) if whose is None else self._run(whose, work))


def _by_tenant(items: Iterable[T], scope_of: Callable[[T], Scope]) -> Mapping[str, list[T]]:
    found: dict[str, list[T]] = defaultdict(list)
    for item in items:
        found[scope_of(item).tenant].append(item)
    return found


async def _looked(session: LibSQLSession, whose: Mapping[str, Any], work: Row) -> None:
    """Notes when to look into a file again in which there was nothing to claim."""
    if work["jobs"]:
        when = {"due_at": work["run_after"] or "9999", "look_at": work["look_at"] or "9999"}
        await session.run("put_off_work", {**whose, **when})
    elif not await session.run("end_work", whose):
        await session.run("expect_work", whose)
