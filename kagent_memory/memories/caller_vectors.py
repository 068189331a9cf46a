"""Check and store vectors that callers bring, by width and apart from the embedder's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import InvalidInput
from ..records import Memory, Vector
from ..stores.base import MemoryStore
from ..stores.spaces import EmbeddingSpace, checked_vector, external_name
from ..stores.values import Batch

WIDTH_STEP = 64
MAX_WIDTH = 4096


def checked_caller_vector(vector: object) -> Vector:
    """Check a caller's vector; widths are limited, because each width has a table.

    Raises:
        InvalidInput: the vector is invalid, or has an unsupported width.
    """
    checked = checked_vector(vector, None)
    if (width := len(checked)) % WIDTH_STEP or width > MAX_WIDTH:
        raise InvalidInput(
            f"The vector has {width:,} dimensions; those of vectors of your own are a multiple of "
            f"{WIDTH_STEP}, up to {MAX_WIDTH:,}."
        )
    return checked


async def space_of(store: MemoryStore, width: int) -> EmbeddingSpace:
    """Return the embedding space for callers' vectors of a width, creating it if necessary."""
    return await store.spaces.add(external_name(width), width, None)


async def space_for(store: MemoryStore, vector: Vector) -> EmbeddingSpace | None:
    """Return the embedding space to search with a caller's vector, None if there are no vectors of
    its width.
    """
    name = external_name(len(vector))
    return next((space for space in await store.spaces.all() if space.name == name), None)


async def with_caller_vectors(
    store: MemoryStore,
    batch: Batch,
    memories: Sequence[Memory | None],
    embedding: Sequence[Vector],
) -> Batch:
    """Return the batch with a caller's vectors for its memories, one for each item, also for items
    that are None.

    Raises:
        InvalidInput: the vectors differ in width, or in number from the items.
    """
    if len(embedding) != len(memories):
        raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
    width, *others = {*map(len, embedding)}
    if others:
        raise InvalidInput("The vectors have different widths; add those of each width by itself.")
    space = await space_of(store, width)
    vectors = {
        memory.id: vector for memory, vector in zip(memories, embedding, strict=True) if memory
    }
    return replace(batch, vectors=vectors, space_number=space.number)
