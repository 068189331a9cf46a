"""Has a store embedded anew by another embedder, beside the vectors that it has, and then goes over to the new ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ..errors import Conflict, KagentMemoryError
from ..records import Scope
from ..retrieval.embedding_spaces import ModelSpace, embed_some
from ..stores.base import Store

SCOPES_AT_ONCE = 500
SIDE_BY_SIDE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedded:
    """What came of `Memories.reembed`.

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
    """Embeds all that lacks a vector of a space, and makes that the current one in the end; see `Memories.reembed`.

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
        space: ModelSpace,
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
        self._done = 0

    async def run(self) -> Reembedded:
        """Goes on where it stopped before, to the end."""
        space, _ = await self._space.embed([], kind="document", tenant="")
        left = True
        while left:  # what was written meanwhile may lack a vector again
            left = False
            async for scopes in self._store.all_scopes(at_once=SCOPES_AT_ONCE):
                lacking = await self._store.lacking_vectors(scopes, space.number, now=self._clock())
                left = left or bool(lacking)
                async with asyncio.TaskGroup() as group:
                    for scope in lacking:
                        group.create_task(self._embed(scope))
                if self._failed:
                    raise self._failed[0]
        await self._store.finish_replacing(space.number)
        return Reembedded(embedding=space.name, dimensions=space.dimensions, memories=self._done)

    async def _embed(self, scope: Scope) -> None:
        count = self._batch_size
        async with self._room:
            while count == self._batch_size and not self._failed:  # after an error, what is on its way is still kept
                try:
                    count = await embed_some(self._store, self._space, scope, limit=self._batch_size, clock=self._clock)
                except Conflict:  # somebody wrote into it; what was embedded is still known
                    continue
                except KagentMemoryError as error:
                    self._failed.append(error)
                    return
                self._done += count
                if self._progress is not None:
                    self._progress(self._done)
