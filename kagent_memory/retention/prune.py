"""The prune: delete what has expired, what has faded, and the least important memories of
scopes that hold too many.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from .. import telemetry
from ..errors import KagentMemoryError
from ..records import EVERYTHING, Filter, Memory, Scope, new_id
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.ranking.importance import ImportanceWeights, importance
from ..retrieval.similar import neighbours
from ..settings import MemorySettings
from ..stores import JobQueue, MemoryStore
from ..stores.values import Gone, Pruned, PruneReason
from .lifecycle import has_faded

logger = logging.getLogger(__name__)

PRUNE_LEASE = "prune"
MAX_PAUSE_SECONDS = 600.0
EXAMINED = 100
PAGE = 500


async def pages(
    store: MemoryStore, scope: Scope, filter: Filter = EVERYTHING, *, now: datetime
) -> AsyncIterator[Sequence[Memory]]:
    """Yield the memories of a scope that match the filter, oldest first, `PAGE` at a time."""
    cursor: str | None = None
    while True:
        page = await store.list(
            scope, filter=filter, order="oldest", limit=PAGE, cursor=cursor, now=now
        )
        yield page.memories
        if (cursor := page.cursor) is None:
            return


async def keep_pruned(
    queue: JobQueue, prune: Callable[[], Awaitable[Pruned]], *, every_hours: float
) -> None:
    """Prune every `every_hours` (0: never) until cancelled, in one process at a time: the lease's
    owner.
    """
    period = every_hours * 3600
    while period:
        try:
            # the lease is not released, so that nobody prunes again within the period
            if await queue.lease(PRUNE_LEASE, new_id(), seconds=period):
                pruned = await prune()
                if pruned != Pruned():
                    logger.info(
                        "Pruned: %d unused memories deleted at the end of their ttl_days, %d in "
                        "use extended, %d evicted, %d faded.",
                        *pruned.counts.values(),
                    )
        except KagentMemoryError as error:
            logger.warning("The prune did not run: %s", error)
        await asyncio.sleep(min(period, MAX_PAUSE_SECONDS))


@dataclass(frozen=True, slots=True)
class Prune:
    """One prune of all scopes by the settings: expired, faded and surplus memories."""

    store: MemoryStore
    vectors: StoreEmbedder | None
    settings: MemorySettings
    weights: ImportanceWeights
    now: datetime
    dry_run: bool

    async def run(self) -> Pruned:
        """Prune, and return the counts of deleted and extended memories.

        Raises:
            StoreError: the database is unavailable; earlier deletions of this prune remain.
        """
        pruned = await self.store.prune(
            now=self.now, popular_after=self.settings.popular_after, dry_run=self.dry_run
        )
        if self.settings.half_life_days or self.settings.max_memories:
            async for scopes in self.store.all_scopes(at_once=PAGE):
                for scope in scopes:
                    pruned += await self._prune_living(scope)
        if not self.dry_run:
            telemetry.count("prunes")
            for outcome, number in pruned.counts.items():
                telemetry.count("pruned_memories", number, outcome=outcome)
            if pruned.erased and self.vectors is not None:
                self.vectors.forget()
        return pruned

    async def _prune_living(self, scope: Scope) -> Pruned:
        """Delete faded memories of a scope, then its least important ones above the limit."""
        pruned = Pruned()
        half_life = self.settings.half_life_days
        faded_ids = set[str]()  # a dry run leaves them in the scope
        if half_life:
            old = Filter(created_before=self.now - timedelta(days=half_life))
            async for page in pages(self.store, scope, old, now=self.now):
                faded = [
                    memory.id
                    for memory in page
                    if has_faded(memory, now=self.now, half_life_days=half_life)
                ]
                faded_ids.update(faded if self.dry_run else ())
                pruned += await self._erase(scope, faded, "faded")
        if keep := self.settings.max_memories:
            total = (await self.store.stats(scope, now=self.now)).visible
            if (count := total - len(faded_ids) - keep) > 0:
                least = await self._least_important(scope, count, faded_ids)
                pruned += await self._erase(scope, least, "capacity")
        return pruned

    async def _least_important(self, scope: Scope, count: int, excluded: Set[str]) -> Sequence[str]:
        """Return the ids of the `count` least important memories that may be evicted."""
        # the similarity to others costs a search per memory, so only memories near the limit are
        # examined
        weighs = partial(importance, weights=self.weights, now=self.now)
        rows: list[tuple[float, str, Memory]] = []
        async for page in pages(self.store, scope, now=self.now):
            rows += [
                (weighs(memory), memory.id, memory)
                for memory in page
                if not memory.pinned and memory.id not in excluded
            ]
            rows = heapq.nsmallest(count + EXAMINED, rows, key=lambda row: row[:2])
        certain = [id for _, id, _ in rows[: max(0, count - EXAMINED)]]
        examined = [memory for _, _, memory in rows[len(certain) :]]
        nearest = await neighbours(
            await self.store.view(scope, now=self.now), self.vectors, examined
        )
        deleted = excluded | {*certain}
        likeness = {
            examined[index].id: {
                other.id: value for other, value in others if other.id not in deleted
            }
            for index, others in nearest.items()
        }
        least = islice(least_first(examined, likeness, weighs), count - len(certain))
        return [*certain, *(memory.id for memory in least)]

    async def _erase(self, scope: Scope, ids: Sequence[str], why: PruneReason) -> Pruned:
        if ids:
            keep = self.settings.max_memories if why == "capacity" else 0
            ids = await self.store.evict(scope, ids, keep=keep, now=self.now, dry_run=self.dry_run)
        counts = {"evicted" if why == "capacity" else why: len(ids)}
        return Pruned(**counts, gone=tuple(Gone(scope, id, why) for id in ids))


def least_first(
    memories: Iterable[Memory],
    likeness: Mapping[str, Mapping[str, float]],
    weighs: Callable[..., float],
) -> Iterator[Memory]:
    """Yield memories, the least important first; of equally important ones the oldest first.

    A yielded memory no longer counts as similar to others, so that one of two equal ones stays.

    Args:
        memories: the memories to order.
        likeness: for each id, its cosine (-1..1) to other memories by their ids; an id that is
            missing counts as unique.
        weighs: the importance formula with its weights.
    """
    by_id = {memory.id: memory for memory in sorted(memories, key=lambda memory: memory.created_at)}
    similar = {id: dict(likeness.get(id, {})) for id in by_id}

    def value_of(id: str) -> float:
        return weighs(by_id[id], nearest=max(similar[id].values(), default=0.0))

    values = {id: value_of(id) for id in by_id}
    while values:
        least = min(values, key=values.__getitem__)
        del values[least]
        yield by_id[least]
        for id in values:
            if similar[id].pop(least, None) is not None:
                values[id] = value_of(id)
