"""Embeds what a store held before it had an embedder: a job for each scope, in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from ..errors import KagentMemoryError
from ..retrieval.embedding_spaces import StoreEmbedder
from ..stores.base import Store, embed_job

logger = logging.getLogger(__name__)

SCOPES_AT_ONCE = 500


async def backfill(
    store: Store, vectors: StoreEmbedder, *, clock: Callable[[], datetime], wake: Callable[[], None]
) -> None:
    """Queues the embedding of all scopes that hold memories without a vector.

    Not those of an embedder that is only to replace another one: they are made by `reembed`.

    Until then such memories are found by words. The embedder itself is not asked: a store that holds no vector of it
    lacks them all. Begun again at each opening, it goes on where it stopped.
    """
    told = False
    try:
        spaces = await store.embedding_spaces()
        if any(space.name == vectors.name and space.state != "current" for space in spaces):
            return
        number = next((space.number for space in spaces if space.name == vectors.name), None)
        async for scopes in store.all_scopes(at_once=SCOPES_AT_ONCE):
            now = clock()
            lacking = scopes if number is None else await store.lacking_vectors(scopes, number, now=now)
            if lacking and not told:
                told = True
                logger.warning(
                    "Some memories here have no vector of %r yet: they are embedded in the background, and found by "
                    "words until then.",
                    vectors.name,
                )
            await store.enqueue([embed_job(scope, now) for scope in lacking])
            wake()
    except KagentMemoryError as error:
        logger.warning(
            "The search for memories without vectors was interrupted; the next start continues it: %s", error
        )
