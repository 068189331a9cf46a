"""The embedder of one store: which generation its vectors belong to, checked before the first one is kept."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..errors import ConfigurationError, InvalidInput, ModelError, UnusableAnswer
from ..models.embedding import Embedder
from ..models.embedding.vector_checks import ADVICE
from ..records import Scope, Vector, new_id
from ..settings import MemorySettings
from ..stores.base import EXTERNAL, Batch, EmbeddingSpace, Job, MemoryStore
from ..stores.values import checked_vectors
from .embedding_cache import EmbeddingCache, Kind

logger = logging.getLogger(__name__)

PROBE = "kagent_memory: the quick brown fox remembers."
SAME_MODEL_COSINE = 0.98


class StoreEmbedder:
    """Embeds for one store, no text twice, and makes sure that two models never mix in it."""

    def __init__(self, store: MemoryStore, embedder: Embedder, settings: MemorySettings = MemorySettings()) -> None:
        self._store = store
        self._embedder = embedder
        self._generation: EmbeddingSpace | None = None
        self._cache = EmbeddingCache(
            self._asked,
            batch_size=settings.batch_size,
            max_bytes=settings.embedding_cache_mb * 2**20,
            seconds=settings.embedding_cache_seconds,
        )

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    async def check(self, dimensions: int | None = None) -> None:
        """Compares the embedder's name, and the width it answered with, with what the store holds.

        Raises:
            ConfigurationError: the store holds another embedder's vectors.
        """
        for held in await self._store.generations():
            if held.name.startswith(EXTERNAL) or (held.name == self.name and dimensions in (None, held.dimensions)):
                continue
            given = f"{self.name!r}" + (f" ({dimensions} dimensions)" if dimensions else "")
            width = f" and dimensions={held.dimensions}" if held.name == self.name else ""
            raise ConfigurationError(
                f"This store holds vectors of {held.name!r} ({held.dimensions} dimensions), and {given} was given. "
                f"Open it with embedding={held.name!r}{width}, or use another database or schema for the new embedder."
            )

    def forget(self) -> None:
        """Keeps no vector of a text that may have been forgotten."""
        self._cache.clear()

    async def embed(self, texts: Sequence[str], *, kind: Kind, tenant: str) -> tuple[EmbeddingSpace, list[Vector]]:
        """The generation and one vector per text, shared with whoever asks for the same text of this tenant.

        Raises:
            ModelError: the embedder is unavailable or answers what cannot be used.
            ConfigurationError: it is not the model whose vectors the store holds.
        """
        generation = self._generation or await self._identify()
        return generation, await self._cache.vectors(texts, kind, tenant=tenant) if texts else []

    async def ping(self) -> None:
        """Embeds a word, whatever is kept.

        Raises:
            ModelError: the embedder is unavailable or answers what cannot be used.
            ConfigurationError: it is not the model whose vectors the store holds.
        """
        if self._generation is None:
            await self._identify()
        await self._asked(["ping"], "query")

    async def _asked(self, texts: Sequence[str], kind: Kind) -> list[Vector]:
        return self._checked(await self._embedder.embed(texts, kind=kind), len(texts), self._generation)

    async def _identify(self) -> EmbeddingSpace:
        [probe] = await self._asked([PROBE], "document")
        await self.check(len(probe))
        generation = await self._store.add_generation(self.name, len(probe), probe)
        held = generation.probe
        same = 1.0 if held is None else float(probe @ held / (np.linalg.norm(probe) * np.linalg.norm(held)))
        if same < SAME_MODEL_COSINE:
            raise ConfigurationError(
                f"The embedder {self.name!r} no longer answers as it did when this store was filled: it is another "
                "model under the same name. Restore the former one, or use another database or schema."
            )
        self._generation = generation
        return generation

    def _checked(self, answer: object, count: int, generation: EmbeddingSpace | None) -> list[Vector]:
        rows = np.asarray(answer)
        if rows.ndim != 2 or rows.shape[0] != count:
            raise UnusableAnswer(
                f"The embedder {self.name!r} returned an array of shape {rows.shape} for {count} text(s); {ADVICE}."
            )
        try:
            return checked_vectors(list(rows), generation.dimensions if generation else rows.shape[1])
        except InvalidInput as error:
            raise UnusableAnswer(
                f"The embedder {self.name!r} returned an invalid vector: {error} To fix it, {ADVICE}."
            ) from error


def embed_job(scope: Scope, now: datetime) -> Job:
    """The job that embeds whatever in the scope lacks a vector; one at a time is enough."""
    return Job(id=new_id(now), scope=scope, kind="embed", key="embed", run_after=now, created_at=now)


async def with_vectors(
    vectors: StoreEmbedder | None, scope: Scope, batch: Batch, now: datetime, *, strict: bool = False
) -> Batch:
    """The batch with a vector for every active memory in it; an embedder that is down leaves a job for later.

    Args:
        vectors: None in keyword mode.
        scope: whose.
        batch: what is to be written.
        now: when that job is due.
        strict: an embedder that is there and answers nonsense is an error, since no later time makes it better.

    Raises:
        UnusableAnswer: see `strict`.
        ConfigurationError: it is not the model whose vectors the store holds.
    """
    texts = {change.memory.id: change.memory.content for change in batch.changes if change.memory.state == "active"}
    if vectors is None or not texts:
        return batch
    try:
        generation, rows = await vectors.embed(list(texts.values()), kind="document", tenant=scope.tenant)
    except ModelError as error:
        if strict and isinstance(error, UnusableAnswer):
            raise
        logger.warning("Memories were stored without vectors and will be embedded later: %s", error)
        return replace(batch, jobs=(*batch.jobs, embed_job(scope, now)))
    return replace(batch, vectors=dict(zip(texts, rows, strict=True)), generation=generation.number)
