"""The parts of open memories, and the helpers that their verbs share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from .. import telemetry
from ..concurrency import run_in_thread
from ..errors import NotFound
from ..ingestion import JobHandlers, Providers, Worker
from ..ingestion.reembedding import backfill
from ..language.follow_ups import EARLIER_TURNS
from ..records import MAX_QUERY_CHARS, SEARCHED, Change, Memory, Mode, Scope
from ..redaction.redactors import Redactors
from ..retention.deliveries import Deliveries
from ..retrieval.embedding_spaces import StoreEmbedder, with_vectors
from ..retrieval.question import Question
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings
from ..stores import Store
from ..stores.values import Batch
from .verbs import Verb


def utc_now() -> datetime:
    """Return the current time, aware UTC."""
    return datetime.now(UTC)


@dataclass(kw_only=True, eq=False, repr=False)
class Opened:
    """The parts of open memories, and the helpers that their verbs share.

    Memories that are open elsewhere have only `settings`, `location` and `mode`.

    Attributes:
        settings: the settings in force.
        location: the URI without password and query, for people and traces.
        vectors: the embedder; None: keyword mode.
        redactors: mask a text before anything else sees it.
        clock: returns the current time (aware UTC).
        weights: the weights of the importance formula.
        mode: the search mode while every part works.
        operation: records a span and a duration around one operation.
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
        self.mode: Mode = "keyword" if self.vectors is None else "hybrid"
        self.deliveries = Deliveries(store.memories, clock)
        self.operation = partial(telemetry.operation, store=self.location)
        handlers = JobHandlers(store, self.vectors, self.providers, settings, clock)
        self.worker = Worker(
            store.queue,
            handlers.run,
            clock=clock,
            redact=self.redactors.mask,
            location=self.location,
        )
        self._stop = asyncio.Event()
        self._background: dict[str, asyncio.Task[None]] = {}

    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a verb here, with checked arguments."""
        return verb.function(self, **verb.checked(args, kwargs))

    def forget_vectors(self) -> None:
        """Drop the cached vectors, some of which may belong to erased memories."""
        if self.vectors is not None:
            self.vectors.forget()

    async def read_query(
        self, query: str, history: Sequence[str], now: datetime
    ) -> tuple[str, Sequence[str], Question]:
        """Mask secrets in a query and the turns before it, and parse the query.

        Args:
            query: the query.
            history: the turns before it, oldest first.
            now: the time from which "yesterday" counts.
        """
        turns = [turn[:MAX_QUERY_CHARS] for turn in history[-EARLIER_TURNS:]]

        def read() -> tuple[str, Sequence[str], Question]:
            text, *earlier = [self.redactors.mask(text) for text in (query, *turns)]
            return text, earlier, Question.read(text, now, earlier)

        return await run_in_thread(len(query) + sum(map(len, turns)), read)

    async def stored(
        self, scope: Scope, id: str, *, superseded: bool = False, quarantined: bool = False
    ) -> Memory:
        """Read a memory by its id; it must be visible or short-term.

        Args:
            scope: the scope of the memory.
            id: the id of the memory.
            superseded: also return one in any other state.
            quarantined: only return a quarantined one.

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

    async def embed_and_apply(
        self, scope: Scope, changes: Sequence[Change], *, now: datetime, strict: bool = False
    ) -> Sequence[str | None]:
        """Write changes with vectors of their contents, and return the ids of the changed memories.

        Raises:
            UnusableAnswer: `strict` is set and the embedder gave an unusable answer.
        """
        batch = Batch(changes=changes)
        batch = await with_vectors(self.vectors, scope, batch, now, strict=strict)
        return await self.apply(scope, batch, now=now)

    async def embed_later(self, vectors: StoreEmbedder) -> None:
        """Queue the embedding of memories without a vector."""
        await backfill(self.store, vectors, clock=self.clock, wake=self.worker.wake)

    async def apply(self, scope: Scope, batch: Batch, *, now: datetime) -> Sequence[str | None]:
        """Write a batch, wake the worker for the jobs in it, and return the ids of the changed
        memories.
        """
        applied = await self.store.apply(scope, batch, now=now)
        if any(job.run_after <= now for job in batch.jobs):
            self.worker.wake()
        return applied
