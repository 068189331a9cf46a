"""Turns facts into the one batch that takes them in, and a scope's likenesses into the batch that merges them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..consolidate import plan, plan_merges
from ..lifecycle import to_memory
from ..llm import Llm
from ..records import Change, Fact, Memory, Scope
from ..settings import MemorySettings
from ..stores.base import Batch, Job, MemoryStore
from ..vectors import EXTERNAL, Vectors, with_vectors
from .arming import MergeTimers, merge_timer, mergeable
from .neighbours import neighbours

log = logging.getLogger("kagent_memory")

MERGE_AT_MOST = 200
ALL_OF_A_SCOPE = 1_000_000


class Consolidation:
    """Plans how facts enter a scope and how memories in it merge; writes nothing.

    Attributes:
        timers: by which explicit adds arm the merge of their scope.
    """

    def __init__(
        self,
        store: MemoryStore,
        vectors: Vectors | None,
        *,
        settings: MemorySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._settings = settings
        self._clock = clock
        self.timers = MergeTimers(store, settings)

    async def plan(self, scope: Scope, facts: Sequence[Fact], *, llm: Llm | None, model: str = "") -> Batch:
        """The batch that takes the facts in, planned on the scope's version as it is now.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        now = self._clock()
        version = await self._store.version(scope)
        new = [to_memory(fact, now=now, ttl_days=self._settings.ttl_days) for fact in facts]
        meeting = [memory for memory in new if not memory.verbatim]
        near, made = await neighbours(self._store, self._vectors, scope, meeting, now=now)
        places = {memory.id: place for place, memory in enumerate(new)}
        planned = await plan(new, {places[meeting[place].id]: found for place, found in near.items()}, llm=llm, now=now)
        if planned.vetoed:
            log.info("%d decision(s) of the model were vetoed: they would have lost a difference.", planned.vetoed)
        batch = Batch(changes=planned.changes, reinforced=planned.reinforced, expected_version=version)
        batch = await self._with_vectors(scope, batch, made, meeting, now)
        return replace(batch, jobs=(*batch.jobs, *await self.timer(scope, planned.changes, model, now)))

    async def timer(self, scope: Scope, changes: Sequence[Change], model: str, now: datetime) -> tuple[Job, ...]:
        """The job that merges the scope later, to be queued with the changes that arm it."""
        return await merge_timer(self._store, scope, mergeable(changes), model=model, settings=self._settings, now=now)

    async def merges(self, scope: Scope, llm: Llm | None) -> Batch:
        """The batch that merges the newest memories of a scope with what says the same.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        now = self._clock()
        self.timers.forget(scope)
        version = await self._store.version(scope)
        page = await self._store.list(scope, order="newest", limit=MERGE_AT_MOST, now=now)
        recent = [memory for memory in page.memories if not memory.verbatim]
        near, _ = await neighbours(self._store, self._vectors, scope, recent, now=now)
        known = {memory.id: memory for memory in recent}
        likeness: dict[tuple[str, str], float] = {}
        for place, found in near.items():
            for other, value in found:
                known.setdefault(other.id, other)
                likeness[recent[place].id, other.id] = value
        worded = await self._worded(scope, now)
        changes = await plan_merges(list(known.values()), likeness, llm, now=now, worded=worded)
        batch = Batch(changes=changes, expected_version=version if changes else None)
        return await with_vectors(self._vectors, scope, batch, now)

    async def _worded(self, scope: Scope, now: datetime) -> frozenset[str]:
        """The ids of the memories whose vectors their callers brought."""
        found: set[str] = set()
        for generation in await self._store.generations():
            if generation.name.startswith(EXTERNAL):
                any_way = np.eye(1, generation.dimensions, dtype=np.float32)
                [held] = await self._store.search_vector(
                    scope, generation.number, list(any_way), limit=ALL_OF_A_SCOPE, now=now
                )
                found.update(id for id, _ in held)
        return frozenset(found)

    async def _with_vectors(
        self, scope: Scope, batch: Batch, made: Batch, meeting: Sequence[Memory], now: datetime
    ) -> Batch:
        texts = {memory.id: memory.content for memory in meeting}
        known = dict(made.vectors.items())
        rest = [
            change
            for change in batch.changes
            if change.memory.state == "active"
            and not (change.memory.id in known and texts[change.memory.id] == change.memory.content)
        ]
        written = {change.memory.id for change in batch.changes} - {change.memory.id for change in rest}
        more = await with_vectors(self._vectors, scope, Batch(changes=rest), now)
        vectors = {id: vector for id, vector in known.items() if id in written} | dict(more.vectors)
        generation = made.generation if made.generation is not None else more.generation
        return replace(batch, vectors=vectors, generation=generation, jobs=more.jobs)
