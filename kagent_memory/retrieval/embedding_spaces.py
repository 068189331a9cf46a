"""The embedder of one store: which space its vectors belong to, checked before the first one is kept; and the one
whose vectors it replaces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..errors import ConfigurationError, InvalidInput, ModelError, UnusableAnswer
from ..models.embedding import Embedder
from ..models.embedding.vector_checks import ADVICE
from ..records import Scope, Vector
from ..settings import MemorySettings
from ..stores.base import EXTERNAL, Batch, EmbeddingSpace, MemoryStore, embed_job
from ..stores.values import checked_vectors
from .embedding_cache import EmbeddingCache, Kind

logger = logging.getLogger(__name__)

PROBE = "kagent_memory: the quick brown fox remembers."
SAME_MODEL_COSINE = 0.98


def same_model(probe: Vector | None, other: Vector | None) -> bool:
    """Whether two answers to `PROBE` are one model's; True where one of them is not known."""
    if probe is None or other is None:
        return True
    return float(probe @ other / (np.linalg.norm(probe) * np.linalg.norm(other))) >= SAME_MODEL_COSINE


class ModelSpace:
    """One embedder and the embedding space of its vectors: embeds no text twice, and makes sure that no other model's
    vectors get in between.
    """

    def __init__(
        self, store: MemoryStore, embedder: Embedder, settings: MemorySettings, *, replaces: bool = False
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._replaces = replaces
        self._space: EmbeddingSpace | None = None
        self._cache = EmbeddingCache(
            self._asked,
            batch_size=settings.batch_size,
            max_bytes=settings.cache_mb * 2**20 // 4,
        )

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    async def check(self, dimensions: int | None = None) -> Sequence[EmbeddingSpace]:
        """Compares the embedder's name, and the width it answered with, with what the store holds; gives that.

        Raises:
            ConfigurationError: the store holds another embedder's vectors.
        """
        held = [space for space in await self._store.embedding_spaces() if not space.name.startswith(EXTERNAL)]
        own = [space for space in held if space.name == self.name and dimensions in (None, space.dimensions)]
        if not held or any(space.state != "retired" for space in own):
            return held
        there = next((space for space in held if space.state == "current"), held[0])
        given = f"{self.name!r}" + (f" ({dimensions} dimensions)" if dimensions else "")
        width = f" and dimensions={there.dimensions}" if there.name == self.name else ""
        raise ConfigurationError(
            f"This store holds vectors of {there.name!r} ({there.dimensions} dimensions), and {given} was given. Open "
            f"it with embedding={there.name!r}{width}; or have it embedded anew: `kagent-memory reembed --embedding "
            f"{self.name}`, or Memories.reembed."
        )

    def forget(self) -> None:
        """Keeps no vector of a text that may have been forgotten."""
        self._cache.clear()

    async def embed(self, texts: Sequence[str], *, kind: Kind, tenant: str) -> tuple[EmbeddingSpace, list[Vector]]:
        """See `StoreEmbedder.embed`."""
        space = self._space or await self._identify()
        return space, await self._cache.vectors(texts, kind, tenant=tenant) if texts else []

    async def ping(self) -> None:
        """See `StoreEmbedder.ping`."""
        if self._space is None:
            await self._identify()
        await self._asked(["ping"], "query")

    async def _asked(self, texts: Sequence[str], kind: Kind) -> list[Vector]:
        rows, space = np.asarray(await self._embedder.embed(texts, kind=kind)), self._space
        if rows.ndim != 2 or rows.shape[0] != len(texts):
            raise UnusableAnswer(
                f"The embedder {self.name!r} returned an array of shape {rows.shape} for {len(texts)} text(s); "
                f"{ADVICE}."
            )
        try:
            return checked_vectors(list(rows), space.dimensions if space else rows.shape[1])
        except InvalidInput as error:
            raise UnusableAnswer(
                f"The embedder {self.name!r} returned an invalid vector: {error} To fix it, {ADVICE}."
            ) from error

    async def _identify(self) -> EmbeddingSpace:
        [probe] = await self._asked([PROBE], "document")
        if self._replaces:
            space = await self._store.replace_embedding_space(self.name, len(probe), probe)
        else:
            await self.check(len(probe))
            space = await self._store.add_embedding_space(self.name, len(probe), probe)
        if not same_model(probe, space.probe):
            raise ConfigurationError(
                f"The embedder {self.name!r} no longer answers as it did when this store was filled: it is another "
                "model under the same name. Restore the former one; or name this one differently, and have the store "
                "embedded anew (`kagent-memory reembed`)."
            )
        self._space = space
        return space


class StoreEmbedder:
    """The embedder of one store, and beside it the former one, while that one's vectors are being replaced.

    Attributes:
        former: whose vectors searches ask as well; None: nothing is being replaced, as far as this process knows.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        settings: MemorySettings = MemorySettings(),
    ) -> None:
        self._store = store
        self._current = ModelSpace(store, embedder, settings)
        self.former: ModelSpace | None = None

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._current.name

    async def check(self) -> None:
        """Compare the embedder's name with what the store holds, and warn while one replaces another.

        Raises:
            ConfigurationError: the store holds another embedder's vectors.
        """
        held = await self._current.check()
        replaced = next((space.name for space in held if space.state == "current"), self.name)
        coming = next((space.name for space in held if space.state == "filling"), self.name)
        if replaced != self.name:
            logger.warning(
                "The vectors of %r are being replaced by those of %r: what these lack is found by words. Open the "
                "store with embedding=%r until that is done, and searches lack nothing.",
                replaced,
                self.name,
                replaced,
            )
        elif coming != self.name:
            logger.warning(
                "The vectors of %r are being replaced by those of %r: what is saved from here is embedded by that one "
                "later. Open the store with embedding=%r once that is done.",
                self.name,
                coming,
                coming,
            )

    def succeed(self, successor: ModelSpace) -> None:
        """Embeds as `successor` does from now on; until `finish` searches ask for the former's vectors too."""
        if successor.name != self.name:
            self.former = self._current
        self._current = successor  # also of the same name: the one before may be the one that failed

    def finish(self) -> None:
        """Nothing is being replaced any more."""
        self.former = None

    async def serves(self, space: str) -> bool:
        """Whether this process can do what is left to the embedder of this name ("": to any): it has it, or the store
        has left that one behind for this one.
        """
        if space in ("", self.name):
            return True
        states = {held.name: held.state for held in await self._store.embedding_spaces()}
        return states.get(self.name) == "current" and states.get(space, "retired") == "retired"

    def forget(self) -> None:
        """Keeps no vector of a text that may have been forgotten."""
        for space in (self._current, self.former):
            if space is not None:
                space.forget()

    async def embed(self, texts: Sequence[str], *, kind: Kind, tenant: str) -> tuple[EmbeddingSpace, list[Vector]]:
        """The space and one vector per text, shared with whoever asks for the same text of this tenant.

        Raises:
            ModelError: the embedder is unavailable or answers what cannot be used.
            ConfigurationError: it is not the model whose vectors the store holds.
        """
        return await self._current.embed(texts, kind=kind, tenant=tenant)

    async def ping(self) -> None:
        """Embeds a word, whatever is kept.

        Raises:
            ModelError: the embedder is unavailable or answers what cannot be used.
            ConfigurationError: it is not the model whose vectors the store holds.
        """
        await self._current.ping()


async def embed_some(
    store: MemoryStore,
    vectors: StoreEmbedder | ModelSpace,
    scope: Scope,
    *,
    limit: int,
    clock: Callable[[], datetime],
    job: tuple[str, int] | None = None,
) -> int:
    """Embeds the oldest memories of a scope that lack a vector, and gives how many; the last of them end the job.

    Raises:
        Conflict: the scope was written to meanwhile, or the job is somebody else's.
        ModelError: the embedder is unavailable or answers what cannot be used.
        ConfigurationError: it is not the model whose vectors the store holds.
    """
    version = await store.version(scope)
    space, _ = await vectors.embed([], kind="document", tenant=scope.tenant)
    lacking = await store.unembedded(scope, space.number, limit=limit, now=clock())
    texts = [memory.content for memory in lacking]
    _, rows = await vectors.embed(texts, kind="document", tenant=scope.tenant)
    batch = Batch(
        vectors={memory.id: row for memory, row in zip(lacking, rows, strict=True)},
        space_number=space.number,
        job=job if len(lacking) < limit else None,
        expected_version=version,
    )
    if batch.vectors or batch.job:
        await store.apply(scope, batch, now=clock())
    return len(lacking)


async def with_vectors(
    vectors: StoreEmbedder | None, scope: Scope, batch: Batch, now: datetime, *, strict: bool = False
) -> Batch:
    """The batch with a vector for every memory in it that searches find; an embedder that is down leaves a job.

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
    found = (change.memory for change in batch.changes if change.memory.state in ("active", "short_term"))
    texts = {memory.id: memory.content for memory in found}
    if vectors is None or not texts:
        return batch
    try:
        space, rows = await vectors.embed(list(texts.values()), kind="document", tenant=scope.tenant)
    except ModelError as error:
        if strict and isinstance(error, UnusableAnswer):
            raise
        logger.warning("Memories were stored without vectors and will be embedded later: %s", error)
        return replace(batch, jobs=(*batch.jobs, embed_job(scope, now)))
    return replace(batch, vectors=dict(zip(texts, rows, strict=True)), space_number=space.number)
