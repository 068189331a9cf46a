"""Plan the batch that takes facts in, and the batches that merge or sum up memories."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from ...concurrency import run_in_thread
from ...errors import ModelError
from ...models.llm import Llm
from ...records import EVERYTHING, Fact, Filter, Memory, Scope, new_id
from ...retention.lifecycle import to_memory, ttl_days_of
from ...retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ...retrieval.past import MAX_SHORT_TERM
from ...retrieval.similar import Near, current, neighbours
from ...settings import MemorySettings
from ...stores import Store
from ...stores.base import Batch, Job, each
from ...stores.view import MemoriesView
from ..kept_turns import source_changes
from ..transcripts import batch_key
from .decisions import Decision
from .merging import plan_merges
from .planner import Plan, decisions, settled, size_of
from .short_term import drop_crowded, keep_short_term
from .similarity import may_merge
from .summaries import next_groups, parts, plan_summary

logger = logging.getLogger(__name__)

MERGE_AT_MOST = 200
MERGE_KEY = "group"
MAX_MERGE_WAIT = timedelta(hours=1)  # of a scope with new memories
ALL_OF_A_SCOPE = 1_000_000
SHORT_TERM_AT_MOST = 1000  # of all sessions of a scope, that new memories are compared with


@dataclass(frozen=True, slots=True)
class Prepared:
    """Facts with what was found and decided about them, from which a batch is planned as often as
    the scope moves.

    Attributes:
        new: the rows that they would become.
        near: index into `new` → what may be the same, as it was found.
        asked: index into `new` → what the model decided.
        llm: the model that decided, and that may merge them later.
    """

    new: Sequence[Memory]
    near: Near
    asked: Mapping[int, Decision]
    llm: Llm | None


class Consolidation:
    """Plan how facts enter a scope and how memories in it merge; write nothing."""

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

    async def prepare(self, scope: Scope, facts: Sequence[Fact], *, llm: Llm | None) -> Prepared:
        """Look up what the facts meet, and ask the model about them; where it fails, they are added
        undecided.
        """
        now = self._clock()
        settings = self._settings
        new = [
            to_memory(
                fact, now=now, ttl_days=ttl_days_of(fact, settings), quarantine=settings.quarantine
            )
            for fact in facts
        ]
        meeting = {
            place: memory
            for place, memory in enumerate(new)
            if not memory.verbatim and memory.state == "active"
        }
        near: dict[int, list[tuple[Memory, float]]] = {place: [] for place in meeting}
        for view, vectors in (
            (self._store.memories.view(scope, now=now), self._vectors),
            (await self._short_term_view(scope, now), None),
        ):
            if view is not None:
                similar, _ = await neighbours(view, vectors, list(meeting.values()))
                for number, place in enumerate(meeting):
                    near[place] += similar[number]
        asked: Mapping[int, Decision] = {}
        try:
            asked = await decisions(new, await self._current(scope, new, near, now), llm)
        except ModelError as error:  # what was extracted is kept, and not extracted again
            logger.warning("%d new fact(s) are added undecided: %s", len(new), error)
        return Prepared(new, near, asked, llm)

    async def _short_term(self, scope: Scope, now: datetime) -> Mapping[str, Memory]:
        """Return the short-term memories that new ones may meet, by their ids."""
        if not self._settings.short_term_hours:
            return {}
        held = await self._store.memories.short_term(
            scope, session_id=None, limit=SHORT_TERM_AT_MOST, now=now
        )
        return {memory.id: memory for memory in held}

    async def _short_term_view(self, scope: Scope, now: datetime) -> MemoriesView | None:
        """Return a view of the short-term memories of a scope; None if there are none."""
        held = list((await self._short_term(scope, now)).values())
        if not held:
            return None
        return MemoriesView.of(self._store.memories, scope, held, filter=EVERYTHING, now=now)

    async def plan(
        self,
        scope: Scope,
        prepared: Prepared,
        *,
        turns: Sequence[Fact] = (),
        by_rule: bool = False,
        model: str = "",
        ended: str = "",
    ) -> Batch:
        """Return the batch that takes the facts in, planned on the scope's version as it is now.

        Args:
            scope: whose.
            prepared: the facts.
            turns: what was said, to be kept as the source of the facts.
            by_rule: leaves out what the model decided.
            model: that the merge which these facts arm is to be done with.
            ended: the session that ended with them, if one did.
        """
        now = self._clock()
        version = await self._store.memories.version(scope)
        plan, crowd = await self._planned(scope, prepared, by_rule, now)
        jobs: list[Job] = []
        if prepared.llm is not None:
            keep = dict.fromkeys(crowd, MAX_SHORT_TERM // 2)
            is_summed_up = any(memory.is_summary for memory in prepared.new)
            if ended and self._settings.short_term_hours and not is_summed_up:
                keep[ended] = 0
            jobs = [
                _job(scope, batch_key((), id, ended=True), {"keep": number}, model, now, now, id)
                for id, number in keep.items()
            ]
            jobs += await self._merge_job(scope, plan, model, now)
        sources = source_changes(turns, prepared.new, plan.same, settings=self._settings, now=now)
        ids = [change.memory.id for change in sources]
        there = await self._store.memories.get(scope, ids, now=now, superseded=True)
        # an import may have brought some
        sources = [change for change in sources if change.memory.id not in there]
        batch = Batch(
            changes=(*sources, *plan.changes),  # turns beside each other in their session
            reinforced=tuple(plan.reinforced),
            expected_version=version,
            jobs=tuple(jobs),
        )
        return await with_vectors(self._vectors, scope, batch, now)

    async def _planned(
        self, scope: Scope, prepared: Prepared, by_rule: bool, now: datetime
    ) -> tuple[Plan, Sequence[str]]:
        """Return the plan of the facts, and the sessions with too many short-term memories that a
        model may sum up.
        """
        new, memories = prepared.new, self._store.memories
        held = await self._short_term(scope, now)
        near = await self._current(scope, new, prepared.near, now, held)
        visible = (await self._store.stats(scope, now=now)).visible if any(near.values()) else 0
        work = partial(
            settled, new, near, {} if by_rule else prepared.asked, visible=visible, now=now
        )
        size = size_of(new, near)
        plan = await run_in_thread(size, work)
        if plan.is_late:
            past = Filter(superseded="only")
            history = [memory async for memory in each(memories, scope, past, now=now)]
            plan = await run_in_thread(size, partial(work, history=history))
        if hours := self._settings.short_term_hours:
            await run_in_thread(size, partial(keep_short_term, plan, new, held, hours=hours))
        if plan.spared:
            logger.warning(
                "%d memories more than one job may supersede stay beside new facts.", plan.spared
            )
        return plan, drop_crowded(plan, held, sums_up=prepared.llm is not None)

    async def _current(
        self,
        scope: Scope,
        new: Sequence[Memory],
        near: Near,
        now: datetime,
        held: Mapping[str, Memory] | None = None,
    ) -> Near:
        """Return what is near new memories, as it is now; short-term ones count as active."""
        held = await self._short_term(scope, now) if held is None else held
        active = [replace(memory, state="active") for memory in held.values()]
        return await current(self._store.memories, scope, new, near, others=active, now=now)

    async def _merge_job(
        self, scope: Scope, plan: Plan, model: str, now: datetime
    ) -> tuple[Job, ...]:
        """Return the merge that a scope waits for, due the sooner the more a plan adds what may
        ever merge.

        Turns as they were said, summaries, and what callers saved or pinned never do. It takes the
        place of the waiting one, with that one's model and its pause after a failure. Two writers
        at once may count as one.
        """
        added = (plan.rows[change.memory.id] for change in plan.changes if change.kind == "add")
        count = sum(map(may_merge, added))
        enough = self._settings.consolidate_after
        if not (count and enough):
            return ()
        due, has_failed = now + MAX_MERGE_WAIT, False
        waiting = await self._store.queue.waiting(scope, "consolidate", MERGE_KEY)
        if waiting is not None:
            count += int(waiting.payload.get("new", 0))
            due, model = waiting.run_after, model or waiting.model
            has_failed = bool(waiting.attempts)
        if count >= enough and not has_failed:
            due = min(due, now)
        return (_job(scope, MERGE_KEY, {"new": count}, model, due, now),)

    async def merges(self, scope: Scope, llm: Llm | None, *, saved: bool = False) -> Batch:
        """Return the batch that merges the newest memories of a scope with what says the same.

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
        version = await self._store.memories.version(scope)
        page = await self._store.memories.list(scope, order="newest", limit=MERGE_AT_MOST, now=now)
        recent = [memory for memory in page.memories if may_merge(memory, saved=saved)]
        near, _ = await neighbours(self._store.memories.view(scope, now=now), self._vectors, recent)
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

    async def old_groups(
        self, scope: Scope, *, saved: bool = False, without: Set[str] = frozenset()
    ) -> Sequence[Sequence[Memory]]:
        """Return groups of old episodic memories that summaries may stand for, where the settings
        ask for that.

        Args:
            scope: whose.
            saved: also sums up what callers saved as it is.
            without: ids of memories that are left alone.
        """
        if not self._settings.summarize_after_days:
            return ()
        now = self._clock()
        bound = without | await self._bound(scope, now)
        old = Filter(
            types=("episodic",),
            created_before=now - timedelta(days=self._settings.summarize_after_days),
        )
        free = [
            one
            async for one in each(self._store.memories, scope, old, now=now)
            if (saved or not one.explicit) and one.id not in bound
        ]
        return await run_in_thread(
            sum(len(one.content) for one in free), partial(next_groups, free, now=now)
        )

    async def session_groups(
        self, scope: Scope, session_id: str, *, keep: int
    ) -> Sequence[Sequence[Memory]]:
        """Return a session's short-term memories but for the newest, in groups that long-term
        summaries may stand for.

        What tools said is never summed up with what others said.
        """
        now = self._clock()
        held = await self._store.memories.short_term(
            scope, session_id=session_id, limit=SHORT_TERM_AT_MOST, now=now
        )
        old = [memory for memory in reversed(held[keep:]) if not memory.verbatim]
        return [
            group
            for of_tools in (False, True)
            for group in parts([one for one in old if (one.origin == "tool") is of_tools])
        ]

    async def summary(self, scope: Scope, group: Sequence[Memory], llm: Llm) -> Batch:
        """Return the batch that puts a summary in the place of a group; none where the model's text
        cannot stand for it.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        now = self._clock()
        changes = await plan_summary(group, llm, settings=self._settings, now=now)
        return await with_vectors(self._vectors, scope, Batch(changes=changes), now)

    async def _bound(self, scope: Scope, now: datetime) -> frozenset[str]:
        """Return the ids of the memories whose vectors their callers brought."""
        bound: set[str] = set()
        for space in await self._store.memories.spaces.all():
            if space.name.startswith(EXTERNAL):
                any_way = np.eye(1, space.dimensions, dtype=np.float32)
                [held] = await self._store.memories.view(scope, now=now).nearest(
                    space.number, list(any_way), limit=ALL_OF_A_SCOPE
                )
                bound.update(id for id, _ in held)
        return frozenset(bound)


def _job(
    scope: Scope,
    key: str,
    payload: Mapping[str, int],
    model: str,
    run_after: datetime,
    now: datetime,
    session_id: str = "",
) -> Job:
    """Return the job that merges a scope's memories, or sums up a session's but for the newest."""
    return Job(
        id=new_id(now),
        scope=scope,
        kind="consolidate",
        session_id=session_id,
        key=key,
        payload=payload,
        model=model,
        run_after=run_after,
        created_at=now,
    )
