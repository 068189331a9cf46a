"""Vectors that callers bring themselves: which embedding space holds them."""

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


def is_kept(width: int) -> bool:
    """Return True if callers' own vectors may have this width: each has a table, so there are few
    of them.
    """
    return width % WIDTH_STEP == 0 and width <= MAX_WIDTH


def check_brought(space: str | None) -> None:
    """Refuse the name of an embedding space without vectors that the caller brings for it."""
    if space is not None:
        raise InvalidInput("embedding_space= goes with embedding=, vectors that you bring.")


async def with_brought(
    store: MemoryStore,
    batch: Batch,
    memories: Sequence[Memory | None],
    embedding: Sequence[Vector],
    name: str | None,
) -> Batch:
    """Return the batch with the vectors that a caller brings for its memories, one each, also
    for one that is None.

    Raises:
        InvalidInput: there are more or fewer vectors than memories; or as `_space`.
    """
    if len(embedding) != len(memories):
        raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
    width = len(checked_vector(embedding[0], None))
    checked = [checked_vector(vector, width) for vector in embedding]
    space = await _space(store, name, width)
    if space is None:
        space = await store.spaces.add(external_name(width), width, None)
    vectors = {
        memory.id: vector for memory, vector in zip(memories, checked, strict=True) if memory
    }
    return replace(batch, vectors=vectors, space_number=space.number)


async def for_query(
    store: MemoryStore, embedding: Vector | None, name: str | None
) -> tuple[EmbeddingSpace, Vector] | None:
    """Return a query's vector as its caller brought it, with the embedding space to search.

    Raises:
        InvalidInput: the vector does not fit, or a space is named without one.
    """
    if embedding is None:
        check_brought(name)
        return None
    vector = checked_vector(embedding, None)
    space = await _space(store, name, len(vector))
    return None if space is None else (space, vector)


async def nearest(
    store: MemoryStore, scope: Scope, vector: Vector, *, limit: int, now: datetime
) -> Sequence[tuple[Memory, float]]:
    """Return the memories whose own vectors, as callers brought them, are nearest to this one,
    each with its cosine.

    Raises:
        InvalidInput: the vector does not fit.
    """
    query = await for_query(store, vector, None)
    if query is None:
        return []
    space, vector = query
    view = await store.view(scope, now=now)
    [near] = await view.nearest(space.number, [vector], limit=limit)
    rows = await view.memories([id for id, _ in near])
    return [(rows[id], cosine) for id, cosine in near if id in rows]


async def _space(store: MemoryStore, name: str | None, width: int) -> EmbeddingSpace | None:
    """Return the embedding space that a caller's own vector of this width belongs to; None when
    it is one of callers' still to be made.

    Raises:
        InvalidInput: there is no embedding space of this name and width, or callers' own
            vectors have no such width.
    """
    external = external_name(width)
    for space in await store.spaces.all():
        if space.key == (name or external, width):
            return space
    if name in (None, external) and is_kept(width):
        return None
    raise InvalidInput(
        f"No embedding space {name or external!r} holds vectors of {width} dimensions. Vectors "
        "of your own are kept by their width, such as 'external-768': a multiple of "
        f"{WIDTH_STEP}, up to {MAX_WIDTH:,}."
    )
