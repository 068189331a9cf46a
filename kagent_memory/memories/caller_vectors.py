"""Vectors that callers bring themselves: kept by their width, apart from the embedder's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ..errors import InvalidInput
from ..records import Memory, Scope, Vector
from ..stores.base import MemoryStore
from ..stores.spaces import EmbeddingSpace, checked_vector, external_name
from ..stores.values import Batch

WIDTH_STEP = 64
MAX_WIDTH = 4096


def brought(vector: object) -> Vector:
    """Return a vector as it is kept of a caller: each width has a table, so there are few of them.

    Raises:
        InvalidInput: it does not fit, or has another width.
    """
    checked = checked_vector(vector, None)
    if (width := len(checked)) % WIDTH_STEP or width > MAX_WIDTH:
        raise InvalidInput(
            f"The vector has {width:,} dimensions; those of vectors of your own are a multiple of "
            f"{WIDTH_STEP}, up to {MAX_WIDTH:,}."
        )
    return checked


async def space_of(store: MemoryStore, width: int) -> EmbeddingSpace:
    """Return the embedding space of callers' vectors of a width, made if it is new."""
    return await store.spaces.add(external_name(width), width, None)


async def with_brought(
    store: MemoryStore,
    batch: Batch,
    memories: Sequence[Memory | None],
    embedding: Sequence[Vector],
) -> Batch:
    """Return the batch with the vectors that a caller brings for its memories, one each, also
    for one that is None.

    Raises:
        InvalidInput: one does not fit, or there are more or fewer of them than memories.
    """
    if len(embedding) != len(memories):
        raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
    width = len(brought(embedding[0]))
    checked = [checked_vector(vector, width) for vector in embedding]
    space = await space_of(store, width)
    vectors = {
        memory.id: vector for memory, vector in zip(memories, checked, strict=True) if memory
    }
    return replace(batch, vectors=vectors, space_number=space.number)


async def for_query(store: MemoryStore, embedding: Vector) -> tuple[EmbeddingSpace, Vector] | None:
    """Return a query's vector as its caller brought it, with the embedding space to search; None:
    there are no vectors of its width.

    Raises:
        InvalidInput: it does not fit.
    """
    vector = brought(embedding)
    for space in await store.spaces.all():
        if space.name == external_name(len(vector)):
            return space, vector
    return None


async def nearest(
    store: MemoryStore, scope: Scope, vector: Vector, *, limit: int, now: datetime
) -> Sequence[tuple[Memory, float]]:
    """Return the memories whose own vectors, as callers brought them, are nearest to this one,
    each with its cosine.

    Raises:
        InvalidInput: the vector does not fit.
    """
    query = await for_query(store, vector)
    if query is None:
        return []
    space, vector = query
    view = await store.view(scope, now=now)
    [near] = await view.nearest(space.number, [vector], limit=limit)
    rows = await view.memories([id for id, _ in near])
    return [(rows[id], cosine) for id, cosine in near if id in rows]
