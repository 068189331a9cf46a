"""The verb `reembed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..errors import ConfigurationError
from ..ingestion.reembedding import Reembedded, Reembedding
from ..models.embedding import EmbedderChoice, open_embedder
from ..retrieval.embedding_spaces import ModelSpace
from .components import Components


async def reembed(
    parts: Components, embedding: EmbedderChoice, *, drop_old: bool, progress: Callable[[int], None] | None
) -> Reembedded:
    """See `Memories.reembed`."""
    embedder = open_embedder(parts.settings.embedding if embedding is None else embedding, parts.settings)
    if embedder is None:
        raise ConfigurationError("Name the embedder that the memories are to be embedded by.")
    space = ModelSpace(parts.store, embedder, parts.settings, replaces=True)
    await space.embed([], kind="document", tenant="")  # refused before anything else changes
    if parts.vectors is not None:
        parts.vectors.succeed(space)
    work = Reembedding(parts.store, space, batch_size=parts.settings.batch_size, clock=parts.clock, progress=progress)
    done = await work.run()
    if parts.vectors is not None:
        parts.vectors.finish()
    return replace(done, dropped=tuple(await parts.store.drop_retired())) if drop_old else done
