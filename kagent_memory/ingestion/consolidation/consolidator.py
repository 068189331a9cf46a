"""Plan the batch that takes facts in, and the batches that merge or sum up memories."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import numpy as np

from ...concurrency import run_in_thread
from ...errors import ModelError, ModelUnavailable
from ...models.llm import Llm
from ...records import EVERYTHING, Change, Fact, Filter, Memory, Scope, new_id
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
from .planner import Plan, decisions, is_late, settled, size_of, without_overlap
from .short_term import crowded, tiered, with_short_term, without_crowd
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
        similar, made = await neighbours(
            self._store.memories.view(scope, now=now), self._vectors, list(meeting.values())
        )
        near = {place: similar[number] for number, place in enumerate(meeting)}
        alike: Near = {}
        if held := await self._short_term(scope, new, now):
            own = MemoriesView.of(
                self._store.memories, scope, list(held.values()), filter=EVERYTHING, now=now
            )
            similar, _ = await neighbours(own, None, list(meeting.values()))
            alike = {place: similar[number] for number, place in enumerate(meeting)}
        near, _ = await self._current(scope, new, near, alike, now)
        asked: Mapping[int, Decision] = {}
        try:
            asked = await decisions(new, near, llm)
        except ModelError as error:  # what was extracted is kept, and not extracted again
            logger.warning("%d new fact(s) are added undecided: %s", len(new), error)
        return Prepared(new, near, alike, asked, made, llm)

    async def _short_term(
        self, scope: Scope, new: Sequence[Memory], now: datetime
    ) -> Mapping[str, Memory]:
        """Return the short-term memories that new ones may meet, by their ids."""
        if not self._settings.short_term_hours:
            return {}
        sessions = {memory.session_id for memory in new if memory.session_id is not None}
        pages = [
            await self._store.memories.short_term(
                scope, session_id=session_id, limit=MAX_SHORT_TERM, now=now
            )
            for session_id in sorted(sessions)
        ]
        pages.append(
            await self._store.memories.short_term(
                scope, session_id=None, limit=SHORT_TERM_AT_MOST, now=now
            )
        )
        return {memory.id: memory for some in pages for memory in some}

    async def _current(
        self, scope: Scope, new: Sequence[Memory], near: Near, alike: Near, now: datetime
    ) -> tuple[Near, Mapping[str, Memory]]:
        """Return what is near new memories, as it is now, and the short-term memories of the
        scope.
        """
        near = await current(self._store.memories, scope, new, near, now=now)
        held = await self._short_term(scope, new, now)
        if held:
            size = sum(len(memory.content) for memory in (*new, *held.values()))
            near = await run_in_thread(size, with_short_term, new, near, alike, held)
        return near, held

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
        planned, crowd = await self._planned(scope, prepared, by_rule, now)
        jobs: list[Job] = []
        if prepared.llm is not None:
            is_summed_up = any(memory.is_summary for memory in prepared.new)
            keep = {
                memory.session_id: MAX_SHORT_TERM // 2 for memory in crowd if not memory.verbatim
            }
            if ended and self._settings.short_term_hours and not is_summed_up:
                keep[ended] = 0
            jobs = [_session_job(scope, str(id), number, model, now) for id, number in keep.items()]
            jobs += await self._merge_job(scope, planned.changes, model, now)
        sources = source_changes(
            turns, prepared.new, planned.same, settings=self._settings, now=now
        )
        there = await self._store.memories.get(
            scope, [one.memory.id for one in sources], now=now, superseded=True
        )
        # an import may have brought some
        sources = [one for one in sources if one.memory.id not in there]
        # what will be visible has the vectors that were made before, and new ones for new words
        stands = {change.memory.id: change.memory for change in planned.changes}
        visible = {
            id: memory for id, memory in stands.items() if memory.state in ("active", "short_term")
        }
        texts = {memory.id: memory.content for memory in prepared.new}
        made = prepared.made
        known = {
            id: made.vectors[id]
            for id in made.vectors
            if id in visible and texts[id] == visible[id].content
        }
        rest = [
            Change(kind="add", memory=memory) for id, memory in visible.items() if id not in known
        ]
        more = await with_vectors(self._vectors, scope, Batch(changes=[*rest, *sources]), now)
        return Batch(
            changes=(*sources, *planned.changes),  # turns beside each other in their session
            reinforced=planned.reinforced,
            expected_version=version,
            vectors={**known, **more.vectors},
            space_number=made.space_number if made.space_number is not None else more.space_number,
            jobs=(*more.jobs, *jobs),
        )

    async def _planned(
        self, scope: Scope, prepared: Prepared, by_rule: bool, now: datetime
    ) -> tuple[Plan, Sequence[Memory]]:
        """Return the plan of the facts, and the short-term memories that are too many in their
        session.
        """
        near, held = await self._current(scope, prepared.new, prepared.near, prepared.alike, now)
        asked = dict[int, Decision]() if by_rule else prepared.asked
        visible = (await self._store.stats(scope, now=now)).visible if any(near.values()) else 0
        work = partial(settled, prepared.new, near, asked, visible=visible, now=now)
        planned = await run_in_thread(size_of(prepared.new, near), work)
        if is_late(planned):
            history = [
                one
                async for one in each(
                    self._store.memories, scope, Filter(superseded="only"), now=now
                )
            ]
            planned = without_overlap(planned, history, now=now)
        if hours := self._settings.short_term_hours:
            planned = await run_in_thread(
                size_of(prepared.new, near),
                partial(tiered, planned, prepared.new, held, hours=hours, now=now),
            )
        crowd = crowded(planned, held)
        # turns as they were said are not summed up
        dropped = [memory for memory in crowd if memory.verbatim or prepared.llm is None]
        if planned.vetoed:
            logger.info(
                "%d decision(s) of the model were not carried out as it made them.", planned.vetoed
            )
        if planned.spared:
            logger.warning(
                "%d memories more than one job may supersede stay beside new facts.", planned.spared
            )
        return without_crowd(planned, dropped, now=now), crowd

    async def _merge_job(
        self, scope: Scope, changes: Sequence[Change], model: str, now: datetime
    ) -> tuple[Job, ...]:
        """Return the merge that a scope waits for, due the sooner the more of these changes add
        what may ever merge.

        Turns as they were said, summaries, and what callers saved or pinned never do. It takes the
        place of the waiting one, with that one's model and its pause after a failure. Two writers
        at once may count as one.
        """
        last = {change.memory.id: change.memory for change in changes}
        added = [last[change.memory.id] for change in changes if change.kind == "add"]
        count = sum(
            one.state == "active"
            and not (one.verbatim or one.is_summary or one.explicit or one.pinned)
            for one in added
        )
        if not (count and self._settings.consolidate_after):
            return ()
        waiting, due = (
            await self._store.queue.waiting(scope, "consolidate", MERGE_KEY),
            now + MAX_MERGE_WAIT,
        )
        if waiting is not None:
            count, due = count + int(waiting.payload.get("new", 0)), waiting.run_after
            model = model or waiting.model
        if count >= self._settings.consolidate_after and not (
            waiting is not None and waiting.attempts
        ):
            due = min(due, now)
        job = Job(
            id=new_id(now),
            scope=scope,
            kind="consolidate",
            key=MERGE_KEY,
            payload={"new": count},
            model=model,
            run_after=due,
            created_at=now,
        )
        return (job,)

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
        recent = [
            one
            for one in page.memories
            if not one.verbatim and not one.pinned and (saved or not one.explicit)
        ]
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
        of_tools = [memory for memory in old if memory.origin == "tool"]
        return [*parts([memory for memory in old if memory.origin != "tool"]), *parts(of_tools)]

    async def summaries(
        self, scope: Scope, groups: Sequence[Sequence[Memory]], llm: Llm
    ) -> AsyncGenerator[Batch]:
        """Yield batches that each put a summary in the place of a group.

        Each is to be applied before the next is asked for; it is a Conflict where somebody changed
        one of its memories since.

        Raises:
            ModelError: the model is unavailable, or failed at a group; the other groups came
                before.
        """
        failure: ModelError | None = None
        for group in groups:
            now = self._clock()
            try:
                changes = await plan_summary(group, llm, settings=self._settings, now=now)
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


def _session_job(scope: Scope, session_id: str, keep: int, model: str, now: datetime) -> Job:
    """Return the job that sums up a session's short-term memories but for the newest."""
    return Job(
        id=new_id(now),
        scope=scope,
        kind="consolidate",
        session_id=session_id,
        key=batch_key((), session_id, ended=True),
        payload={"keep": keep},
        model=model,
        run_after=now,
        created_at=now,
    )
