"""Embed texts for one store: check that this embedder filled it, and cache vectors for a while."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from cachetools import TTLCache

from .. import telemetry
from ..concurrency import each_aside
from ..errors import ConfigurationError, ModelError, UnusableAnswer
from ..models.embedding import ADVICE, PROBE, CheckedEmbedder, Kind
from ..records import Memory, Scope, Vector
from ..settings import MemorySettings
from ..stores import Store
from ..stores.spaces import EXTERNAL, EmbeddingSpace
from ..stores.values import WITH_SHORT_TERM, Batch, MemoryQuery, embed_job

logger = logging.getLogger(__name__)

_Key: TypeAlias = tuple[str, str, bytes]  # a tenant, the kind of a text, and its hash
SAME_MODEL_COSINE = 0.98
ENTRY_BYTES = 470
CACHED_SECONDS = 600.0


class StoreEmbedder:
    """Embed texts for one store, caching vectors and never mixing those of different models. It
    belongs to one event loop.

    Tenants share no cached vectors, since even the time of an answer would reveal what another
    tenant asked.

    Args:
        store: the store of the vectors.
        embedder: the embedder.
        settings: the settings, which give the size of the cache.
        replaces: True to replace the vectors of another embedder by those of this one.

    Attributes:
        name: the embedder's name.
    """

    def __init__(
        self,
        store: Store,
        embedder: CheckedEmbedder,
        settings: MemorySettings,
        *,
        replaces: bool = False,
    ) -> None:
        self.name, self._embedder = embedder.name, embedder
        self._store, self._replaces = store, replaces
        self._space: EmbeddingSpace | None = None
        self._max_bytes = settings.cache_mb * 2**20 // 4
        self.forget()

    def forget(self) -> None:
        """Drop all cached vectors, some of which may belong to forgotten texts."""
        # calls under way write to the former cache, which nobody reads
        self._cached = TTLCache[_Key, Vector](
            self._max_bytes, CACHED_SECONDS, getsizeof=lambda row: row.nbytes + ENTRY_BYTES
        )

    async def check(self, dimensions: int | None = None) -> None:
        """Check that the embedder's space is one of the store's, or that the store has none yet.

        Args:
            dimensions: the dimensions of its vectors; None: as in the store.

        Raises:
            ConfigurationError: the store holds another embedder's vectors.
        """
        spaces = [
            space
            for space in await self._store.memories.spaces.all()
            if not space.name.startswith(EXTERNAL)
        ]
        if not spaces or any(
            space.name == self.name
            and dimensions in (None, space.dimensions)
            and space.state != "retired"
            for space in spaces
        ):
            return
        current = next((space for space in spaces if space.state == "current"), spaces[0])
        given = f"{self.name!r}" + (f" ({dimensions} dimensions)" if dimensions else "")
        width = f" and dimensions={current.dimensions}" if current.name == self.name else ""
        raise ConfigurationError(
            f"This store holds vectors of {current.name!r} ({current.dimensions} dimensions), and "
            f"{given} was given. Open "
            f"it with embedding={current.name!r}{width}; or have it embedded anew: `kagent-memory "
            "reembed --embedding "
            f"{self.name}`, or Memories.reembed."
        )

    def succeed(self, successor: StoreEmbedder) -> None:
        """Replace the embedder, space and cache by those of `successor`."""
        self.name, self._embedder = successor.name, successor._embedder
        self._space, self._cached = successor._space, successor._cached

    async def serves(self, space: str) -> bool:
        """Return True if this process can do the jobs for an embedder: it has that one, or one that
        replaced it in the store.

        Args:
            space: the name of the embedder; "" for any.
        """
        if space in ("", self.name):
            return True
        states = {space.name: space.state for space in await self._store.memories.spaces.all()}
        return states.get(self.name) == "current" and states.get(space, "retired") == "retired"

    async def space(self) -> EmbeddingSpace:
        """Return the space of the embedder's vectors.

        Raises:
            ModelError: the embedder is unavailable or gives an unusable answer.
            ConfigurationError: the store holds vectors of another model.
        """
        return self._space or await self._identify()

    async def embed(
        self, texts: Sequence[str], *, kind: Kind, tenant: str
    ) -> tuple[EmbeddingSpace, list[Vector | None]]:
        """Return the space and one vector for each text, None for a refused one.

        Vectors are shared with other callers of this tenant, so nobody may write to them. Errors
        are not cached.

        Raises:
            ModelError, ConfigurationError: see `space`.
        """
        space = await self.space()
        cached = self._cached
        digests = await each_aside(texts, len, _digest)
        keys = [(tenant, kind, digest) for digest in digests]
        found = {key: cached.get(key) for key in keys}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        cache_name = "documents" if kind == "document" else "queries"
        telemetry.count("cache_lookups", len(found) - len(missing), cache=cache_name, result="hit")
        telemetry.count("cache_lookups", len(missing), cache=cache_name, result="miss")
        rows = await self._request([*missing.values()], kind=kind) if missing else ()
        for key, row in zip(missing, rows, strict=True):
            if row is not None:
                found[key] = cached[key] = copy = row.copy()  # keeps no other row in memory
                copy.flags.writeable = False
        return space, [found[key] for key in keys]

    async def embed_memories(
        self, scope: Scope, memories: Sequence[Memory]
    ) -> tuple[EmbeddingSpace, Mapping[str, Vector]]:
        """Return the space and the vectors of memories by id, without refused ones.

        Raises:
            ModelError, ConfigurationError: see `space`.
        """
        texts = [memory.content for memory in memories]
        space, rows = await self.embed(texts, kind="document", tenant=scope.tenant)
        pairs = zip(memories, rows, strict=True)
        return space, {memory.id: row for memory, row in pairs if row is not None}

    async def ping(self) -> None:
        """Embed a word, bypassing the cache.

        Raises:
            ModelError, ConfigurationError: see `space`.
        """
        await self.space()
        await self._request(["ping"], kind="query")

    async def _request(self, texts: Sequence[str], *, kind: Kind) -> list[Vector | None]:
        rows = await self._embedder.embed_each(texts, kind=kind)
        space = self._space
        if space and any(row is not None and len(row) != space.dimensions for row in rows):
            raise UnusableAnswer(
                f"The embedder {self.name!r} no longer returns {space.dimensions} dimensions, as "
                f"the store holds; {ADVICE}."
            )
        return rows

    async def _identify(self) -> EmbeddingSpace:
        [probe] = await self._request([PROBE], kind="document")
        if probe is None:
            raise UnusableAnswer(f"The embedder {self.name!r} refuses {PROBE!r}; {ADVICE}.")
        if self._replaces:
            space = await self._store.memories.spaces.replace(self.name, len(probe), probe)
        else:
            await self.check(len(probe))
            space = await self._store.memories.spaces.add(self.name, len(probe), probe)
        if space.probe is not None and cosine(probe, space.probe) < SAME_MODEL_COSINE:
            raise ConfigurationError(
                f"The embedder {self.name!r} no longer answers as it did when this store was "
                "filled: it is another "
                "model under the same name. Restore the former one; or name this one "
                "differently, and have the store "
                "embedded anew (`kagent-memory reembed`)."
            )
        self._space = space
        return space


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors."""
    return float(_unit(one) @ _unit(other))


def blended(vector: Vector, other: Vector, weight: float) -> Vector:
    """Return the direction of a vector, blended with that of another by this weight."""
    return (_unit(vector) + weight * _unit(other)).astype(np.float32)


def _unit(vector: Vector) -> npt.NDArray[np.float64]:
    exact = vector.astype(np.float64)
    return exact / np.linalg.norm(exact)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


async def embed_some(
    store: Store,
    vectors: StoreEmbedder,
    scope: Scope,
    *,
    limit: int,
    refused: set[str],
    clock: Callable[[], datetime],
    job: tuple[str, int] | None = None,
) -> int:
    """Embed the oldest memories of a scope that have no vector, and return how many were tried.

    Args:
        store: the store of the memories.
        vectors: the embedder.
        scope: the scope of the memories.
        limit: the most memories to embed. If fewer are left, they are the last and end the job.
        refused: ids that the embedder has refused, which are skipped; new ones are added.
        clock: returns the current time (aware UTC).
        job: the id and fence of the job.

    Raises:
        Conflict: the scope was written to meanwhile, or the job belongs to somebody else.
        ModelError: the embedder is unavailable or gives an unusable answer.
        ConfigurationError: the store holds vectors of another model.
    """
    version = await store.memories.version(scope)
    space = await vectors.space()
    query = MemoryQuery(
        lacking=space.number, order="oldest", limit=limit + len(refused), now=clock()
    )
    unembedded = await store.memories.select(scope, query)
    tried = [memory for memory in unembedded if memory.id not in refused][:limit]
    _, new_vectors = await vectors.embed_memories(scope, tried)
    batch = Batch(
        vectors=new_vectors,
        space_number=space.number,
        job=job if len(tried) < limit else None,
        expected_version=version,
    )
    if batch.vectors or batch.job:
        await store.apply(scope, batch, now=clock())
    refused.update({memory.id for memory in tried} - new_vectors.keys())
    return len(tried)


async def with_vectors(
    vectors: StoreEmbedder | None,
    scope: Scope,
    batch: Batch,
    now: datetime,
    *,
    strict: bool = False,
) -> Batch:
    """Return the batch with a vector for every memory in it that searches can find; if the embedder
    is unavailable, with a job that adds them later.

    Args:
        vectors: the embedder; None in keyword mode.
        scope: the scope.
        batch: the batch to write.
        now: the time at which that job is due.
        strict: True to raise an error for an unusable answer, which no later attempt would improve.

    Raises:
        UnusableAnswer: see `strict`.
        ConfigurationError: the store holds vectors of another model.
    """
    memories = {change.memory.id: change.memory for change in batch.changes}
    searchable = [memory for memory in memories.values() if memory.state in WITH_SHORT_TERM]
    if vectors is None or not searchable:
        return batch
    try:
        space, new_vectors = await vectors.embed_memories(scope, searchable)
    except ModelError as error:
        if strict and isinstance(error, UnusableAnswer):
            raise
        logger.warning("Memories were stored without vectors and will be embedded later: %s", error)
        return replace(batch, jobs=(*batch.jobs, embed_job(scope, now)))
    return replace(batch, vectors=new_vectors, space_number=space.number)
