"""Turns facts into the one batch that takes them in, and a scope's likenesses into the batch that merges them."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from ..concurrency import run_in_thread
from ..errors import ModelError, ModelUnavailable
from ..models.llm import Llm
from ..records import Change, Fact, Filter, Memory, Scope
from ..retention.lifecycle import to_memory, ttl_days_of
from ..retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ..retrieval.past import MAX_SHORT_TERM, SessionView
from ..retrieval.similar import Near, current, neighbours
from ..settings import MemorySettings
from ..stores.base import Batch, Store, each
from .consolidation import Decision, decisions, plan_merges, settled, size_of
from .group_summaries import next_groups, plan_summary
from .scheduler import MergeScheduler
from .short_term import tiered, with_short_term

logger = logging.getLogger(__name__)

MERGE_AT_MOST = 200
ALL_OF_A_SCOPE = 1_000_000
SHORT_TERM_AT_MOST = 1000  # of all sessions of a scope, that new memories are compared with


@dataclass(frozen=True, slots=True)
class Prepared:
    """Facts with what was found and decided about them, from which a batch is planned as often as the scope moves.

    Attributes:
        new: the rows that they would become.
        near: index into `new` → what may be the same, as it was found.
        alike: the same of short-term memories.
        asked: index into `new` → what the model decided.
        made: the vectors of the new rows.
        llm: the model that decided, and that may merge them later.
    """

    new: Sequence[Memory]
    near: Near
    alike: Near
    asked: Mapping[int, Decision]
    made: Batch
    llm: Llm | None


class Consolidation:
    """Plans how facts enter a scope and how memories in it merge; writes nothing."""

    def __init__(
        self,
        store: Store,
        vectors: StoreEmbedder | None,
        *,
        settings: MemorySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._settings = settings
        self._clock = clock
        self._scheduler = MergeScheduler(store, settings)

    async def prepare(self, scope: Scope, facts: Sequence[Fact], *, llm: Llm | None) -> Prepared:
        """Look up what the facts meet, and ask the model about them; where it fails, they are added undecided."""
        now = self._clock()
        settings = self._settings
        new = [
            to_memory(fact, now=now, ttl_days=ttl_days_of(fact, settings), quarantine=settings.quarantine)
            for fact in facts
        ]
        meeting = {
            place: memory for place, memory in enumerate(new) if not memory.verbatim and memory.state == "active"
        }
        similar, made = await neighbours(self._store.view(scope, now=now), self._vectors, list(meeting.values()))
        near = {place: similar[number] for number, place in enumerate(meeting)}
        near = await current(self._store, scope, new, near, now=now)
        alike: Near = {}
        if held := await self._short_term(scope, new, now):
            own = SessionView.of(self._store, scope, list(held.values()), now)
            similar, _ = await neighbours(own, None, list(meeting.values()))
            alike = {place: similar[number] for number, place in enumerate(meeting)}
        near = await self._with_short_term(new, near, alike, held)
        asked: Mapping[int, Decision] = {}
        try:
            asked = await decisions(new, near, llm)
        except ModelError as error:  # what was extracted is kept, and not extracted again
            logger.warning("%d new fact(s) are added undecided: %s", len(new), error)
        return Prepared(new, near, alike, asked, made, llm)

    async def _short_term(self, scope: Scope, new: Sequence[Memory], now: datetime) -> Mapping[str, Memory]:
        """The short-term memories that new ones may meet, by their ids: the newest, and all of the same sessions."""
        if not self._settings.short_term_hours:
            return {}
        sessions = {memory.session_id for memory in new if memory.session_id is not None}
        pages = [
            await self._store.short_term(scope, session_id=session_id, limit=MAX_SHORT_TERM, now=now)
            for session_id in sorted(sessions)
        ]
        pages.append(await self._store.short_term(scope, session_id=None, limit=SHORT_TERM_AT_MOST, now=now))
        return {memory.id: memory for some in pages for memory in some}

    async def _with_short_term(
        self, new: Sequence[Memory], near: Near, alike: Near, held: Mapping[str, Memory]
    ) -> Near:
        if not held:
            return near
        size = sum(len(memory.content) for memory in (*new, *held.values()))
        return await run_in_thread(size, with_short_term, new, near, alike, held)

    async def plan(self, scope: Scope, prepared: Prepared, *, by_rule: bool = False, model: str = "") -> Batch:
        """The batch that takes the facts in, planned on the scope's version as it is now.

        Args:
            scope: whose.
            prepared: the facts.
            by_rule: leaves out what the model decided.
            model: that the merge which these facts arm is to be done with.
        """
        now = self._clock()
        version = await self._store.version(scope)
        near = await current(self._store, scope, prepared.new, prepared.near, now=now)
        held = await self._short_term(scope, prepared.new, now)
        near = await self._with_short_term(prepared.new, near, prepared.alike, held)
        asked = dict[int, Decision]() if by_rule else prepared.asked
        visible = (await self._store.stats(scope, now=now)).visible if any(near.values()) else 0
        work = partial(settled, prepared.new, near, asked, visible=visible, now=now)
        planned = await run_in_thread(size_of(prepared.new, near), work)
        if hours := self._settings.short_term_hours:
            planned = await run_in_thread(
                size_of(prepared.new, near),
                partial(tiered, planned, prepared.new, held, hours=hours, now=now),
            )
        if planned.vetoed:
            logger.info("%d decision(s) of the model were not carried out as it made them.", planned.vetoed)
        if planned.spared:
            logger.warning("%d memories more than one job may supersede stay beside new facts.", planned.spared)
        # what will be visible has the vectors that were made before, and new ones for new words
        stands = {change.memory.id: change.memory for change in planned.changes}
        visible = {id: memory for id, memory in stands.items() if memory.state in ("active", "short_term")}
        texts = {memory.id: memory.content for memory in prepared.new}
        made = prepared.made
        known = {id: made.vectors[id] for id in made.vectors if id in visible and texts[id] == visible[id].content}
        rest = [Change(kind="add", memory=memory) for id, memory in visible.items() if id not in known]
        more = await with_vectors(self._vectors, scope, Batch(changes=rest), now)
        batch = Batch(
            changes=planned.changes,
            reinforced=planned.reinforced,
            expected_version=version,
            vectors={**known, **more.vectors},
            space_number=made.space_number if made.space_number is not None else more.space_number,
            jobs=more.jobs,
        )
        if prepared.llm is None:
            return batch
        merge = await self._scheduler.job(scope, planned.changes, model=model, now=now)
        return replace(batch, jobs=(*batch.jobs, *merge))

    async def merges(self, scope: Scope, llm: Llm | None, *, saved: bool = False) -> Batch:
        """The batch that merges the newest memories of a scope with what says the same; without a model nothing does.

        What has a vector of its caller's stays alone: nobody here can make one for other words.

        Args:
            scope: whose.
            llm: writes what several memories become.
            saved: also merges what callers saved as it is; only where a caller asks for that.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        if llm is None:
            return Batch()
        now = self._clock()
        version = await self._store.version(scope)
        page = await self._store.list(scope, order="newest", limit=MERGE_AT_MOST, now=now)
        recent = [one for one in page.memories if not one.verbatim and not one.pinned and (saved or not one.explicit)]
        near, _ = await neighbours(self._store.view(scope, now=now), self._vectors, recent)
        known = {memory.id: memory for memory in recent}
        likeness: dict[tuple[str, str], float] = {}
        for place, similar in near.items():
            for other, value in similar:
                known.setdefault(other.id, other)
                likeness[recent[place].id, other.id] = value
        bound = await self._bound(scope, now)
        free = [memory for memory in known.values() if memory.id not in bound]
        changes = await plan_merges(free, likeness, llm, now=now, saved=saved)
        batch = Batch(changes=changes, expected_version=version if changes else None)
        return await with_vectors(self._vectors, scope, batch, now)

    async def summaries(
        self, scope: Scope, llm: Llm | None, *, saved: bool = False, without: Set[str] = frozenset()
    ) -> AsyncGenerator[Batch]:
        """Batches that each put a summary in the place of a group of old episodic memories, where the settings ask for
        that and there is a model. Each is to be applied before the next is asked for; it is a Conflict where somebody
        changed one of its memories since.

        Args:
            scope: whose.
            llm: writes the summaries.
            saved: also sums up what callers saved as it is.
            without: ids of memories that are left alone.

        Raises:
            ModelError: the model is unavailable, or failed at a group; the other groups came before.
        """
        if llm is None or not self._settings.summarize_after_days:
            return
        now = self._clock()
        bound = without | await self._bound(scope, now)
        old = Filter(types=("episodic",), created_before=now - timedelta(days=self._settings.summarize_after_days))
        free = [
            one
            async for one in each(self._store, scope, old, now=now)
            if (saved or not one.explicit) and one.id not in bound
        ]
        failure: ModelError | None = None
        for group in await run_in_thread(sum(len(one.content) for one in free), partial(next_groups, free, now=now)):
            try:
                changes = await plan_summary(group, llm, settings=self._settings, now=self._clock())
            except ModelUnavailable:
                raise
            except ModelError as error:
                failure = failure or error
                continue
            if changes:
                yield await with_vectors(self._vectors, scope, Batch(changes=changes), now)
        if failure is not None:
            raise failure

    async def _bound(self, scope: Scope, now: datetime) -> frozenset[str]:
        """The ids of the memories whose vectors their callers brought."""
        bound: set[str] = set()
        for space in await self._store.embedding_spaces():
            if space.name.startswith(EXTERNAL):
                any_way = np.eye(1, space.dimensions, dtype=np.float32)
                [held] = await self._store.view(scope, now=now).nearest(
                    space.number, list(any_way), limit=ALL_OF_A_SCOPE
                )
                bound.update(id for id, _ in held)
        return frozenset(bound)
