"""Embed a store with a new embedder, or its memories that have no vector yet."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..concurrency import batched
from ..errors import Conflict, KagentMemoryError
from ..records import Scope
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some
from ..stores import Store
from ..stores.values import embed_job

logger = logging.getLogger(__name__)

SCOPES_AT_ONCE = 500
SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedded:
    """The result of `Memories.reembed`.

    Attributes:
        embedding: the name of the store's embedder now.
        dimensions: the dimensions of its vectors.
        memories: the number of memories embedded by this call.
        dropped: the names of the embedders whose vectors were dropped.
    """

    embedding: str
    dimensions: int
    memories: int
    dropped: tuple[str, ...] = ()


async def reembed(
    store: Store,
    space: StoreEmbedder,
    *,
    batch_size: int,
    clock: Callable[[], datetime],
    progress: Callable[[int], None],
) -> Reembedded:
    """Embed all memories without a vector in a space, also after an interruption, then make the
    space the current one; see `Memories.reembed`.

    Args:
        store: the store of the memories.
        space: the new embedder.
        batch_size: memories embedded and stored at once.
        clock: the current time (aware UTC).
        progress: called with the number of memories embedded so far.
    """
    target = await space.space()
    refused = defaultdict[Scope, set[str]](set)  # ids that are not tried again in the next round
    done = 0

    async def embed(scope: Scope) -> None:
        nonlocal done
        count, known = batch_size, refused[scope]
        while count == batch_size:
            former = len(known)
            try:
                count = await embed_some(
                    store, space, scope, limit=batch_size, refused=known, clock=clock
                )
            except Conflict:  # the scope changed; its new embeddings are cached
                continue
            done += count - (len(known) - former)
            progress(done)

    before = -1
    while before < done:  # memories written meanwhile may lack a vector
        before = done
        async for scopes in store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
            lacking = await store.memories.lacking_vectors(scopes, target.number, now=clock())
            for batch in batched(lacking, SIDE_BY_SIDE):
                outcomes = await asyncio.gather(*map(embed, batch), return_exceptions=True)
                for error in filter(None, outcomes):  # after the others of the batch have finished
                    raise error
    await store.memories.spaces.finish_replacing(target.number)
    return Reembedded(embedding=target.name, dimensions=target.dimensions, memories=done)


async def backfill(
    store: Store, vectors: StoreEmbedder, *, clock: Callable[[], datetime], wake: Callable[[], None]
) -> None:
    """Queue the embedding of all scopes with memories that have no vector.

    Until then such memories are found by words. An embedder that is still replacing another one is
    left to `reembed`. The embedder is not called: if the store has no vectors of it, all memories
    count. Each opening of the store continues an interrupted search.
    """
    try:
        own_spaces = [
            space for space in await store.memories.spaces.all() if space.name == vectors.name
        ]
        if any(space.state != "current" for space in own_spaces):
            return
        async for scopes in store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
            now = clock()
            lacking = scopes
            for space in own_spaces[:1]:
                lacking = await store.memories.lacking_vectors(scopes, space.number, now=now)
            await store.queue.enqueue([embed_job(scope, now) for scope in lacking])
            wake()
    except KagentMemoryError as error:
        logger.warning(
            "The search for memories without vectors was interrupted; the next start continues it: "
            "%s",
            error,
        )
