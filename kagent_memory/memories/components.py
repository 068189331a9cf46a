"""The parts of one `Memories`, put together from settings and models."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from .. import telemetry
from ..concurrency import run_in_thread
from ..errors import ConfigurationError, NotFound
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..ingestion.reembedding import backfill
from ..ingestion.summary_provider import SummaryProvider, checked_provider, with_settings
from ..models.embedding import Embedder, EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.reranking import RerankChoice, Reranker, open_reranker
from ..records import MAX_QUERY_CHARS, SEARCHED, Change, Filter, Memory, Scope
from ..redaction import Redactor, masked_id, redactor
from ..redaction import redact as mask_secrets
from ..redaction.personal_data import PersonalData
from ..retention.deliveries import Deliveries
from ..retention.prune import keep_pruned
from ..retrieval.embedding_spaces import StoreEmbedder, with_vectors
from ..retrieval.query import Gate
from ..retrieval.question import EARLIER_TURNS
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings
from ..stores import Store, open_store
from ..stores.values import Batch, OpenOptions, Pruned
from .tokens import Tokens

logger = logging.getLogger(__name__)
BACKFILL = "kagent-memory-backfill"
"""The task that queues the embedding of what a store held before it had an embedder."""


class Redactors(NamedTuple):
    """Functions that mask a text before anything else sees it.

    Attributes:
        save: to one that is to be stored; it may refuse one.
        mask: to one that is only searched with or logged.
        secrets: secrets alone, whatever the settings say of personal data.
    """

    save: Redactor
    mask: Redactor
    secrets: Redactor


@dataclass(kw_only=True, eq=False)
class Components:
    """The parts of one `Memories`.

    Attributes:
        location: the URI without password and query, for people and traces.
        vectors: the embedder; None: keyword mode.
        redactors: what is done to a text before anything else sees it.
        clock: the time now (aware UTC).
        weights: of the importance formula.
        tokens: the bearer tokens of a server.
    """

    store: Store
    settings: MemorySettings
    location: str
    vectors: StoreEmbedder | None
    retriever: Retriever
    providers: Providers
    redactors: Redactors
    clock: Callable[[], datetime]
    weights: ImportanceWeights

    def __post_init__(self) -> None:
        store, settings, clock = self.store, self.settings, self.clock
        self.deliveries = Deliveries(store.memories, clock)
        self.tokens = Tokens(store.tokens, settings.tenant, clock)
        self.enqueuer = Enqueuer(
            store,
            self.providers,
            redact=self.redactors.save,
            max_bytes=settings.max_content_bytes,
            clock=clock,
        )
        self.handlers = JobHandlers(store, self.vectors, self.providers, settings, clock)
        self.worker = Worker(
            store.queue,
            self.handlers.run,
            clock=clock,
            redact=self.redactors.mask,
            location=self.location,
        )

    def forget_vectors(self) -> None:
        """Drop the vectors kept in memory: some may be of what was erased."""
        if self.vectors is not None:
            self.vectors.forget()

    def operation(
        self, name: telemetry.OperationName, *scopes: Scope, query: str | None = None
    ) -> AbstractContextManager[telemetry.Operation]:
        """Return a span and a duration around one operation on scopes; they name the app that all
        of them have.
        """
        apps = {scope.app for scope in scopes}
        app = apps.pop() if len(apps) == 1 else ""
        return telemetry.operation(name, store=self.location, scope_app=app, query=query)

    async def masked_query(self, query: str, history: Sequence[str]) -> tuple[str, list[str]]:
        """Return the query and the last turns before it, with secrets masked."""
        turns = [turn[:MAX_QUERY_CHARS] for turn in history[-EARLIER_TURNS:]]

        def mask() -> list[str]:
            return [self.redactors.mask(text) for text in (query, *turns)]

        text, *earlier = await run_in_thread(len(query) + sum(map(len, turns)), mask)
        return text, earlier

    async def get(
        self, scope: Scope, id: str, *, superseded: bool = False, quarantined: bool = False
    ) -> Memory:
        """Return a memory that is visible or short-term.

        Args:
            scope: whose memory.
            id: of the memory.
            superseded: also one in any other state.
            quarantined: only one that waits to be confirmed.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        memories = await self.store.memories.get(scope, [id], now=self.clock(), superseded=True)
        memory = memories.get(id)
        states = {"quarantined"} if quarantined else {*SEARCHED, "short_term"}
        if memory is None or not (superseded or memory.state in states):
            where = "waits in the quarantine of" if quarantined else "in"
            raise NotFound(f"No memory {id} {where} this scope.")
        return memory

    def masked_filter(self, filter: Filter) -> Filter:
        """Return the filter with the session id as memories carry it."""
        if filter.session_id is None:
            return filter
        return replace(filter, session_id=masked_id(filter.session_id))

    async def embed_and_apply(
        self, scope: Scope, changes: Sequence[Change], *, now: datetime, strict: bool = False
    ) -> Sequence[str | None]:
        """Write changes with the vectors of what they say; return the ids of what they changed.

        Raises:
            UnusableAnswer: `strict`, and the embedder answered what cannot be used.
        """
        batch = Batch(changes=changes)
        batch = await with_vectors(self.vectors, scope, batch, now, strict=strict)
        return await self.apply(scope, batch, now=now)

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Sequence[str | None]:
        """Write a batch, and have the worker do what it leaves to do; return the ids of what it
        changed.
        """
        applied = await self.store.apply(scope, batch, now=now)
        if any(job.run_after <= now for job in batch.jobs):
            self.worker.wake()
        return applied

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
        await self.store.close()
        self.forget_vectors()


def check_gate(gate: Gate | None) -> None:
    """Refuse a gate that would fail at every later use.

    Raises:
        ConfigurationError: says what it takes.
    """
    if not (gate is None or _is_gate(gate)):
        raise ConfigurationError(
            "gate takes an object with a plain method searches(text, *, tool=False, is_fact=None), "
            f"not {gate!r}; see Memories.open."
        )


def _is_gate(gate: object) -> bool:
    """Return True for an object whose method takes what a gate is asked with."""
    searches = getattr(gate, "searches", None)
    if isinstance(gate, type) or not callable(searches) or inspect.iscoroutinefunction(searches):
        return False
    try:
        inspect.signature(searches).bind("", tool=False, is_fact=None)
    except TypeError:
        return False
    except ValueError:  # compiled functions tell no signature
        return True
    return True


def choose_redactors(redact: Redactor | None, settings: MemorySettings) -> Redactors:
    """Return what masks secrets, as given or ours with the table that a setting names, and what
    the settings say of pii.

    Raises:
        ConfigurationError: both are given, a table cannot be read, an unknown kind of pii, or its
            extra is missing.
    """
    if redact is not None and settings.secrets_file:
        raise ConfigurationError(
            "Pass secrets_file or redact=, not both: redact= replaces the built-in redaction."
        )
    if redact is None:
        redact = redactor(settings.secrets_file) if settings.secrets_file else mask_secrets
    rules = settings.pii
    if rules is None:
        return Redactors(redact, redact, redact)
    data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
    mask = data.after(redact)
    save = mask if rules.mode == "mask" else data.refusing(redact, dropped=rules.mode == "drop")
    return Redactors(save, mask, redact)


def choose_models(
    settings: MemorySettings,
    embedding: EmbedderChoice,
    llm: str | bool | Llm | None,
    summary: SummaryProvider | None,
    rerank: RerankChoice,
    resolve_llm: Callable[[str], Llm | None] | None,
) -> tuple[Embedder | None, Providers, Reranker | None]:
    """Return the models that were chosen, or else those that the settings name; a name that
    LiteLLM does not know is resolved.

    Raises:
        ConfigurationError: nobody knows a name, or a choice is of no known kind.
    """
    if summary is not None:
        summary = with_settings(checked_provider(summary), settings)
    if isinstance(llm, str):
        llm = settings.updated({"llm": llm}).llm
    choice = settings.llm if llm is None else llm
    try:
        model = open_llm(choice, settings)
    except ConfigurationError:
        name = choice.strip() if isinstance(choice, str) else ""
        model = resolve_llm(name) if name and resolve_llm else None
        if model is None:
            raise
    embedder = open_embedder(settings.embedding if embedding is None else embedding, settings)
    providers = Providers(
        summary,
        model,
        allow_model=choice is not False,
        resolve=resolve_llm,
    )
    return (
        embedder,
        providers,
        open_reranker(settings.rerank if rerank is None else rerank, settings),
    )


async def open_database(uri: str, settings: MemorySettings, pool: object) -> Store:
    """Open and migrate the store of a URI.

    Raises:
        ConfigurationError: the pool or the URI does not fit.
        StoreError: the database cannot be reached.
    """
    if pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
        raise ConfigurationError(
            "pool= takes connections to PostgreSQL; leave the URI out, or make it postgresql://…."
        )
    names = OpenOptions.__annotations__.keys() - {"schema", "pool"}
    options: dict[str, Any] = {name: getattr(settings, name) for name in names}
    return await open_store(uri, pool=pool, schema=settings.postgres_schema, **options)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
