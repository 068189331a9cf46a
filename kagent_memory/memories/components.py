"""The parts of one `Memories`, put together from settings and models."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from .. import telemetry
from ..checks import checked_text
from ..concurrency import cancel_tasks_at_exit, run_in_thread
from ..errors import ConfigurationError, InvalidInput, NotFound
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..ingestion.editing import checked_session_id
from ..ingestion.reembedding import backfill
from ..ingestion.summary_provider import SummaryProvider, checked_provider, with_settings
from ..models.embedding import Embedder, EmbedderChoice, open_embedder
from ..models.llm import Llm, open_llm
from ..models.openai_api import close_connections
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
from ..retrieval.ranking import RankSettings
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings, compose
from ..stores import Store, open_store
from ..stores.base import Batch, Pruned
from ..stores.values import OpenOptions
from .caller_vectors import CallerVectors
from .opened import BACKFILL, without_secrets
from .tokens import Tokens

logger = logging.getLogger(__name__)


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
        caller_vectors: where vectors that callers bring are kept.
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
        self.caller_vectors = CallerVectors(store.memories, clock)
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

    @property
    def own_space(self) -> str | None:
        """The name of the embedder's space; None in keyword mode."""
        return None if self.vectors is None else self.vectors.name

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
        memory = await self._unexpired(scope, id)
        if memory is None or not (superseded or memory.state in {*SEARCHED, "short_term"}):
            raise NotFound(f"No memory {id} in this scope.")
        return memory

    async def quarantined(self, scope: Scope, id: str) -> Memory:
        """Return a memory that waits to be confirmed.

        Raises:
            NotFound: none of this id waits, or it has expired.
        """
        memory = await self._unexpired(scope, id)
        if memory is None or memory.state != "quarantined":
            raise NotFound(f"No memory {id} waits in the quarantine of this scope.")
        return memory

    async def _unexpired(self, scope: Scope, id: str) -> Memory | None:
        memories = self.store.memories
        return (await memories.get(scope, [id], now=self.clock(), superseded=True)).get(id)

    def masked_filter(self, filter: Filter) -> Filter:
        """Return the filter with the session id as memories carry it."""
        if filter.session_id is None:
            return filter
        return replace(filter, session_id=masked_id(filter.session_id))

    def session_key(self, session_id: str | None) -> str | None:
        """Return the session's id as memories carry it.

        Raises:
            InvalidInput: no session has it.
        """
        return checked_session_id(session_id) if session_id else None

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
        return applied.ids

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


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Arguments of `Memories.open` beside the settings; see there."""

    embedding: EmbedderChoice
    llm: str | bool | Llm | None
    summary: SummaryProvider | None
    rerank: RerankChoice
    gate: Gate | bool | None
    rank: RankSettings | None
    importance_weights: ImportanceWeights | None
    resolve_llm: Callable[[str], Llm | None] | None
    redact: Callable[[str], str] | None
    clock: Callable[[], datetime]
    pool: object

    async def open(
        self, uri: str | None, settings: MemorySettings | None, options: Mapping[str, Any]
    ) -> Components:
        """Open and migrate the store, and put its models and background work together; see
        `Memories.open`.
        """
        cancel_tasks_at_exit()
        self._check()
        uri = "postgresql:///" if uri is None and self.pool is not None else uri
        bare, settings = compose(uri, settings, options, os.environ)
        gate = self.gate
        if isinstance(gate, bool):
            gate, settings = None, settings.updated({"gate": gate})
        redactors = self._redactors(settings)
        # in a thread: looking up the provider of a name may import LiteLLM
        embedder, providers, reranker = await asyncio.to_thread(self._models, settings)
        store, weights = await self._store(bare, settings), self.importance_weights
        weights = weights or ImportanceWeights()
        try:
            vectors = StoreEmbedder(store, embedder, settings) if embedder is not None else None
            if vectors is not None:
                await vectors.check()
            retriever = Retriever(
                store.memories,
                vectors,
                llm=providers.llm,
                reranker=reranker,
                gate=gate,
                rank=self.rank,
                weights=weights,
                settings=settings,
                has_short_term=settings.short_term_hours > 0
                or await store.memories.keeps_short_term(),
            )
        except BaseException:
            await store.close()
            raise
        return Components(
            store=store,
            settings=settings,
            location=without_secrets(bare),
            vectors=vectors,
            retriever=retriever,
            providers=providers,
            redactors=redactors,
            clock=self.clock,
            weights=weights,
        )

    def _check(self) -> None:
        """Refuse what would fail at every later use.

        Raises:
            ConfigurationError: says which argument does not fit, and what it takes.
        """
        if self.summary is not None:
            checked_provider(self.summary)
        for name, kind in (("rank", RankSettings), ("importance_weights", ImportanceWeights)):
            if not isinstance(value := getattr(self, name), kind | None):
                takes = f"kagent_memory.{kind.__name__}(…)"
                raise ConfigurationError(f"{name} takes {takes}, not {kind_of(value)}.")
        for name in ("redact", "clock"):
            if not callable(value := getattr(self, name)) and value is not None:
                raise ConfigurationError(f"{name} takes a function, not {kind_of(value)}.")
        gate, searches = self.gate, getattr(self.gate, "searches", None)
        if isinstance(gate, bool | None):
            return
        if isinstance(gate, type) or not callable(searches) or not _takes(searches):
            raise ConfigurationError(
                "gate takes True, False, WordGate(…), or an object with a plain method "
                f"searches(text, *, tool=False, is_fact=None); not {kind_of(gate)}."
            )

    def _redactors(self, settings: MemorySettings) -> Redactors:
        """Return what masks secrets, as given or ours with the table that a setting names, and what
        the settings say of pii.

        Raises:
            ConfigurationError: both are given, a table cannot be read, an unknown kind of pii, or
                its extra is missing.
        """
        redact = self.redact or mask_secrets
        if settings.secrets_file:
            if redact is not mask_secrets:
                raise ConfigurationError(
                    "Pass secrets_file or redact=, not both: redact= replaces the built-in "
                    "redaction."
                )
            redact = redactor(settings.secrets_file)
        rules = settings.pii
        if rules is None:
            return Redactors(redact, redact, redact)
        data = PersonalData(rules.kinds, regions=rules.regions, table=rules.file)
        mask = data.after(redact)
        save = mask if rules.mode == "mask" else data.refusing(redact, dropped=rules.mode == "drop")
        return Redactors(save, mask, redact)

    def _models(
        self, settings: MemorySettings
    ) -> tuple[Embedder | None, Providers, Reranker | None]:
        """Return the models that were chosen, or that the settings name."""
        llm = self.llm
        if isinstance(llm, str):
            llm = settings.updated({"llm": llm}).llm
        embedder = open_embedder(
            settings.embedding if self.embedding is None else self.embedding, settings
        )
        providers = Providers(
            self.summary and with_settings(self.summary, settings),
            self._llm(settings.llm if llm is None else llm, settings),
            allow_model=llm is not False and (settings.llm is not False or llm is not None),
            resolve=self.resolve_llm,
            embeds=embedder is not None,
        )
        rerank = settings.rerank if self.rerank is None else self.rerank
        return embedder, providers, open_reranker(rerank, settings)

    def _llm(self, choice: Any, settings: MemorySettings) -> Llm | None:
        """Return the model of a choice; a name that LiteLLM does not know is resolved.

        Raises:
            ConfigurationError: nobody knows the name, or the choice is of no known kind.
        """
        try:
            return open_llm(choice, settings)
        except ConfigurationError:
            name = choice.strip() if isinstance(choice, str) else ""
            model = self.resolve_llm(name) if name and self.resolve_llm else None
            if model is None:
                raise
            return model

    async def _store(self, uri: str, settings: MemorySettings) -> Store:
        if self.pool is not None and not uri.removeprefix("kagent+").startswith("postgres"):
            raise ConfigurationError(
                "pool= takes connections to PostgreSQL; leave the URI out, or make it "
                "postgresql://…."
            )
        names = OpenOptions.__annotations__.keys() - {"schema", "pool"}
        options: dict[str, Any] = {name: getattr(settings, name) for name in names}
        return await open_store(uri, pool=self.pool, schema=settings.postgres_schema, **options)


def kind_of(value: object) -> str:
    """Return what a value is, for people."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _takes(searches: Callable[..., object]) -> bool:
    """Return True if a gate's method takes what a gate is asked with."""
    if inspect.iscoroutinefunction(searches):
        return False
    try:
        inspect.signature(searches).bind("", tool=False, is_fact=None)
    except TypeError:
        return False
    except ValueError:  # compiled functions tell no signature
        return True
    return True


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("%s ended: %s", task.get_name(), error, exc_info=error)
