"""A store whose queue, tokens or both are kept elsewhere: for databases that keep memories and no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Self

from typing_extensions import Unpack, override

from ..errors import ConfigurationError, Conflict
from ..records import EVERYTHING, Filter, Memory, Revision, Scope, Vector
from .base import (
    Applied,
    Batch,
    Delivery,
    EmbeddingSpace,
    Facets,
    Job,
    JobKind,
    JobQueue,
    JobState,
    MemoryStore,
    OpenOptions,
    Order,
    Page,
    PendingJobs,
    Pruned,
    ScopeStats,
    Store,
    Token,
    TokenStore,
    checked_job,
)
from .codec import event_ids_in, messages_in
from .receipts import Receipt, ReceiptChain, ReceiptStore
from .values import ForgottenTenant, Restored, Whole
from .view import Stale, View

ALL = 1_000_000_000


class StoreWithQueueBeside(Store):
    """Memories in one place, the queue and the tokens in others.

    No transaction spans two places, so a batch writes its memories first, then queues the jobs that follow, then ends
    its job. Whoever is killed in between leaves the job to another worker, who finds its events taken in and adds
    nothing twice.
    """

    def __init__(self, memories: MemoryStore, queue: JobQueue, tokens: TokenStore, receipts: ReceiptStore) -> None:
        self._memories = memories
        self._queue = queue
        self._tokens = tokens
        self._receipts = receipts
        self._has_own_queue = isinstance(memories, JobQueue)

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Self:
        raise ConfigurationError("Its parts are opened one by one: use kagent_memory.stores.open_with.")

    @override
    async def close(self) -> None:
        await self._memories.close()
        await self._queue.close()
        await self._tokens.close()
        await self._receipts.close()

    # -- what spans both ------------------------------------------------------------------------

    @override
    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Applied:
        if self._has_own_queue:
            return await self._memories.apply(scope, batch, now=now)
        for job in batch.jobs:
            checked_job(job)
        if batch.job is not None:
            job_id, fence = batch.job
            held = await self._queue.jobs(scope=scope, state="running", id=job_id, limit=1, payloads=False)
            if [job.fence for job in held] != [fence]:
                raise Conflict(f"The job {job_id} is no longer held with the fence {fence}.")
        applied = await self._memories.apply(scope, replace(batch, job=None, jobs=()), now=now)
        if batch.jobs:
            await self.enqueue(batch.jobs)
        if batch.job is not None and not await self._queue.end(*batch.job):
            raise Conflict(f"The job {batch.job[0]} went to another worker, after its changes were written.")
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
        if dry_run:
            return await self._memories.forget(
                scope, ids=ids, session_id=session_id, everything=everything, dry_run=True, now=now
            )
        events = [*event_ids]
        if not self._has_own_queue:
            for job in await self._queue.jobs(scope=scope, limit=ALL):
                if everything or (session_id is not None and job.session_id == session_id):
                    events += event_ids_in(job.payload)
        gone = await self._memories.forget(
            scope, ids=ids, session_id=session_id, everything=everything, event_ids=events, now=now
        )
        if not self._has_own_queue:
            await self._queue.withdraw(scope, session_id=session_id, everything=everything)
            left = await self._queue.jobs(scope=scope, limit=ALL)
            held_back = [await self._taken_events(job) for job in left]
            await self._queue.withdraw(scope, event_ids=frozenset[str]().union(*held_back))
        if who is not None and (gone or events):
            await self.add_receipt(scope, "forget", gone, who=who, now=now)
        return gone

    @override
    async def enqueue(self, jobs: Sequence[Job]) -> None:
        if self._has_own_queue:
            await self._queue.enqueue(jobs)
            return
        fresh: list[Job] = []
        for job in jobs:
            taken = await self._taken_events(job)
            if taken:
                messages = messages_in(job.payload)
                left = [message for message in messages if message.get("event_id") not in taken]
                job = replace(job, payload={**job.payload, "messages": left})
            fresh.append(job)
        await self._queue.enqueue(fresh)

    async def _taken_events(self, job: Job) -> frozenset[str]:
        events = event_ids_in(job.payload)
        return await self._memories.taken(job.scope, job.session_id, sorted(events)) if events else frozenset()

    @override
    async def facets(self, scope: Scope, *, filter: Filter = Filter(), most: int = 100, now: datetime) -> Facets:
        return await self._memories.facets(scope, filter=filter, most=most, now=now)

    @override
    async def stats(self, scope: Scope, *, now: datetime, popular_after: int = 10) -> ScopeStats:
        counted = await self._memories.stats(scope, now=now, popular_after=popular_after)
        if self._has_own_queue:
            return counted
        jobs = await self._queue.jobs(scope=scope, limit=ALL, payloads=False)
        waiting = [
            job.created_at
            for job in jobs
            if job.state != "dead"
            and (
                job.kind in ("transcript", "embed")
                or (job.kind == "session_end" and (job.run_after <= now or job.error != ""))
            )
        ]
        states = Counter[str](job.state for job in jobs)
        return replace(counted, jobs=states, oldest_job_at=min(waiting, default=None))

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
        of_memories = await self._memories.scopes(tenant=tenant, user=user, app=app, after=after, limit=limit)
        if self._has_own_queue:
            return of_memories
        of_jobs = await self._queue.scopes(tenant=tenant, user=user, app=app, after=after, limit=limit)
        both = {*of_memories, *of_jobs}
        return sorted(both, key=lambda scope: (scope.tenant, scope.app, scope.user))[: max(0, limit)]

    # -- memories -------------------------------------------------------------------------------

    @override
    async def evict(self, scope: Scope, ids: Sequence[str], *, keep: int, now: datetime) -> tuple[str, ...]:
        return await self._memories.evict(scope, ids, keep=keep, now=now)

    @override
    async def whole(self, scope: Scope, ids: Sequence[str]) -> Sequence[Whole]:
        return await self._memories.whole(scope, ids)

    @override
    async def vectors(self, scope: Scope, space_number: int, ids: Sequence[str]) -> Mapping[str, Vector]:
        return await self._memories.vectors(scope, space_number, ids)

    @override
    async def restore(
        self, scope: Scope, memories: Sequence[Whole], *, dry_run: bool = False, now: datetime
    ) -> Sequence[Restored]:
        return await self._memories.restore(scope, memories, dry_run=dry_run, now=now)

    @override
    async def feedback(self, scope: Scope, memory_id: str, *, success: bool) -> None:
        await self._memories.feedback(scope, memory_id, success=success)

    @override
    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        return await self._memories.get(scope, ids, now=now, superseded=superseded)

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
        return await self._memories.list(scope, filter=filter, order=order, limit=limit, cursor=cursor, now=now)

    @override
    def view(self, scope: Scope, *, filter: Filter = EVERYTHING, now: datetime) -> View:
        return self._memories.view(scope, filter=filter, now=now)

    @override
    def cached_views(
        self, scopes: Sequence[Scope], *, filter: Filter, now: datetime, after: Stale | None = None
    ) -> tuple[Sequence[View], str | None]:
        return self._memories.cached_views(scopes, filter=filter, now=now, after=after)

    @override
    async def in_slots(self, scope: Scope, slots: Sequence[str], *, now: datetime) -> Sequence[Memory]:
        return await self._memories.in_slots(scope, slots, now=now)

    @override
    async def short_term(self, scope: Scope, *, session_id: str | None, limit: int, now: datetime) -> Sequence[Memory]:
        return await self._memories.short_term(scope, session_id=session_id, limit=limit, now=now)

    @override
    async def keeps_short_term(self) -> bool:
        return await self._memories.keeps_short_term()

    @override
    async def taken(self, scope: Scope, session_id: str, event_ids: Sequence[str]) -> frozenset[str]:
        return await self._memories.taken(scope, session_id, event_ids)

    @override
    async def history(self, scope: Scope, memory_id: str) -> Sequence[Revision]:
        return await self._memories.history(scope, memory_id)

    @override
    async def group(self, scope: Scope, group: str) -> Sequence[Revision]:
        return await self._memories.group(scope, group)

    @override
    async def unembedded(self, scope: Scope, space_number: int, *, limit: int, now: datetime) -> Sequence[Memory]:
        return await self._memories.unembedded(scope, space_number, limit=limit, now=now)

    @override
    async def lacking_vectors(self, scopes: Sequence[Scope], space_number: int, *, now: datetime) -> Sequence[Scope]:
        return await self._memories.lacking_vectors(scopes, space_number, now=now)

    @override
    async def unembedded_ids(self, scope: Scope, space_number: int, *, now: datetime) -> Sequence[str]:
        return await self._memories.unembedded_ids(scope, space_number, now=now)

    @override
    async def orphans(self, scope: Scope) -> Mapping[str, Sequence[str]]:
        return await self._memories.orphans(scope)

    @override
    async def version(self, scope: Scope) -> int:
        return await self._memories.version(scope)

    @override
    async def embedding_spaces(self) -> Sequence[EmbeddingSpace]:
        return await self._memories.embedding_spaces()

    @override
    async def add_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        return await self._memories.add_embedding_space(name, dimensions, probe)

    @override
    async def replace_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        return await self._memories.replace_embedding_space(name, dimensions, probe)

    @override
    async def finish_replacing(self, number: int) -> None:
        await self._memories.finish_replacing(number)

    @override
    async def drop_retired(self) -> Sequence[str]:
        return await self._memories.drop_retired()

    @override
    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        return await self._memories.note_width(tenant, dimensions, most=most)

    @override
    async def count(self, deliveries: Sequence[Delivery]) -> None:
        await self._memories.count(deliveries)

    @override
    async def prune(self, *, now: datetime, popular_after: int, dry_run: bool = False) -> Pruned:
        return await self._memories.prune(now=now, popular_after=popular_after, dry_run=dry_run)

    @override
    async def forget_tenant(self, tenant: str, *, limit: int, who: str | None = None, now: datetime) -> ForgottenTenant:
        tokens = [one for one in await self._tokens.tokens() if one.tenant == tenant and not one.is_operator]
        for token in tokens:
            await self._tokens.drop_token(token.id)
        for scope in await self._queue.scopes(tenant=tenant, limit=ALL):
            await self._queue.withdraw(scope, everything=True)
        scopes: Sequence[Scope] = [] if who is None else await self._memories.scopes(tenant=tenant, limit=ALL)
        before = {scope: await self._memories.kept(scope, Filter()) for scope in scopes}
        erased = await self._memories.forget_tenant(tenant, limit=limit, now=now)
        for scope, ids in before.items():
            if gone := sorted({*ids} - {*await self._memories.kept(scope, Filter())}):
                await self.add_receipt(scope, "forget_tenant", gone, who=who or "", now=now)
        if erased.done and isinstance(self._queue, MemoryStore) and self._queue is not self._memories:
            await self._queue.forget_tenant(tenant, limit=ALL, now=now)  # its rows of the scopes
        return erased + ForgottenTenant(tokens=len(tokens), done=erased.done)

    @override
    async def crowded(self, *, above: int, now: datetime) -> Sequence[tuple[Scope, int]]:
        return await self._memories.crowded(above=above, now=now)

    @override
    async def about(self) -> Mapping[str, str]:
        return await self._memories.about()

    # -- the queue ------------------------------------------------------------------------------

    @override
    async def claim(
        self, owner: str, *, now: datetime, lease_seconds: float, exclude: Sequence[tuple[str, str]] = ()
    ) -> Job | None:
        return await self._queue.claim(owner, now=now, lease_seconds=lease_seconds, exclude=exclude)

    @override
    async def renew(self, job: Job, *, lease_seconds: float) -> bool:
        return await self._queue.renew(job, lease_seconds=lease_seconds)

    @override
    async def release(
        self, job: Job, *, run_after: datetime, error: str, dead: bool = False, payload: Mapping[str, Any] | None = None
    ) -> bool:
        return await self._queue.release(job, run_after=run_after, error=error, dead=dead, payload=payload)

    @override
    async def end(self, job_id: str, fence: int) -> bool:
        return await self._queue.end(job_id, fence)

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
        return await self._queue.jobs(
            scope=scope, tenant=tenant, user=user, app=app, state=state, limit=limit, id=id, payloads=payloads
        )

    @override
    async def waiting(self, scope: Scope, kind: JobKind, key: str) -> Job | None:
        return await self._queue.waiting(scope, kind, key)

    @override
    async def pending(self, *, now: datetime) -> PendingJobs:
        return await self._queue.pending(now=now)

    @override
    async def retry(self, job_id: str, *, now: datetime) -> None:
        await self._queue.retry(job_id, now=now)

    @override
    async def drop(self, job_id: str) -> None:
        await self._queue.drop(job_id)

    @override
    async def withdraw(
        self,
        scope: Scope,
        *,
        session_id: str | None = None,
        everything: bool = False,
        event_ids: Collection[str] = (),
    ) -> None:
        await self._queue.withdraw(scope, session_id=session_id, everything=everything, event_ids=event_ids)

    @override
    async def lease(self, name: str, owner: str, *, seconds: float) -> bool:
        return await self._queue.lease(name, owner, seconds=seconds)

    # -- receipts -------------------------------------------------------------------------------

    @override
    async def add_receipt(self, scope: Scope, kind: str, ids: Sequence[str], *, who: str, now: datetime) -> None:
        await self._receipts.add_receipt(scope, kind, ids, who=who, now=now)

    @override
    async def receipts(self, chain: str, *, after: int = 0, limit: int = 1000) -> Sequence[Receipt]:
        return await self._receipts.receipts(chain, after=after, limit=limit)

    @override
    async def chain(self, chain: str) -> ReceiptChain | None:
        return await self._receipts.chain(chain)

    @override
    async def chains(self) -> Sequence[str]:
        return await self._receipts.chains()

    # -- tokens ---------------------------------------------------------------------------------

    @override
    async def add_token(self, token: Token) -> None:
        await self._tokens.add_token(token)

    @override
    async def tokens(self, *, digest: str | None = None) -> Sequence[Token]:
        return await self._tokens.tokens(digest=digest)

    @override
    async def drop_token(self, token_id: str) -> None:
        await self._tokens.drop_token(token_id)
