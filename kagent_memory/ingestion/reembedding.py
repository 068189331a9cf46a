"""Embed a store anew by another embedder, or what it held before it had one."""

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
        embedding: the name of the embedder whose vectors the store goes by now.
        dimensions: their width.
        memories: how many were embedded by this call.
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
    """Embed all that lacks a vector of a space, going on where it stopped before, then make it the
    current one; see `Memories.reembed`.

    Args:
        store: whose memories.
        space: the new embedder's, whose vectors are to replace the others.
        batch_size: memories that are embedded and stored at once.
        clock: the time now (aware UTC).
        progress: is told how many memories are embedded so far.
    """
    target = await space.space()
    refused = defaultdict[Scope, set[str]](set)  # is not asked for again in the next round
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
            except Conflict:  # somebody wrote into it; what was embedded is still known
                continue
            done += count - (len(known) - former)
            progress(done)

    before = -1
    while before < done:  # what was written meanwhile may lack a vector again
        before = done
        async for scopes in store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
            lacking = await store.memories.lacking_vectors(scopes, target.number, now=clock())
            for batch in batched(lacking, SIDE_BY_SIDE):
                embedded = await asyncio.gather(*map(embed, batch), return_exceptions=True)
                for error in filter(None, embedded):  # what was on its way is kept
                    raise error
    await store.memories.spaces.finish_replacing(target.number)
    return Reembedded(embedding=target.name, dimensions=target.dimensions, memories=done)


async def backfill(
    store: Store, vectors: StoreEmbedder, *, clock: Callable[[], datetime], wake: Callable[[], None]
) -> None:
    """Queue the embedding of all scopes that hold memories without a vector.

    Not those of an embedder that is only to replace another one: they are made by `reembed`.

    Until then such memories are found by words. The embedder itself is not asked: a store that
    holds no vector of it lacks them all. Begun again at each opening, it goes on where it stopped.
    """
    try:
        spaces = await store.memories.spaces.all()
        own = [space for space in spaces if space.name == vectors.name]
        if any(space.state != "current" for space in own):
            return
        async for scopes in store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
            now = clock()
            lacking = scopes
            for space in own[:1]:
                lacking = await store.memories.lacking_vectors(scopes, space.number, now=now)
            await store.enqueue([embed_job(scope, now) for scope in lacking])
            wake()
    except KagentMemoryError as error:
        logger.warning(
            "The search for memories without vectors was interrupted; the next start continues it: "
            "%s",
            error,
        )
