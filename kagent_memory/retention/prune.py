"""The prune: what has expired, what has outlived its use, and the least important of scopes that
hold too many.
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
)
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from ..errors import KagentMemoryError
from ..records import Filter, Memory, Scope, new_id
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.ranking.importance import ImportanceWeights, importance
from ..retrieval.similar import neighbours
from ..settings import MemorySettings
from ..settings.policies import POLICIES
from ..stores import JobQueue
from ..stores.base import MemoryStore
from ..stores.filter_match import is_visible
from ..stores.values import Gone, Pruned, PruneReason
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
        async for page_of_scopes in self.store.all_scopes(at_once=PAGE):
            for scope in page_of_scopes:
                async for page in self._pages(scope, old):
                    faded = await self._due(scope, [*filter(is_faded, page)], is_faded)
                    pruned += await self._erase(scope, faded, "faded")
                    gone = {memory.id for memory in faded}
                    left = [memory for memory in page if memory.id not in gone]
                    pruned += await self._erase(
                        scope, await self._unimportant(scope, left), "unimportant"
                    )
        return pruned

    async def _unimportant(self, scope: Scope, memories: Sequence[Memory]) -> Sequence[Memory]:
        """Return the memories that are old, hardly used, and below 0.5 by the published formula; of
        twins one stays, if it may.
        """
        weighs = partial(importance, weights=self.weights, policy="tiers", now=self.now)

        def is_due(memory: Memory, nearest: float = 0.0) -> bool:
            unused = is_old_and_unused(memory, now=self.now, after_days=self._unused_days)
            return unused and weighs(memory, nearest=nearest) < UNIMPORTANT_BELOW

        below = [memory for memory in memories if is_due(memory)]
        # their likeness decides
        edge = [memory for memory in memories if is_due(memory, 1.0) and not is_due(memory)]
        for memory, value in await self._least_first(scope, edge, below, weighs):
            if value >= UNIMPORTANT_BELOW:
                break
            below.append(memory)
        return await self._due(scope, below, is_due)

    async def _due(
        self, scope: Scope, memories: Sequence[Memory], is_due: Callable[[Memory], bool]
    ) -> Sequence[Memory]:
        """Return the memories that stand for nothing that would stay, were it there by itself."""
        if not memories:
            return memories
        ids = [memory.id for memory in memories]
        gone = await self.store.evict(scope, ids, keep=0, now=self.now, dry_run=True)
        merged = await self.store.whole(scope, [*{*gone}.difference(ids)])
        living = (whole.memory for whole in merged if is_visible(whole.memory, self.now, True))
        if all(map(is_due, living)):
            return memories
        middle = len(memories) // 2  # halved to find which of them hold what is not due
        halves = (memories[:middle], memories[middle:]) if middle else ()
        return [memory for half in halves for memory in await self._due(scope, half, is_due)]

    async def _evict(self) -> Pruned:
        """Erase the least important memories, so that no scope holds too many; pinned ones stay."""
        pruned, keep = Pruned(), self.settings.max_memories
        for scope, total in await self.store.crowded(above=keep, now=self.now):
            count = total - keep - len(self.doomed.get(scope, ()))
            if count > 0:
                doomed = await self._least_important(scope, count)
                pruned += await self._erase(scope, doomed, "capacity")
        return pruned

    async def _least_important(self, scope: Scope, count: int) -> Sequence[Memory]:
        # How like the others a memory is takes a search each, so that is asked only of those about
        # whom it may decide.
        weighs = partial(
            importance, weights=self.weights, policy=self.settings.policy, now=self.now
        )
        weighed: list[tuple[float, str, Memory]] = []
        async for page in self._pages(scope):
            weighed += [(weighs(memory), memory.id, memory) for memory in page if not memory.pinned]
            weighed = heapq.nsmallest(count + EXAMINED, weighed, key=lambda row: row[:2])
        least = [memory for _, _, memory in weighed]
        certain = least[: max(0, count - EXAMINED)]
        rest = await self._least_first(scope, least[len(certain) :], certain, weighs)
        return [*certain, *(memory for memory, _ in islice(rest, count - len(certain)))]

    async def _least_first(
        self,
        scope: Scope,
        memories: Sequence[Memory],
        gone: Sequence[Memory],
        weighs: Callable[..., float],
    ) -> Iterator[tuple[Memory, float]]:
        """Order memories by `least_first`; none is like those that are `gone`, or doomed."""
        if not memories:  # most scopes: they are not read for it
            return iter(())
        view = await self.store.view(scope, now=self.now)
        near, _ = await neighbours(view, self.vectors, memories)
        ids = {memory.id for memory in gone} | self.doomed.get(scope, set())
        likeness = {
            memories[place].id: {other.id: value for other, value in similar if other.id not in ids}
            for place, similar in near.items()
        }
        return least_first(memories, likeness, weighs)

    async def _erase(self, scope: Scope, memories: Sequence[Memory], why: PruneReason) -> Pruned:
        ids: Sequence[str] = [memory.id for memory in memories]
        if self.dry_run:
            self.doomed.setdefault(scope, set()).update(ids)
        if ids:
            keep = self.settings.max_memories if why == "capacity" else 0
            ids = await self.store.evict(scope, ids, keep=keep, now=self.now, dry_run=self.dry_run)
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


def least_first(
    memories: Iterable[Memory],
    likeness: Mapping[str, Mapping[str, float]],
    weighs: Callable[..., float],
) -> Iterator[tuple[Memory, float]]:
    """Yield memories with their importance, the least important first.

    What was yielded no longer makes the others less unique, so that of two twins one stays. Equal
    ones go by age, oldest first.

    Args:
        memories: to put in order.
        likeness: by id, how like other memories it is (-1..1, by their ids); nothing known: unique.
        weighs: the formula with its weights.
    """
    left = {memory.id: memory for memory in sorted(memories, key=lambda memory: memory.created_at)}
    near = {id: dict(likeness.get(id, {})) for id in left}

    def weighed(id: str) -> float:
        return weighs(left[id], nearest=max(near[id].values(), default=0.0))

    values = {id: weighed(id) for id in left}
    while values:
        least = min(values, key=values.__getitem__)
        yield left[least], values.pop(least)
        for id in values:
            if near[id].pop(least, None) is not None:
                values[id] = weighed(id)
