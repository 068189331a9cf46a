"""Embed a store anew by another embedder, or what it held before it had one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..errors import Conflict, KagentMemoryError
from ..records import Scope
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some
from ..stores import Store
from ..stores.base import embed_job

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


class Reembedding:
    """Embed all that lacks a vector of a space, then make it the current one; see
    `Memories.reembed`.

    Args:
        store: whose memories.
        space: the new embedder's, whose vectors are to replace the others.
        batch_size: memories that are embedded and stored at once.
        clock: the time now (aware UTC).
        progress: is told how many memories are embedded so far.
    """

    def __init__(
        self,
        store: Store,
        space: StoreEmbedder,
        *,
        batch_size: int,
        clock: Callable[[], datetime],
        progress: Callable[[int], None] | None,
    ) -> None:
        self._store = store
        self._space = space
        self._batch_size = batch_size
        self._clock = clock
        self._progress = progress
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)
        self._failed: list[KagentMemoryError] = []
        # of each scope, the ids of what the embedder refuses
        self._refused: dict[bytes, set[str]] = {}
        self._done = 0

    async def run(self) -> Reembedded:
        """Go on where it stopped before, to the end."""
        space, _ = await self._space.embed([], kind="document", tenant="")
        before = -1
        while before < self._done:  # what was written meanwhile may lack a vector again
            before = self._done
            async for scopes in self._store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
                lacking = await self._store.memories.lacking_vectors(
                    scopes, space.number, now=self._clock()
                )
                async with asyncio.TaskGroup() as group:
                    for scope in lacking:
                        group.create_task(self._embed(scope))
                if self._failed:
                    raise self._failed[0]
        await self._store.memories.spaces.finish_replacing(space.number)
        return Reembedded(embedding=space.name, dimensions=space.dimensions, memories=self._done)

    async def _embed(self, scope: Scope) -> None:
        count = self._batch_size
        refused = self._refused.setdefault(scope.id, set())
        async with self._room:
            # after an error, what is on its way is still kept
            while count == self._batch_size and not self._failed:
                former = len(refused)
                try:
                    count = await embed_some(
                        self._store,
                        self._space,
                        scope,
                        limit=self._batch_size,
                        refused=refused,
                        clock=self._clock,
                    )
                except Conflict:  # somebody wrote into it; what was embedded is still known
                    continue
                except KagentMemoryError as error:
                    self._failed.append(error)
                    return
                self._done += count - (len(refused) - former)
                if self._progress is not None:
                    self._progress(self._done)


async def backfill(
    store: Store, vectors: StoreEmbedder, *, clock: Callable[[], datetime], wake: Callable[[], None]
) -> None:
    """Queue the embedding of all scopes that hold memories without a vector.

    Not those of an embedder that is only to replace another one: they are made by `reembed`.

    Until then such memories are found by words. The embedder itself is not asked: a store that
    holds no vector of it lacks them all. Begun again at each opening, it goes on where it stopped.
    """
    told = False
    try:
        spaces = await store.memories.spaces.all()
        if any(space.name == vectors.name and space.state != "current" for space in spaces):
            return
        number = next((space.number for space in spaces if space.name == vectors.name), None)
        async for scopes in store.memories.all_scopes(at_once=SCOPES_AT_ONCE):
            now = clock()
            lacking = (
                scopes
                if number is None
                else await store.memories.lacking_vectors(scopes, number, now=now)
            )
            if lacking and not told:
                told = True
                logger.warning(
                    "Some memories here have no vector of %r yet: they are embedded in the "
                    "background, and found by "
                    "words until then.",
                    vectors.name,
                )
            await store.enqueue([embed_job(scope, now) for scope in lacking])
            wake()
    except KagentMemoryError as error:
        logger.warning(
            (
                "The search for memories without vectors was interrupted; the next start continues "
                "it: %s"
            ),
            error,
        )
