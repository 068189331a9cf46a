"""What `Memories` is made of, and how it is put together from settings and models."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import ConfigurationError, InvalidInput, NotFound
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..ingestion.backfill import backfill
from ..ingestion.extraction import SummaryProvider, with_settings
from ..models.embedding import EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import RerankChoice, open_reranker
from ..records import Memory, Scope
from ..retention.deliveries import Deliveries
from ..retention.prune import keep_pruned
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.query import Gate
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings, compose
from ..stores import Store, open_store
from ..stores.base import Pruned
from .caller_vectors import CallerVectors
from .validation import Redactors, check_arguments, redactors_of, with_gate

logger = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The time now, aware UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of one `Memories`.

    Attributes:
        location: the URI without password and query, for people and traces.
        vectors: the embedder; None: keyword mode.
        caller_vectors: where vectors that callers bring are kept.
        redactors: what is done to a text before anything else sees it.
        clock: the time now (aware UTC).
        weights: of the importance formula.
    """

    store: Store
    settings: MemorySettings
    location: str
    vectors: StoreEmbedder | None
    caller_vectors: CallerVectors
    retriever: Retriever
    providers: Providers
    enqueuer: Enqueuer
    handlers: JobHandlers
    worker: Worker
    deliveries: Deliveries
    redactors: Redactors
    clock: Callable[[], datetime]
    weights: ImportanceWeights

    def forget_vectors(self) -> None:
        """Something was erased: no vector stays in memory that may be of it."""
        if self.vectors is not None:
            self.vectors.forget()

    def check_own_space(self, name: str | None) -> None:
        """Refuses the name of an embedding space whose vectors are not made here.

        Raises:
            InvalidInput: no vectors were brought, and the name is not the embedder's.
        """
        own = self.vectors and self.vectors.name
        if name is not None and name != own:
            raise InvalidInput(
                f"Vectors of the embedding space {name!r} are not made here; bring them with embedding=, or leave "
                f"embedding_space out{f' or name {own!r}' if own else ''}."
            )

    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """One memory that is visible or short-term, or also one that was superseded, which has a history to look at.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        now = self.clock()
        visible = await self.store.get(scope, [id], now=now, superseded=superseded)
        if id not in visible and self.retriever.has_short_term:
            held = await self.store.get(scope, [id], now=now, superseded=True)
            visible = {id: memory for id, memory in held.items() if memory.state == "short_term"}
        if id not in visible:
            raise NotFound(f"No memory {id} in this scope.")
        return visible[id]


async def open_components(
    uri: str | None,
    *,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    gate: Gate | bool | None,
    rank: RankSettings | None,
    importance_weights: ImportanceWeights,
    resolve_llm: Callable[[str], Llm | None] | None,
    redact: Callable[[str], str],
    settings: MemorySettings | None,
    clock: Callable[[], datetime],
    pool: object = None,
    **options: Any,
) -> Components:
    """Opens and migrates the store, and puts its models and the work beside it together; see `Memories.open`."""
    check_arguments(summary, rank, importance_weights, redact=redact, clock=clock)
    uri = "postgresql:///" if uri is None and pool is not None else uri
    bare, settings = compose(uri, settings, options, os.environ)
    summary = summary and with_settings(summary, settings)
    (gate, settings), redactors = with_gate(gate, settings), redactors_of(redact, settings)
    embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
    model = open_llm(settings.llm if llm is None else llm, settings)
    reranker = open_reranker(settings.rerank if rerank is None else rerank, settings)
    allow_model = llm is not False and (settings.llm is not False or llm is not None)
    providers = Providers(summary, model, allow_model=allow_model, resolve=resolve_llm, embeds=embedder is not None)

    async def open_second() -> Store:  # but a store in memory has one connection only, and a lent pool its own number
        return await _open_store(bare, settings.updated({"read_uri": None}), pool_size=1)

    store = await _open_store(bare, settings, pool_size=settings.pool_size, pool=pool)
    try:
        vectors = StoreEmbedder(store, embedder, settings) if embedder is not None else None
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
            has_short_term=settings.short_term_hours > 0 or await store.keeps_short_term(),
        )
    except BaseException:
        await store.close()
        raise
    handlers = JobHandlers(store, vectors, providers, settings=settings, clock=clock)
    worker = Worker(
        store,
        handlers.run,
        clock=clock,
        redact=redactors.mask,
        beside=None if ":memory:" in bare or pool is not None else open_second,
        location=without_secrets(bare),
    )
    return Components(
        store=store,
        settings=settings,
        location=without_secrets(bare),
        vectors=vectors,
        caller_vectors=CallerVectors(store, clock),
        retriever=retriever,
        providers=providers,
        enqueuer=Enqueuer(store, providers, redact=redactors.save, clock=clock),
        handlers=handlers,
        worker=worker,
        deliveries=Deliveries(store, clock),
        redactors=redactors,
        clock=clock,
        weights=importance_weights,
    )


async def _open_store(uri: str, settings: MemorySettings, *, pool_size: int, pool: object = None) -> Store:
    if pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
        raise ConfigurationError("pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://….")
    return await open_store(
        uri,
        pool=pool,
        schema=settings.postgres_schema,
        cache_mb=settings.cache_mb,
        pool_size=pool_size,
        statement_timeout_seconds=settings.statement_timeout_seconds,
        read_uri=settings.read_uri,
        rls=settings.rls,
        encryption_keys=settings.encryption_keys,
        file_encryption_key=settings.file_encryption_key,
    )


def without_secrets(uri: str) -> str:
    """A store's URI as it may be shown."""
    bare = uri.partition("?")[0]
    scheme, _, rest = bare.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def background(
    parts: Components, prune: Callable[[], Awaitable[Pruned]], stop: asyncio.Event
) -> list[asyncio.Task[None]]:
    """Starts what goes on as long as the memories are open: the worker, the prune, and the embedding of what a store
    held before it had an embedder.
    """
    tasks = [asyncio.create_task(parts.worker.work(stop), name="kagent-memory-worker")]
    if hours := parts.settings.prune_every_hours:
        pruning = keep_pruned(parts.store, prune, every_hours=hours)
        tasks.append(asyncio.create_task(pruning, name="kagent-memory-prune"))
    if parts.vectors is not None:
        filling = backfill(parts.store, parts.vectors, clock=parts.clock, wake=parts.worker.wake)
        tasks.append(asyncio.create_task(filling, name="kagent-memory-backfill"))
    for task in tasks:
        task.add_done_callback(_log_failure)
    return tasks


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
