"""`Memories`: the verbs in process, over one store and the models that serve it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, Self

from typing_extensions import Unpack, override

from .. import telemetry
from ..concurrency import cancel_and_wait
from ..errors import ConfigurationError, KagentMemoryError
from ..ingestion.editing import Edit
from ..ingestion.extraction import SummaryProvider
from ..ingestion.reembedding import Reembedded, Reembedding
from ..models.embedding import EmbedderChoice, open_embedder
from ..models.llm import Llm
from ..models.openai_api import close_connections
from ..models.reranking import RerankChoice
from ..records import (
    Change,
    Filter,
    Memory,
    MemoryType,
    Message,
    Mode,
    Recall,
    Revision,
    Scope,
    Scopes,
    Vector,
    WhichScopes,
    checked_text,
    new_id,
)
from ..redaction import redact as mask_secrets
from ..retention.prune import prune
from ..retrieval.embedding_spaces import ModelSpace
from ..retrieval.options import RecallOptions
from ..retrieval.query import Gate
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..settings import MemorySettings
from ..stores import Store
from ..stores.base import Facets, Job, Order, Page, Pruned, ScopeStats, StandbyError
from ..stores.receipts import Receipt, chain_id
from ..stores.values import ForgottenTenant, Rotated
from .api import Items
from .audit import audit_each, audit_scope
from .components import Components, background, open_components, utc_now
from .draining import drain
from .findings import MOST_FINDINGS, Audit, Progress, checked_defects
from .forgetting import Which, forget, forget_tenant
from .opened import OpenedMemories
from .options import AuditOptions, ExportOptions, ForgetOptions, JobOptions, ScopeOptions
from .quarantine import confirm, reject
from .recalling import recall
from .receipts import ReceiptCheck, check_receipts
from .tokens import Tokens
from .transfer import Imported, export, import_
from .undoing import undo
from .validation import checked_limit
from .writing import add, edit

CLOSE_SECONDS = 5.0


class Memories(OpenedMemories):
    """One store of memories and the models that serve it; belongs to the event loop that opened it."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._stop = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        embedding: EmbedderChoice = None,
        llm: str | bool | Llm | None = None,
        summary: SummaryProvider | None = None,
        rerank: RerankChoice = None,
        gate: Gate | bool | None = None,
        rank: RankSettings | None = None,
        importance_weights: ImportanceWeights = ImportanceWeights(),
        resolve_llm: Callable[[str], Llm | None] | None = None,
        redact: Callable[[str], str] = mask_secrets,
        settings: MemorySettings | None = None,
        clock: Callable[[], datetime] = utc_now,
        pool: object = None,
        **options: Any,
    ) -> Self:
        """Opens and migrates the store, checks the embedder's name against it, and starts the background work.

        Args:
            uri: which store; None: KAGENT_MEMORY_URI, MEMORY_BACKEND/DATABASE_URL, or a libSQL file here.
            embedding: a model name, an `EmbeddingConfig`, or an object with `embed`; None: the setting.
            llm: a model name, an object with `complete`, or False; None: the setting.
            summary: turns transcripts into facts; None: by a model where one is at hand, else turns as they are.
            rerank: what the setting takes, or an object with `rerank`; None: the setting.
            gate: what decides whether a prefetch searches at all; True: by words; False: nothing, it always searches;
                None: the setting.
            rank: the weights of ranking.
            importance_weights: of the formula by which the prune evicts, and by which ranking weighs `standing`.
            resolve_llm: makes a model of the name a queued job carries.
            redact: masks secrets before anything else sees a text.
            settings: instead of the environment's.
            clock: the time now (aware UTC).
            pool: an open `psycopg_pool.AsyncConnectionPool` of this event loop, which its owner closes, instead of
                connections of our own; or a function that makes one, which is closed with the memories.
            **options: fields of `MemorySettings`.

        Raises:
            ConfigurationError: a setting, URI, model or the embedder does not fit.
            StoreError: the database cannot be reached.
        """
        memories = cls(
            await open_components(
                uri,
                embedding=embedding,
                llm=llm,
                summary=summary,
                rerank=rerank,
                gate=gate,
                rank=rank,
                importance_weights=importance_weights,
                resolve_llm=resolve_llm,
                redact=redact,
                settings=settings,
                clock=clock,
                pool=pool,
                **options,
            )
        )
        if memories.settings.worker:
            memories._background = background(memories._parts, memories.prune, memories._stop)
        return memories

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._parts.store

    @property
    def tokens(self) -> Tokens:
        """The bearer tokens of a server of these memories."""
        return Tokens(self._parts.store, self._parts.settings.tenant, self._parts.clock)

    @property
    @override
    def settings(self) -> MemorySettings:
        return self._parts.settings

    @property
    @override
    def location(self) -> str:
        return self._parts.location

    @property
    @override
    def mode(self) -> Mode:
        return "keyword" if self._parts.vectors is None else "hybrid"

    @property
    def needs_model(self) -> bool:
        """Whether facts are found with a model that each agent brings or names, since none is configured."""
        return self._parts.providers.needs_model

    @override
    async def close(self) -> None:
        if self._background:
            await self.drain(CLOSE_SECONDS)
        self._stop.set()
        await cancel_and_wait(*self._background)
        self._background.clear()
        await self._parts.worker.close()
        await self._parts.deliveries.close()
        await close_connections()
        await self._parts.store.close()
        self._parts.forget_vectors()

    # -- writing

    @override
    async def remember(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: str,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: float | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        with telemetry.operation("upsert_memory", store=self._parts.location, scope_app=scope.app):
            job = await self._parts.enqueuer.queue(
                scope,
                messages,
                session_id,
                ended=ended,
                save=save,
                end_after_minutes=end_after_minutes,
                compaction=compaction,
                llm=llm,
            )
        self._parts.worker.wake(llm if isinstance(llm, str) else llm.name if llm else "")
        return job

    @override
    async def end_session(self, scope: Scope, session_id: str) -> None:
        await self._parts.enqueuer.end_session(scope, session_id)
        self._parts.worker.wake()

    @override
    def add(
        self,
        scope: Scope,
        items: Items,
        *,
        embedding: Sequence[Vector] | None = None,
        embedding_space: str | None = None,
        who: str = "",
        replaces: str | None = None,
        max_bytes: int | None = None,  # instead of the setting max_content_bytes
    ) -> CoroutineType[Any, Any, list[str]]:
        return add(
            self._parts,
            scope,
            items,
            embedding=embedding,
            embedding_space=embedding_space,
            who=mask_secrets(who),
            replaces=replaces,
            max_bytes=self.settings.max_content_bytes if max_bytes is None else max_bytes,
        )

    @override
    async def edit(
        self,
        scope: Scope,
        id: str,
        *,
        content: str | None = None,
        type: MemoryType | None = None,
        topics: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        category: str | None = None,
        ttl_days: int | None = None,
        happened_at: datetime | None = None,
        revision: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Memory:
        wanted = Edit(
            content=content,
            type=type,
            topics=topics,
            tags=tags,
            importance=importance,
            metadata=metadata,
            category=category,
            ttl_days=ttl_days,
            happened_at=happened_at,
        )
        return await edit(self._parts, scope, id, wanted, revision=revision, who=mask_secrets(who), why=why)

    @override
    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: str = "") -> Memory:
        return await edit(self._parts, scope, id, Edit(pinned=pinned), who=mask_secrets(who))

    @override
    async def forget(
        self, scope: Scope, ids: Sequence[str] | str = (), **options: Unpack[ForgetOptions]
    ) -> tuple[str, ...]:
        which = Which(ids=(ids,) if isinstance(ids, str) else tuple(ids), **options)
        return await forget(self._parts, scope, which)

    @override
    async def undo(self, scope: Scope, id: str, *, who: str = "") -> tuple[Memory, ...]:
        return await undo(self._parts, scope, id, who=mask_secrets(who))

    @override
    async def confirm(self, scope: Scope, id: str, *, who: str = "") -> Memory:
        return await confirm(self._parts, scope, id, who=who)

    @override
    async def reject(self, scope: Scope, id: str, *, who: str = "") -> tuple[str, ...]:
        return await reject(self._parts, scope, id, who=who)

    @override
    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        await self._parts.get(scope, id)
        await self._parts.store.feedback(scope, id, success=success)

    # -- reading

    @override
    def recall(
        self, scope: WhichScopes, query: str, **options: Unpack[RecallOptions]
    ) -> CoroutineType[Any, Any, Recall]:
        return recall(self._parts, scope, query, **options)

    async def nearest(self, scope: Scope, vector: Vector, *, limit: int) -> Sequence[tuple[Memory, float]]:
        """The memories whose own vectors, as callers brought them, are nearest to this one, each with its cosine.

        By vectors alone and exact within the scope; nothing is ranked, and nothing counts as delivered.

        Raises:
            InvalidInput: the limit or vector does not fit.
        """
        return await self._parts.caller_vectors.nearest(scope, vector, limit=checked_limit(limit))

    def delivered(self, scope: Scope, ids: Sequence[str]) -> None:
        """Counts memories that were delivered by another way than `recall`; in the background, never failing."""
        self._parts.deliveries.count(scope, retrieved=ids, delivered=ids)

    @override
    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        return await self._parts.get(scope, id, superseded=superseded)

    @override
    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        now, store = self._parts.clock(), self._parts.store
        [view], _ = store.cached_views([scope], filter=filter, now=now)
        try:
            return await view.source.list(scope, filter=filter, order=order, limit=limit, cursor=cursor, now=now)
        except StandbyError as error:
            [view], _ = store.cached_views([scope], filter=filter, now=now, after=error)
            return await view.source.list(scope, filter=filter, order=order, limit=limit, cursor=cursor, now=now)

    @override
    async def history(self, scope: Scope, id: str) -> Sequence[Revision]:
        await self._parts.get(scope, id, superseded=True)
        return await self._parts.store.history(scope, id)

    @override
    async def stats(self, scope: Scope) -> ScopeStats:
        popular_after = self._parts.settings.popular_after
        return await self._parts.store.stats(scope, now=self._parts.clock(), popular_after=popular_after)

    async def facets(self, scope: Scope, *, filter: Filter = Filter(), most: int = 100) -> Facets:
        """How many memories a filter lets through, and the `most` most frequent topics and tags among them."""
        return await self._parts.store.facets(scope, filter=filter, most=most, now=self._parts.clock())

    @override
    async def scopes(self, **options: Unpack[ScopeOptions]) -> Sequence[Scope]:
        return await self._parts.store.scopes(**options)

    # -- the queue and maintenance

    @override
    async def jobs(self, **options: Unpack[JobOptions]) -> Sequence[Job]:
        return await self._parts.store.jobs(**options)

    @override
    async def retry_job(self, job_id: str) -> None:
        await self._parts.store.retry(job_id, now=self._parts.clock())
        self._parts.worker.wake()

    @override
    async def drop_job(self, job_id: str) -> None:
        await self._parts.store.drop(job_id)

    async def work(self, *, until_idle: bool = False, stop: asyncio.Event | None = None) -> int:
        """Works on the queue in this task, until told to stop or until nothing is due; gives how many jobs ended."""
        worker = self._parts.worker
        if until_idle:
            return await worker.work_until_idle()
        before = worker.finished
        await worker.work(stop or self._stop)
        return worker.finished - before

    @override
    async def prune(self, *, dry_run: bool = False) -> Pruned:
        parts = self._parts
        await parts.deliveries.flush()  # what is popular by now must not be deleted for a count that waits
        pruned = await prune(
            parts.store,
            parts.vectors,
            settings=parts.settings,
            weights=parts.weights,
            now=parts.clock(),
            dry_run=dry_run,
        )
        if not dry_run:
            if pruned.erased:
                parts.forget_vectors()
            telemetry.pruned(pruned.counts)
        return pruned

    @override
    async def forget_tenant(self, tenant: str, *, limit: int | None = None, who: str = "") -> ForgottenTenant:
        return await forget_tenant(self._parts, tenant, limit, who=who)

    async def rotate_keys(self, *, dry_run: bool = False) -> Rotated:
        """Encrypts with the first of the `encryption_keys` whatever it did not encrypt; cut off, call it again."""
        return await self._parts.store.rotate_keys(dry_run=dry_run)

    @override
    async def export(self, **options: Unpack[ExportOptions]) -> AsyncGenerator[str]:
        async for line in export(self._parts, **options):
            yield line

    @override
    async def import_(
        self,
        path: Path | str,
        *,
        tenant: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        return await import_(self._parts, path, tenant=tenant, dry_run=dry_run, progress=progress)

    async def reembed(
        self,
        embedding: EmbedderChoice = None,
        *,
        drop_old: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Reembedded:
        """Has the store embedded anew by another embedder, beside the vectors that there are, and goes over to it as a
        whole when nothing lacks a new one. What was embedded stays: the same call goes on where one was interrupted.

        Searches of these memories ask both meanwhile, and what is saved here goes to the new one; what other processes
        save is embedded by it later.

        Args:
            embedding: as `open` takes it; None: the setting.
            drop_old: drops the replaced vectors in the end: whoever still searches them answers by words.
            progress: is told how many memories are embedded so far.

        Raises:
            ConfigurationError: no embedder is named, or the store cannot.
            ModelError: it is unavailable, or answers what cannot be used; call again to go on.
            Conflict: somebody began to replace the embedder by yet another one.
        """
        parts, settings = self._parts, self._parts.settings
        embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
        if embedder is None:
            raise ConfigurationError("Name the embedder that the memories are to be embedded by.")
        space = ModelSpace(parts.store, embedder, settings, replaces=True)
        await space.embed([], kind="document", tenant="")  # refused before anything else changes
        if parts.vectors is not None:
            parts.vectors.succeed(space)
        work = Reembedding(parts.store, space, batch_size=settings.batch_size, clock=parts.clock, progress=progress)
        done = await work.run()
        if parts.vectors is not None:
            parts.vectors.finish()
        return replace(done, dropped=tuple(await parts.store.drop_retired())) if drop_old else done

    @override
    async def receipts(self, *, tenant: str | None = None, after: int = 0, limit: int = 100) -> Sequence[Receipt]:
        whose = self._parts.settings.tenant if tenant is None else checked_text(tenant, "The tenant")
        return await self._parts.store.receipts(chain_id(whose), after=after, limit=checked_limit(limit))

    @override
    async def check_receipts(self, *, tenant: str | None = None) -> ReceiptCheck:
        return await check_receipts(self._parts.store, tenant)

    @override
    async def audit(self, scope: Scope | Scopes | None = None, **options: Unpack[AuditOptions]) -> Audit:
        defects, most = checked_defects(options.get("defects")), checked_limit(options.get("most", MOST_FINDINGS))
        one = partial(audit_scope, self._parts, defects=defects, most=most, progress=options.get("progress"))
        return await audit_each(self, scope, one, most=most)

    @override
    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        return await self._parts.handlers.consolidate(scope, dry_run=dry_run)

    @override
    async def check(self) -> Mapping[str, str]:
        parts, findings = self._parts, {"store": "ok", "embedding": "keyword mode"}
        try:
            findings.update(await parts.store.about())
        except KagentMemoryError as error:
            findings["store"] = str(error)
        else:
            if "lacking" not in findings:
                findings["writing"] = await _outcome(parts.store.lease("doctor", new_id(), seconds=1))
        if parts.vectors is not None:
            findings["embedding"] = await _outcome(parts.vectors.ping())
        return findings

    async def try_embedder(self) -> None:
        """Embeds a word, where there is an embedder.

        Raises:
            ModelError: it is away, or answers what cannot be used.
            ConfigurationError: it does not fit the store.
        """
        if self._parts.vectors is not None:
            await self._parts.vectors.ping()

    @override
    async def drain(self, timeout: float = 30.0) -> bool:
        parts = self._parts
        return await drain(parts.store, parts.worker, parts.deliveries, clock=parts.clock, seconds=timeout)


async def _outcome(attempt: Awaitable[object]) -> str:
    """What came of an attempt, for a doctor: "ok", or what stood in its way."""
    try:
        await attempt
    except KagentMemoryError as error:
        return str(error)
    return "ok"
