"""The prune: what has expired, what has outlived its use, and the least important of scopes that
hold too many.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from ..errors import KagentMemoryError
from ..records import Filter, Memory, Scope, new_id
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.ranking.importance import ImportanceWeights, importance
from ..retrieval.similar import neighbours
from ..settings import MemorySettings
from ..settings.policies import POLICIES
from ..stores import JobQueue
from ..stores.base import MemoryStore, Pruned
from ..stores.values import Gone, PruneReason
from .lifecycle import UNIMPORTANT_BELOW, has_faded, is_old_and_unused

logger = logging.getLogger(__name__)

PRUNE_LEASE = "prune"
MAX_PAUSE_SECONDS = 600.0
PAGE = 500
EXAMINED = 100


async def keep_pruned(
    queue: JobQueue, prune: Callable[[], Awaitable[Pruned]], *, every_hours: float
) -> None:
    """Prune every so many hours, in the process that takes the lease first, until cancelled."""
    period = every_hours * 3600
    while True:
        try:
            # the lease outlives its taker on purpose: nobody else prunes again before the period is
            # over
            if await queue.lease(PRUNE_LEASE, new_id(), seconds=period):
                pruned = await prune()
                if pruned != Pruned():
                    logger.info(
                        "Pruned: %d unused memories deleted at the end of their ttl_days, %d in "
                        "use extended, "
                        "%d evicted, %d faded, %d unimportant.",
                        *pruned.counts.values(),
                    )
        except KagentMemoryError as error:
            logger.warning("The prune did not run: %s", error)
        await asyncio.sleep(min(period, MAX_PAUSE_SECONDS))


@dataclass
class Prune:
    """One prune of all scopes, as the settings ask: what has expired, what has outlived its use,
    and what is too much.
    """

    store: MemoryStore
    vectors: StoreEmbedder | None
    settings: MemorySettings
    weights: ImportanceWeights
    now: datetime
    dry_run: bool = False
    # of a dry run, which leaves them there
    doomed: dict[Scope, set[str]] = field(default_factory=dict[Scope, set[str]])
    # of the scope that was looked at last, by the id of what stands for them
    merged: tuple[Scope, Mapping[str, Sequence[Memory]]] | None = None

    async def run(self) -> Pruned:
        """Prune, and return what went.

        Raises:
            StoreError: the database is unavailable; what was erased by then stays so.
        """
        pruned = await self.store.prune(
            now=self.now, popular_after=self.settings.popular_after, dry_run=self.dry_run
        )
        oldest = [days for days in (self.settings.half_life_days, self._unused_days) if days]
        if oldest:
            pruned += await self._erase_outlived(at_least_days=min(oldest))
        return pruned + await self._evict() if self.settings.max_memories else pruned

    @property
    def _unused_days(self) -> int:
        return POLICIES[self.settings.policy].unimportant_after_days

    async def _erase_outlived(self, *, at_least_days: float) -> Pruned:
        """Erase what has faded, and what is old, unimportant and hardly used."""
        pruned = Pruned()
        old = Filter(created_before=self.now - timedelta(days=at_least_days))
        is_faded = partial(has_faded, now=self.now, half_life_days=self.settings.half_life_days)
        async for some in self.store.all_scopes(at_once=PAGE):
            for scope in some:
                async for page in self._pages(scope, old):
                    faded = await self._whole(
                        scope, [one for one in page if is_faded(one)], is_faded
                    )
                    gone = {one.id for one in faded}
                    pruned += await self._erase(scope, faded, "faded")
                    unimportant = await self._unimportant(
                        scope, [one for one in page if one.id not in gone]
                    )
                    pruned += await self._erase(scope, unimportant, "unimportant")
        return pruned

    async def _unimportant(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """Return the memories that are old, hardly used, and below 0.5 by the published formula; of
        twins one stays, if it may.
        """
        after_days = self._unused_days

        def is_below(memory: Memory, nearest: float) -> bool:
            weighed = importance(
                memory, weights=self.weights, policy="tiers", now=self.now, nearest=nearest
            )
            return weighed < UNIMPORTANT_BELOW

        old = [
            one for one in memories if is_old_and_unused(one, now=self.now, after_days=after_days)
        ]
        below = {one.id: one for one in old if is_below(one, 0.0)}
        # their likeness decides
        edge = [one for one in old if one.id not in below and is_below(one, 1.0)]
        near, _ = await neighbours(self.store.view(scope, now=self.now), self.vectors, edge)
        for place, memory in enumerate(edge):
            if is_below(
                memory,
                max((value for other, value in near[place] if other.id not in below), default=0.0),
            ):
                below[memory.id] = memory

        def is_due(source: Memory) -> bool:
            unused = is_old_and_unused(source, now=self.now, after_days=after_days)
            return unused and is_below(source, 0.0)

        return await self._whole(scope, list(below.values()), is_due)

    async def _whole(
        self, scope: Scope, memories: Sequence[Memory], is_due: Callable[[Memory], bool]
    ) -> list[Memory]:
        """Return the memories that stand for nothing that would stay, were it there by itself."""
        return [one for one in memories if all(map(is_due, await self._sources(scope, [one])))]

    async def _sources(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """Return what was merged into these memories and did not expire, and what into those, as
        `MemoryStore.evict` does.
        """
        if memories and (self.merged is None or self.merged[0] != scope):
            merged: dict[str, list[Memory]] = defaultdict(list)
            async for page in self._pages(scope, Filter(superseded="only")):
                held = await self.store.whole(
                    scope, [memory.id for memory in page if memory.superseded_by]
                )
                for source in (
                    one.memory
                    for one in held
                    if one.revisions and one.revisions[-1].kind == "merge"
                ):
                    merged[source.superseded_by or ""].append(source)
            self.merged = scope, merged
        by_holder: Mapping[str, Sequence[Memory]] = self.merged[1] if self.merged else {}
        sources: list[Memory] = []
        fresh = list(memories)
        while fresh:
            fresh = [source for memory in fresh for source in by_holder.get(memory.id, ())]
            fresh.sort(key=lambda one: one.id)
            sources += fresh
        return sources

    async def _evict(self) -> Pruned:
        """Erase the least important memories, so that no scope holds too many; pinned ones stay."""
        pruned, keep = Pruned(), self.settings.max_memories
        for scope, held in await self.store.crowded(above=keep, now=self.now):
            count = held - keep - len(self.doomed.get(scope, ()))
            if count > 0:
                doomed = await self._least_important(scope, count)
                pruned += await self._erase(scope, doomed, "capacity")
        return pruned

    async def _least_important(self, scope: Scope, count: int) -> list[Memory]:
        # How like the others a memory is takes a search each, so that is asked only of those about
        # whom it may decide.
        weighs = partial(importance, weights=self.weights, policy=self.settings.policy)
        weighed: list[tuple[float, str, Memory]] = []
        async for page in self._pages(scope):
            weighed += [
                (weighs(memory, now=self.now), memory.id, memory)
                for memory in page
                if not memory.pinned
            ]
            weighed = heapq.nsmallest(count + EXAMINED, weighed, key=lambda one: one[:2])
        least = [memory for _, _, memory in weighed]
        certain = least[: max(0, count - EXAMINED)]
        gone = {memory.id for memory in certain}
        edge = least[len(certain) :]
        near, _ = await neighbours(self.store.view(scope, now=self.now), self.vectors, edge)
        likeness = {
            edge[place].id: {other.id: value for other, value in similar if other.id not in gone}
            for place, similar in near.items()
        }
        left = count - len(certain)
        rest = least_important(edge, left, now=self.now, likeness=likeness, weighs=weighs)
        return [*certain, *rest]

    async def _erase(self, scope: Scope, memories: Sequence[Memory], why: PruneReason) -> Pruned:
        ids: Sequence[str] = [memory.id for memory in memories]
        if self.dry_run:
            self.doomed.setdefault(scope, set()).update(ids)
            ids = [*ids, *(source.id for source in await self._sources(scope, memories))]
        elif ids:
            keep = self.settings.max_memories if why == "capacity" else 0
            ids = await self.store.evict(scope, ids, keep=keep, now=self.now)
        counts = {"evicted" if why == "capacity" else why: len(ids)}
        return Pruned(**counts, gone=tuple(Gone(scope, id, why) for id in ids))

    async def _pages(
        self, scope: Scope, filter: Filter = Filter()
    ) -> AsyncIterator[Sequence[Memory]]:
        cursor: str | None = None
        while True:
            page = await self.store.list(
                scope, filter=filter, order="oldest", limit=PAGE, cursor=cursor, now=self.now
            )
            doomed = self.doomed.get(scope, ())
            yield [memory for memory in page.memories if memory.id not in doomed]
            if (cursor := page.cursor) is None:
                return


def least_important(
    memories: Sequence[Memory],
    count: int,
    *,
    now: datetime,
    likeness: Mapping[str, Mapping[str, float]],
    weighs: Callable[..., float] = importance,
) -> list[Memory]:
    """Return the `count` memories with the least importance, least first; pinned ones are never
    among them.

    One after the other: what has been chosen no longer makes the others less unique, so that of two
    twins one stays. Equal ones go by age, oldest first.

    Args:
        memories: to choose from.
        count: how many at most.
        now: the time to weigh at.
        likeness: by id, how like other memories it is (-1..1, by their ids); nothing known: unique.
        weighs: the formula with its weights.
    """

    def weighed(memory: Memory) -> float:
        return weighs(memory, now=now, nearest=max(near[memory.id].values(), default=0.0))

    left = {
        memory.id: memory
        for memory in sorted(memories, key=lambda one: one.created_at)
        if not memory.pinned
    }
    near = {id: dict(likeness.get(id, {})) for id in left}
    values = {id: weighed(memory) for id, memory in left.items()}
    chosen: list[Memory] = []
    while left and len(chosen) < count:
        least = min(left, key=lambda id: values[id])
        chosen.append(left.pop(least))
        for id in left:
            if near[id].pop(least, None) is not None:
                values[id] = weighed(left[id])
    return chosen
