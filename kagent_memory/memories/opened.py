"""The parts of open memories, and the helpers that their verbs share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from .. import telemetry
from ..concurrency import batched
from ..errors import NotFound
from ..ingestion import JobHandlers, Providers, Worker
from ..ingestion.reembedding import backfill
from ..records import Change, Filter, Memory, Mode, Scope, Vector
from ..redaction.redactors import Redactors
from ..retention.deliveries import Deliveries
from ..retrieval.embedding_spaces import StoreEmbedder, with_vectors
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings
from ..stores import Store
from ..stores.spaces import EmbeddingSpace, external_name
from ..stores.values import WITH_SHORT_TERM, Batch, Whole
from .verbs import Verb

PART = 200  # memories read or written at once


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
        self._background: dict[str, asyncio.Task[None]] = {}

    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a verb here, with checked arguments."""
        return verb.function(self, **verb.checked(args, kwargs))

    def forget_vectors(self) -> None:
        """Drop the cached vectors, some of which may belong to erased memories."""
        if self.vectors is not None:
            self.vectors.forget()

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
        states = {"quarantined"} if quarantined else WITH_SHORT_TERM
        if memory is None or not (superseded or memory.state in states):
            where = "waits in the quarantine of" if quarantined else "in"
            raise NotFound(f"No memory {id} {where} this scope.")
        return memory

    async def wholes(self, scope: Scope) -> AsyncGenerator[Sequence[Whole]]:
        """Yield all memories of a scope in any state, `PART` at a time."""
        for ids in batched(await self.store.memories.kept(scope, Filter()), PART):
            yield await self.store.memories.whole(scope, ids)

    async def embed_and_apply(
        self, scope: Scope, changes: Sequence[Change], *, now: datetime, strict: bool = False
    ) -> Sequence[str | None]:
        """Write changes with vectors of their contents, and return the ids of the changed memories.

        Raises:
            UnusableAnswer: `strict` is set and the embedder gave an unusable answer.
        """
        batch = await with_vectors(self.vectors, scope, Batch(changes=changes), now, strict=strict)
        return await self.store.apply(scope, batch, now=now)

    async def embed_later(self) -> None:
        """Queue the embedding of memories without a vector, if there is an embedder."""
        if self.vectors is not None:
            await backfill(self.store, self.vectors, clock=self.clock, wake=self.worker.wake)

    async def space_for(self, vector: Vector) -> EmbeddingSpace | None:
        """Return the embedding space to search with a caller's vector, None if there are no vectors
        of its width.
        """
        spaces = {space.name: space for space in await self.store.memories.spaces.all()}
        return spaces.get(external_name(len(vector)))
