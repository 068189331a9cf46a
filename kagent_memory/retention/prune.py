"""The periodic prune, by whichever process holds the lease, and the eviction from scopes that hold too many."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from ..errors import KagentMemoryError
from ..records import Memory, Scope, new_id
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.ranking.importance import ImportanceWeights, importance, importance_parts
from ..retrieval.similar import neighbours
from ..stores.base import JobQueue, MemoryStore, Pruned

logger = logging.getLogger(__name__)

PRUNE_LEASE = "prune"
LONGEST_LOOK_SECONDS = 600.0
PAGE = 500
EXAMINED = 100


async def keep_pruned(queue: JobQueue, prune: Callable[[], Awaitable[Pruned]], *, every_hours: float) -> None:
    """Prunes every so many hours, by whichever process takes the lease first; runs until cancelled."""
    period = every_hours * 3600
    while True:
        try:
            # the lease outlives its taker on purpose: nobody else prunes again before the period is over
            if await queue.lease(PRUNE_LEASE, new_id(), seconds=period):
                pruned = await prune()
                if pruned != Pruned():
                    logger.info(
                        "Pruned: %d unused memories deleted at the end of their ttl_days, %d in use extended, "
                        "%d evicted.",
                        pruned.deleted,
                        pruned.extended,
                        pruned.evicted,
                    )
        except KagentMemoryError as error:
            logger.warning("The prune did not run: %s", error)
        await asyncio.sleep(min(period, LONGEST_LOOK_SECONDS))


async def evict(
    store: MemoryStore,
    vectors: StoreEmbedder | None,
    *,
    keep: int,
    weights: ImportanceWeights,
    now: datetime,
    dry_run: bool = False,
) -> int:
    """How many memories were erased, or would be, so that every scope holds `keep` at most; pinned ones stay.

    Raises:
        StoreError: the database is unavailable; what was erased by then stays so.
    """
    evicted = 0
    for scope, held in await store.crowded(above=keep, now=now):
        count = held - keep
        # How like the others a memory is takes a search each, so that is asked only of those about whom it may decide.
        least = await _least_but_for_likeness(store, scope, count + EXAMINED, weights=weights, now=now)
        certain = least[: max(0, count - EXAMINED)]
        gone = {memory.id for memory in certain}
        edge = least[len(certain) :]
        near, _ = await neighbours(store, vectors, scope, edge, now=now)
        likeness = {
            edge[place].id: {other.id: value for other, value in found if other.id not in gone}
            for place, found in near.items()
        }
        rest = least_important(edge, count - len(certain), now=now, likeness=likeness, weights=weights)
        doomed = [*certain, *rest]
        ids = [memory.id for memory in doomed]
        evicted += len(ids if dry_run else await store.evict(scope, ids, keep=keep, now=now))
    return evicted


async def _least_but_for_likeness(
    store: MemoryStore, scope: Scope, count: int, *, weights: ImportanceWeights, now: datetime
) -> list[Memory]:
    least: list[tuple[float, str, Memory]] = []
    async for page in _pages(store, scope, now):
        weighed = [
            (importance(importance_parts(memory, now=now), weights), memory.id, memory)
            for memory in page
            if not memory.pinned
        ]
        least = heapq.nsmallest(count, [*least, *weighed], key=lambda one: one[:2])
    return [memory for _, _, memory in least]


async def _pages(store: MemoryStore, scope: Scope, now: datetime) -> AsyncIterator[Sequence[Memory]]:
    cursor: str | None = None
    while True:
        page = await store.list(scope, order="oldest", limit=PAGE, cursor=cursor, now=now)
        yield page.memories
        if (cursor := page.cursor) is None:
            return


def least_important(
    memories: Sequence[Memory],
    count: int,
    *,
    now: datetime,
    likeness: Mapping[str, Mapping[str, float]],
    weights: ImportanceWeights = ImportanceWeights(),
) -> list[Memory]:
    """The `count` memories with the least importance, least first; pinned ones are never among them.

    One after the other: what has been chosen no longer makes the others less unique, so that of two twins one stays.
    Equal ones go by age, oldest first.

    Args:
        memories: to choose from.
        count: how many at most.
        now: the time to weigh at.
        likeness: by id, how like other memories it is (-1..1, by their ids); nothing known: unique.
        weights: of the formula.
    """
    left = {memory.id: memory for memory in sorted(memories, key=lambda one: one.created_at) if not memory.pinned}
    near = {id: dict(likeness.get(id, {})) for id in left}
    values = {id: _weighed(memory, now, near[id], weights) for id, memory in left.items()}
    chosen: list[Memory] = []
    while left and len(chosen) < count:
        least = min(left, key=lambda id: values[id])
        chosen.append(left.pop(least))
        for id in left:
            if near[id].pop(least, None) is not None:
                values[id] = _weighed(left[id], now, near[id], weights)
    return chosen


def _weighed(memory: Memory, now: datetime, near: Mapping[str, float], weights: ImportanceWeights) -> float:
    return importance(importance_parts(memory, now=now, nearest=max(near.values(), default=0.0)), weights)
