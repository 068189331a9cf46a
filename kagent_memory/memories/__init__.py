"""`Memories`: the verbs that everything else calls. It conducts the two rivers and decides nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from ..concurrency import cancel_and_wait
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..ingestion.extraction import SummaryProvider, with_settings
from ..models.embedding import Embedder, EmbeddingConfig, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import Reranker, open_reranker
from ..records import Mode
from ..redaction import redact as mask_secrets
from ..retention.deliveries import Deliveries
from ..retention.prune import keep_pruned
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.query import Gate
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings, compose
from ..stores import Store, open_store
from ..stores.base import Job, Page, Pruned, ScopeStats
from .components import Components, utc_now
from .maintenance_verbs import MaintenanceVerbs
from .read_verbs import ReadVerbs
from .validation import check_given, with_gate, with_table
from .write_verbs import Items, WriteVerbs

__all__ = ["Items", "Job", "Memories", "Page", "Pruned", "ScopeStats"]

log = logging.getLogger("kagent_memory")

CLOSE_SECONDS = 5.0


class Memories(WriteVerbs, ReadVerbs, MaintenanceVerbs):
    """One store of memories and the models that serve it; belongs to the event loop that opened it."""

    def __init__(self, parts: Components) -> None:
        MaintenanceVerbs.__init__(self, parts)
        self._background: list[asyncio.Task[None]] = []

    @classmethod
    async def open(
        cls,
        uri: str | None = None,
        *,
        embedding: str | EmbeddingConfig | Mapping[str, Any] | Embedder | None = None,
        llm: str | bool | Llm | None = None,
        summary: SummaryProvider | None = None,
        rerank: str | Reranker | None = None,
        gate: Gate | bool | None = None,
        rank: RankSettings | None = None,
        importance_weights: ImportanceWeights = ImportanceWeights(),
        resolve_llm: Callable[[str], Llm | None] | None = None,
        redact: Callable[[str], str] = mask_secrets,
        settings: MemorySettings | None = None,
        clock: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> Self:
        """Opens and migrates the store, checks the embedder's name against it, and starts the background work.

        Args:
            uri: which store; None: KAGENT_MEMORY_URI, MEMORY_BACKEND/DATABASE_URL, or a libSQL file here.
            embedding: a model name, an `EmbeddingConfig`, or an object with `embed`; None: the setting.
            llm: a model name, an object with `complete`, or False; None: the setting.
            summary: turns transcripts into facts; None: by a model where one is at hand, else turns as they are.
            rerank: a rerank model's name or an object with `rerank`; None: the setting.
            gate: what decides whether a prefetch searches at all; True: by words; False: nothing, it always searches;
                None: the setting.
            rank: the weights of ranking.
            importance_weights: of the formula by which the prune evicts, and by which ranking weighs `standing`.
            resolve_llm: makes a model of the name a queued job carries.
            redact: masks secrets before anything else sees a text.
            settings: instead of the environment's.
            clock: the time now (aware UTC).
            **options: fields of `MemorySettings`.

        Raises:
            ConfigurationError: a setting, URI, model or the embedder does not fit.
            StoreError: the database cannot be reached.
        """
        check_given(summary, rank, importance_weights, redact=redact, clock=clock)
        bare, settings = compose(uri, settings, options, os.environ)
        summary = summary and with_settings(summary, settings)
        (gate, settings), redact = with_gate(gate, settings), with_table(redact, settings)
        embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
        model = open_llm(settings.llm if llm is None else llm, settings)
        reranker = open_reranker(settings.rerank if rerank is None else rerank, settings)
        allow_model = llm is not False and (settings.llm is not False or llm is not None)
        providers = Providers(summary, model, allow_model=allow_model, resolve=resolve_llm, embeds=embedder is not None)
        store = await _open_store(bare, settings, settings.pool_size)
        try:
            vectors = StoreEmbedder(store, embedder) if embedder is not None else None
            if vectors is not None:
                await vectors.check()
            retriever = Retriever(
                store,
                vectors,
                llm=model,
                reranker=reranker,
                gate=gate,
                rank=rank,
                weights=importance_weights,
                settings=settings,
            )
        except BaseException:
            await store.close()
            raise
        steps = JobHandlers(store, vectors, providers, settings=settings, clock=clock)
        in_memory = ":memory:" in bare  # to which there is no second way
        location = without_secrets(bare)
        worker = Worker(
            store,
            steps.run,
            clock=clock,
            lease_seconds=settings.lease_seconds,
            attempts=settings.job_attempts,
            redact=redact,
            beside=None if in_memory else partial(_open_store, bare, settings, 1),
            location=location,
        )
        memories = cls(
            Components(
                store=store,
                settings=settings,
                location=location,
                vectors=vectors,
                retriever=retriever,
                providers=providers,
                intake=Enqueuer(store, providers, redact=redact, clock=clock),
                steps=steps,
                worker=worker,
                deliveries=Deliveries(store, clock),
                redact=redact,
                clock=clock,
                weights=importance_weights,
            )
        )
        memories._start()
        return memories

    def _start(self) -> None:
        settings = self._parts.settings
        if not settings.worker:
            return
        self._background.append(asyncio.create_task(self._parts.worker.work(self._stop), name="kagent-memory-worker"))
        if settings.prune_every_hours:
            kept = keep_pruned(self._parts.store, self.prune, every_hours=settings.prune_every_hours)
            self._background.append(asyncio.create_task(kept, name="kagent-memory-prune"))
        for task in self._background:
            task.add_done_callback(_told)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._parts.store

    @property
    def settings(self) -> MemorySettings:
        """The settings in force."""
        return self._parts.settings

    @property
    def location(self) -> str:
        """The store's URI without password and query."""
        return self._parts.location

    @property
    def mode(self) -> Mode:
        """What reads will use when all is well."""
        return "keyword" if self._parts.vectors is None else "hybrid"

    @property
    def needs_model(self) -> bool:
        """Whether facts are found with a model that each agent brings or names, since none is configured."""
        return self._parts.providers.needs_model

    async def close(self) -> None:
        """Lets queued work end for some seconds, then stops; what is left stays queued. Closing twice is harmless."""
        if self._parts.settings.worker and self._background:
            await self.drain(CLOSE_SECONDS)
        self._stop.set()
        await cancel_and_wait(*self._background)
        self._background.clear()
        await self._parts.worker.close()
        await self._parts.deliveries.close()
        await self._parts.store.close()


def _told(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended: %s", task.get_name(), error, exc_info=error)


def without_secrets(uri: str) -> str:
    """A store's URI as it may be shown."""
    bare = uri.partition("?")[0]
    scheme, _, rest = bare.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


async def _open_store(bare: str, settings: MemorySettings, pool_size: int) -> Store:
    return await open_store(
        bare,
        pool_size=pool_size,
        schema=settings.postgres_schema,
        pool_wait_seconds=settings.pool_wait_seconds,
        statement_timeout_seconds=settings.statement_timeout_seconds,
        postgres_pooler=settings.postgres_pooler,
    )
