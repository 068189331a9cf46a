"""The parts of one `Memories`, put together from settings and models."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from .. import telemetry
from ..checks import checked_text
from ..concurrency import cancel_tasks_at_exit, run_in_thread
from ..errors import ConfigurationError, InvalidInput, NotFound, StoreError
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..ingestion.editing import checked_session_id
from ..ingestion.extraction import SummaryProvider
from ..ingestion.extraction.transcript import with_settings
from ..ingestion.reembedding import Reembedded, Reembedding, backfill
from ..models.embedding import Embedder, EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.openai_api import close_connections
from ..models.reranking import RerankChoice, Reranker, open_reranker
from ..records import MAX_QUERY_CHARS, Filter, Memory, Scope
from ..redaction import masked_id
from ..redaction import redact as mask_secrets
from ..retention.deliveries import Deliveries
from ..retention.prune import keep_pruned, prune
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.query import Gate
from ..retrieval.query.completion import EARLIER_TURNS
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings, compose
from ..stores import Store, open_store
from ..stores.base import Order, Page, Pruned, StandbyError
from .caller_vectors import CallerVectors
from .editor import Editor
from .eraser import Eraser
from .maintenance import BACKFILL
from .tokens import Tokens
from .validation import Redactors, check_arguments, masked_filter, redactors_of, with_gate

logger = logging.getLogger(__name__)

JOBS_READ = 100
CHECKED_SCOPES = 1000
"""Scopes that `check` looks for memories without vectors in."""
FIRST_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.25


@dataclass(frozen=True, kw_only=True)
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

    @cached_property
    def editor(self) -> Editor:
        """The part that adds and changes memories."""
        return Editor(self)

    @cached_property
    def eraser(self) -> Eraser:
        """The part that erases memories."""
        return Eraser(self)

    @cached_property
    def tokens(self) -> Tokens:
        """The bearer tokens of a server."""
        return Tokens(self.store.tokens, self.settings.tenant, self.clock)

    @property
    def own_space(self) -> str | None:
        """The name of the embedder's space; None in keyword mode."""
        return None if self.vectors is None else self.vectors.name

    def forget_vectors(self) -> None:
        """Drop the vectors kept in memory: some may be of what was erased."""
        if self.vectors is not None:
            self.vectors.forget()

    def masked_name(self, value: str, what: str) -> str:
        """Return a short text for the history, such as `who`, with secrets masked.

        Raises:
            InvalidInput: no database keeps it.
        """
        return mask_secrets(checked_text(value, what))

    async def masked(self, value: str, what: str) -> str:
        """Return a text for the history, masked as memories are.

        Raises:
            InvalidInput: no database keeps it.
        """
        return await run_in_thread(len(checked_text(value, what)), self.redactors.mask, value)

    async def masked_query(self, query: str, history: Sequence[str]) -> tuple[str, list[str]]:
        """Return the query and the last turns before it, with secrets masked.

        Raises:
            InvalidInput: one of them is not a text that can be searched with.
        """
        if len(checked_text(query, "The query")) > MAX_QUERY_CHARS:
            raise InvalidInput(
                f"The query has {len(query):,} characters; at most {MAX_QUERY_CHARS:,} are allowed."
            )
        turns = [
            checked_text(turn, "A turn of the history")[:MAX_QUERY_CHARS]
            for turn in history[-EARLIER_TURNS:]
        ]

        def mask() -> list[str]:
            return [self.redactors.mask(text) for text in (query, *turns)]

        text, *earlier = await run_in_thread(len(query) + sum(map(len, turns)), mask)
        return text, earlier

    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """Return a memory that is visible or short-term, or also one that was superseded.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        now = self.clock()
        visible = await self.store.memories.get(scope, [id], now=now, superseded=superseded)
        if id not in visible and self.retriever.has_short_term:
            memories = await self.store.memories.get(scope, [id], now=now, superseded=True)
            visible = {
                id: memory for id, memory in memories.items() if memory.state == "short_term"
            }
        if id not in visible:
            raise NotFound(f"No memory {id} in this scope.")
        return visible[id]

    async def quarantined(self, scope: Scope, id: str) -> Memory:
        """Return a memory that waits to be confirmed.

        Raises:
            NotFound: none of this id waits, or it has expired.
        """
        memory = (
            await self.store.memories.get(scope, [id], now=self.clock(), superseded=True)
        ).get(id)
        if memory is None or memory.state != "quarantined":
            raise NotFound(f"No memory {id} waits in the quarantine of this scope.")
        return memory

    async def listed(
        self, scope: Scope, *, filter: Filter, order: Order, limit: int, cursor: str | None
    ) -> Page:
        """Return a page of memories, read from the standby while there is one that answers."""
        now, filter = self.clock(), masked_filter(filter)

        async def page(after: StandbyError | None = None) -> Page:
            [view], _ = self.store.memories.cached_views(
                [scope], filter=filter, now=now, after=after
            )
            return await view.source.list(
                scope, filter=filter, order=order, limit=limit, cursor=cursor, now=now
            )

        try:
            return await page()
        except StandbyError as error:
            return await page(error)

    def masked_filter(self, filter: Filter) -> Filter:
        """Return the filter with the session id as memories carry it."""
        return masked_filter(filter)

    def session_key(self, session_id: str | None) -> str | None:
        """Return the session's id as memories carry it.

        Raises:
            InvalidInput: no session has it.
        """
        return masked_id(checked_session_id(session_id)) if session_id else None

    async def count_lacking(self) -> int:
        """Return how many scopes hold memories without a vector, of the first `CHECKED_SCOPES`."""
        spaces = await self.store.memories.spaces.all()
        own = [
            space.number
            for space in spaces
            if space.name == self.own_space and space.state == "current"
        ]
        if not own:
            return 0
        scopes = await self.store.scopes(limit=CHECKED_SCOPES)
        return len(await self.store.memories.lacking_vectors(scopes, own[0], now=self.clock()))

    async def prune(self, *, dry_run: bool) -> Pruned:
        """Delete what has expired, extend what is popular, evict what is too much."""
        # what is popular by now must not be deleted for a count that waits
        await self.deliveries.flush()
        pruned = await prune(
            self.store.memories,
            self.vectors,
            settings=self.settings,
            weights=self.weights,
            now=self.clock(),
            dry_run=dry_run,
        )
        if not dry_run:
            if pruned.erased:
                self.forget_vectors()
            telemetry.pruned(pruned.counts)
        return pruned

    async def reembed(
        self, embedding: EmbedderChoice, *, drop_old: bool, progress: Callable[[int], None] | None
    ) -> Reembedded:
        """Embed the store anew by another embedder."""
        embedder = open_embedder(
            self.settings.embedding if embedding is None else embedding, self.settings
        )
        if embedder is None:
            raise ConfigurationError("Name the embedder that the memories are to be embedded by.")
        successor = StoreEmbedder(self.store, embedder, self.settings, replaces=True)
        work = Reembedding(
            self.store,
            successor,
            batch_size=self.settings.batch_size,
            clock=self.clock,
            progress=progress,
        )
        done = await work.run()
        if self.vectors is not None:
            self.vectors.succeed(successor)
        return (
            replace(done, dropped=tuple(await self.store.memories.spaces.drop_retired()))
            if drop_old
            else done
        )

    async def drain(self, seconds: float) -> bool:
        """Wait until every accepted job is done; see `Memories.drain`."""
        end, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
        while True:
            with suppress(StoreError):  # a store that is away may hold jobs still
                if not (await self.store.queue.pending(now=self.clock())).count:
                    break
            self.worker.wake()
            if (left := end - time.monotonic()) <= 0:
                await self._log_unfinished()
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)
        try:
            await asyncio.wait_for(self.deliveries.drain(), max(0.0, end - time.monotonic()) + 0.01)
        except TimeoutError:
            return False
        return await self._log_unfinished()

    async def _log_unfinished(self) -> bool:
        """Log what is left in the queue; return False if it holds dead letters or cannot be
        read.
        """
        try:
            dead = await self.store.queue.jobs(state="dead", limit=1, payloads=False)
            queued = await self.store.queue.jobs(state="queued", limit=JOBS_READ, payloads=False)
        except StoreError as error:
            logger.warning("The rest of the queue cannot be read: %s", error)
            return False
        if dead:
            text = "The queue holds dead letters, among them job %s (%s); retry or drop them."
            logger.warning(text, dead[0].id, dead[0].error)
            return False
        if failing := [job for job in queued if job.error]:
            logger.warning(
                "Saves wait in the queue, among them job %s (%s).", failing[0].id, failing[0].error
            )
        return True

    def background(
        self, prune: Callable[[], Awaitable[Pruned]], stop: asyncio.Event
    ) -> list[asyncio.Task[None]]:
        """Start what goes on while the memories are open: the worker, the prune, and the embedding
        of what a store held before it had an embedder.
        """
        tasks = [asyncio.create_task(self.worker.work(stop), name="kagent-memory-worker")]
        if hours := self.settings.prune_every_hours:
            pruning = keep_pruned(self.store.queue, prune, every_hours=hours)
            tasks.append(asyncio.create_task(pruning, name="kagent-memory-prune"))
        if self.vectors is not None:
            filling = backfill(self.store, self.vectors, clock=self.clock, wake=self.worker.wake)
            tasks.append(asyncio.create_task(filling, name=BACKFILL))
        for task in tasks:
            task.add_done_callback(_log_failure)
        return tasks

    async def close(self) -> None:
        """Let go of the store and the models."""
        await self.deliveries.close()
        await close_connections()
        await self.store.close()
        self.forget_vectors()


async def open_components(
    uri: str | None,
    *,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    gate: Gate | bool | None,
    rank: RankSettings | None,
    importance_weights: ImportanceWeights | None,
    resolve_llm: Callable[[str], Llm | None] | None,
    redact: Callable[[str], str] | None,
    settings: MemorySettings | None,
    clock: Callable[[], datetime],
    pool: object = None,
    **options: Any,
) -> Components:
    """Open and migrate the store, and put its models and background work together; see
    `Memories.open`.
    """
    cancel_tasks_at_exit()
    redact, importance_weights = redact or mask_secrets, importance_weights or ImportanceWeights()
    check_arguments(summary, rank, importance_weights, redact=redact, clock=clock)
    uri = "postgresql:///" if uri is None and pool is not None else uri
    bare, settings = compose(uri, settings, options, os.environ)
    (gate, settings), redactors = with_gate(gate, settings), redactors_of(redact, settings)
    # in a thread: looking up the provider of a name may import LiteLLM
    embedder, model, reranker, providers = await asyncio.to_thread(
        _open_models, settings, embedding, llm, summary, rerank, resolve_llm
    )
    store = await _open_store(bare, settings, pool_size=settings.pool_size, pool=pool)
    try:
        vectors = StoreEmbedder(store, embedder, settings) if embedder is not None else None
        if vectors is not None:
            await vectors.check()
        retriever = Retriever(
            store.memories,
            vectors,
            llm=model,
            reranker=reranker,
            gate=gate,
            rank=rank,
            weights=importance_weights,
            settings=settings,
            has_short_term=settings.short_term_hours > 0 or await store.memories.keeps_short_term(),
        )
    except BaseException:
        await store.close()
        raise
    handlers = JobHandlers(store, vectors, providers, settings=settings, clock=clock)
    worker = Worker(
        store.queue,
        handlers.run,
        clock=clock,
        redact=redactors.mask,
        location=without_secrets(bare),
    )
    return Components(
        store=store,
        settings=settings,
        location=without_secrets(bare),
        vectors=vectors,
        caller_vectors=CallerVectors(store.memories, clock),
        retriever=retriever,
        providers=providers,
        enqueuer=Enqueuer(
            store,
            providers,
            redact=redactors.save,
            max_bytes=settings.max_content_bytes,
            clock=clock,
        ),
        handlers=handlers,
        worker=worker,
        deliveries=Deliveries(store.memories, clock),
        redactors=redactors,
        clock=clock,
        weights=importance_weights,
    )


def _open_models(
    settings: MemorySettings,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    resolve_llm: Callable[[str], Llm | None] | None,
) -> tuple[Embedder | None, Llm | None, Reranker | None, Providers]:
    """Return the models that were chosen, or that the settings name."""
    llm = settings.updated({"llm": llm}).llm if isinstance(llm, str) else llm
    embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
    model = _open_llm(settings.llm if llm is None else llm, settings, resolve_llm)
    providers = Providers(
        summary and with_settings(summary, settings),
        model,
        allow_model=llm is not False and (settings.llm is not False or llm is not None),
        resolve=resolve_llm,
        embeds=embedder is not None,
    )
    reranker = open_reranker(settings.rerank if rerank is None else rerank, settings)
    return embedder, model, reranker, providers


def _open_llm(
    choice: Any, settings: MemorySettings, resolve: Callable[[str], Llm | None] | None
) -> Llm | None:
    """Return the model of a choice; a name that LiteLLM does not know is `resolve`d.

    Raises:
        ConfigurationError: nobody knows the name, or the choice is of no known kind.
    """
    try:
        return open_llm(choice, settings)
    except ConfigurationError:
        name = choice.strip() if isinstance(choice, str) else ""
        if resolve is None or not name or (model := resolve(name)) is None:
            raise
        return model


async def _open_store(
    uri: str, settings: MemorySettings, *, pool_size: int, pool: object = None
) -> Store:
    if pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
        raise ConfigurationError(
            "pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://…."
        )
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
    """Return a store's URI as it may be shown."""
    bare = uri.partition("?")[0]
    scheme, _, rest = bare.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
