"""Plan the batch that takes facts in, and the batches that merge or sum up memories."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from ..concurrency import run_in_thread
from ..errors import ModelError
from ..language.tokenizer import identity
from ..models.llm import Llm
from ..records import EVERYTHING, Fact, Filter, Memory, Scope, new_id
from ..retention.lifecycle import to_memory, ttl_days_of
from ..retrieval.embedding_spaces import EXTERNAL, StoreEmbedder, with_vectors
from ..retrieval.past import MAX_SHORT_TERM
from ..retrieval.similar import Near, current, neighbours
from ..settings import MemorySettings
from ..stores import Store
from ..stores.base import Batch, Job, each
from ..stores.view import MemoriesView
from .answers import Decision
from .comparing import may_merge
from .group_summaries import parts, plan_summary, topic_groups
from .kept_turns import source_changes
from .merging import plan_merges
from .planner import MIN_REPLACED, Plan, decide, size_of
from .transcripts import batch_key

logger = logging.getLogger(__name__)

MAX_MERGED = 200
"""The newest memories of a scope, which are merged with what says the same."""
MERGE_KEY = "group"
MAX_MERGE_WAIT = timedelta(hours=1)  # of a scope with new memories
MAX_COMPARED = 1000  # short-term memories of all sessions, that new ones are compared with
MIN_PROMOTED_IMPORTANCE = 0.7  # long-term at once
CROWDED = "the session has newer short-term memories"


@dataclass(frozen=True, slots=True)
class Learnt:
    """Memories that a job learnt, with what was found and decided about them; a batch is planned
    from it as often as the scope moves.

    Attributes:
        events: ids of the events it was learnt from.
        new: the rows that the facts would become.
        near: index into `new` → what may be the same, as it was found.
        decided: index into `new` → what the model decided.
        turns: what was said, to be kept as the source of the facts.
        echoed: ids of memories that were said again.
        ended: the session ended with it, and has no summary of all of it yet.
        llm: the model that decided, and that may merge them later.
    """

    events: frozenset[str]
    new: Sequence[Memory]
    near: Near
    decided: Mapping[int, Decision]
    turns: Sequence[Fact]
    echoed: Sequence[str]
    ended: bool
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

    async def meet(
        self, scope: Scope, facts: Sequence[Fact], llm: Llm | None
    ) -> tuple[Sequence[Memory], Near, Mapping[int, Decision]]:
        """Return the rows that facts would become, what they meet, and what the model decides about
        them; where it fails, they are added undecided.
        """
        now, settings = self._clock(), self._settings
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
        memories, held = self._store.memories, await self._short_term(scope, now)
        near: dict[int, list[tuple[Memory, float]]] = {place: [] for place in meeting}
        views = [(memories.view(scope, now=now), self._vectors)]
        if held:
            view = MemoriesView.of(memories, scope, held, filter=EVERYTHING, now=now)
            views.append((view, None))
        for view, vectors in views:
            similar, _ = await neighbours(view, vectors, list(meeting.values()))
            for number, place in enumerate(meeting):
                near[place] += similar[number]
        decided: Mapping[int, Decision] = {}
        try:
            shown = await current(memories, scope, new, near, others=held, now=now)
            decided = await decide(new, shown, llm)
        except ModelError as error:  # what was extracted is kept, and not extracted again
            logger.warning("%d new fact(s) are added undecided: %s", len(new), error)
        return new, near, decided

    async def _short_term(
        self, scope: Scope, now: datetime, session_id: str | None = None
    ) -> Sequence[Memory]:
        """Return the short-term memories of a scope or session, the newest first."""
        if not self._settings.short_term_hours:
            return ()
        return await self._store.memories.short_term(
            scope, session_id=session_id, limit=MAX_COMPARED, now=now
        )

    async def plan(self, job: Job, learnt: Learnt, *, by_rule: bool = False) -> Batch:
        """Return the batch that takes in what a job learnt, planned on the scope's version as it is
        now.

        Args:
            job: whose model is to do the merge that the facts arm.
            learnt: from it.
            by_rule: leaves out what the model decided.
        """
        scope, now, memories = job.scope, self._clock(), self._store.memories
        version = await memories.version(scope)
        held = await self._short_term(scope, now)
        new = self._tiered(learnt.new, held, now)
        near = await current(memories, scope, new, learnt.near, others=held, now=now)
        visible = (await self._store.stats(scope, now=now)).visible if any(near.values()) else 0

        def planned(history: Sequence[Memory] = ()) -> Plan:
            plan = Plan(now=now, replaceable=max(MIN_REPLACED, visible // 10), history=history)
            plan.take(new, near, {} if by_rule else learnt.decided)
            return plan

        plan = await run_in_thread(size_of(new, near), planned)
        if plan.is_late:
            past = Filter(superseded="only")
            history = [memory async for memory in each(memories, scope, past, now=now)]
            plan = await run_in_thread(size_of(new, near), partial(planned, history))
        if plan.spared:
            logger.warning(
                "%d memories more than one job may supersede stay beside new facts.", plan.spared
            )
        crowded = self._expire_crowd(plan, held, sums_up=learnt.llm is not None)
        jobs: list[Job] = []
        if learnt.llm is not None:
            keep = dict.fromkeys(crowded, MAX_SHORT_TERM // 2)
            if learnt.ended and self._settings.short_term_hours:
                keep |= {} if any(one.is_summary for one in new) else {job.session_id: 0}
            jobs = [
                _later(job, batch_key((), id, ended=True), {"keep": number}, now, session_id=id)
                for id, number in keep.items()
            ]
            jobs += await self._merge_job(job, plan)
        sources = source_changes(learnt.turns, new, plan.same, settings=self._settings, now=now)
        ids = [change.memory.id for change in sources]
        there = await memories.get(scope, ids, now=now, superseded=True)
        # an import may have brought some
        sources = [change for change in sources if change.memory.id not in there]
        batch = Batch(
            changes=(*sources, *plan.changes),  # turns beside each other in their session
            reinforced=await self._with_turns(scope, (*plan.reinforced, *learnt.echoed), now),
            expected_version=version,
            jobs=tuple(jobs),
        )
        return await with_vectors(self._vectors, scope, batch, now)

    async def _with_turns(self, scope: Scope, ids: Sequence[str], now: datetime) -> Sequence[str]:
        """Return the ids of memories that were met again with those of their turns, which live as
        long.
        """
        if not ids:
            return ()
        held = await self._store.memories.get(scope, ids, now=now)
        turns = (id for memory in held.values() for id in memory.source_ids)
        return tuple(dict.fromkeys((*ids, *turns)))

    def _tiered(
        self, new: Sequence[Memory], held: Sequence[Memory], now: datetime
    ) -> Sequence[Memory]:
        """Return the facts as short-term memories of their sessions, where the settings ask for
        that.

        Long-term at once is what is important, pinned, of no session, a summary of its session, or
        what another session's short-term memory says in the same words.
        """
        hours = self._settings.short_term_hours
        if not hours:
            return new
        own = {fact.session_id for fact in new}
        elsewhere = {_words(memory) for memory in held if memory.session_id not in own}

        def is_long_term(fact: Memory) -> bool:
            stays = fact.pinned or fact.is_summary or fact.session_id is None
            is_important = fact.importance >= MIN_PROMOTED_IMPORTANCE
            return stays or is_important or _words(fact) in elsewhere

        return [
            fact
            if fact.state != "active" or is_long_term(fact)
            else replace(fact, state="short_term", expires_at=now + timedelta(hours=hours))
            for fact in new
        ]

    def _expire_crowd(self, plan: Plan, held: Sequence[Memory], *, sums_up: bool) -> list[str]:
        """Let short-term memories beyond the newest 50 of their session expire at once; return the
        sessions with others, which a model is to sum up.

        Args:
            plan: of new facts.
            held: the short-term memories of the scope, as they are.
            sums_up: there is a model, and only turns as they were said expire.
        """
        sessions: dict[str | None, list[Memory]] = defaultdict(list)
        rows = {**{memory.id: memory for memory in held}, **plan.rows}.values()
        for memory in sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True):
            if memory.state == "short_term":
                sessions[memory.session_id].append(memory)
        crowd = [memory for some in sessions.values() for memory in some[MAX_SHORT_TERM:]]
        for memory in crowd:
            if memory.verbatim or not sums_up:
                ended = replace(memory, expires_at=plan.now)
                plan.put("update", ended, memory, why=CROWDED)
        return list(dict.fromkeys(str(one.session_id) for one in crowd if not one.verbatim))

    async def _merge_job(self, job: Job, plan: Plan) -> Sequence[Job]:
        """Return the merge that a scope waits for, due the sooner the more a plan adds what may
        ever merge.

        It takes the place of the waiting one, with that one's model and its pause after a failure.
        Two writers at once may count as one.
        """
        added = (plan.rows[change.memory.id] for change in plan.changes if change.kind == "add")
        count = sum(map(may_merge, added))
        enough = self._settings.consolidate_after
        if not (count and enough):
            return ()
        due, model, has_failed = plan.now + MAX_MERGE_WAIT, job.model, False
        waiting = await self._store.queue.waiting(job.scope, "consolidate", MERGE_KEY)
        if waiting is not None:
            count += int(waiting.payload.get("new", 0))
            due, model = waiting.run_after, model or waiting.model
            has_failed = bool(waiting.attempts)
        if count >= enough and not has_failed:
            due = min(due, plan.now)
        return [_later(replace(job, model=model), MERGE_KEY, {"new": count}, plan.now, due=due)]

    async def merges(self, scope: Scope, llm: Llm, *, saved: bool = False) -> Batch:
        """Return the batch that merges the newest memories of a scope with what says the same.

        What has a vector of its caller's stays alone: nobody here can make one for other words.

        Args:
            scope: whose.
            llm: writes what several memories become.
            saved: also merges what callers saved as it is; only where a caller asks for that.

        Raises:
            ModelError: the model is unavailable or its answer cannot be used.
        """
        now, memories = self._clock(), self._store.memories
        version = await memories.version(scope)
        page = await memories.list(scope, order="newest", limit=MAX_MERGED, now=now)
        recent = [memory for memory in page.memories if may_merge(memory, saved=saved)]
        near, _ = await neighbours(memories.view(scope, now=now), self._vectors, recent)
        found = [memory for some in near.values() for memory, _ in some]
        bound = await self._bound(scope, [*recent, *found])
        near = {
            place: [pair for pair in some if pair[0].id not in bound]
            for place, some in near.items()
            if recent[place].id not in bound
        }
        changes = await plan_merges(recent, near, llm, now=now, saved=saved)
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
        if not (days := self._settings.summarize_after_days):
            return ()
        now = self._clock()
        old = Filter(types=("episodic",), created_before=now - timedelta(days=days))
        free = [
            one
            async for one in each(self._store.memories, scope, old, now=now)
            if (saved or not one.explicit) and one.id not in without
        ]
        bound = await self._bound(scope, free)
        free = [one for one in free if one.id not in bound]
        size = sum(len(one.content) for one in free)
        return await run_in_thread(size, partial(topic_groups, free, now=now))

    async def session_groups(
        self, scope: Scope, session_id: str, *, keep: int
    ) -> Sequence[Sequence[Memory]]:
        """Return a session's short-term memories but for the newest, in groups that long-term
        summaries may stand for.

        What tools said is never summed up with what others said.
        """
        held = await self._short_term(scope, self._clock(), session_id)
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

    async def _bound(self, scope: Scope, memories: Sequence[Memory]) -> Set[str]:
        """Return the ids of those memories whose vectors their callers brought."""
        ids = list(dict.fromkeys(memory.id for memory in memories))
        store = self._store.memories
        return {
            id
            for space in await store.spaces.all()
            if ids and space.name.startswith(EXTERNAL)
            for id in await store.vectors(scope, space.number, ids)
        }


def _words(memory: Memory) -> bytes:
    """Return what memories share that say the same words, whatever turn they come from."""
    return identity(memory.content, verbatim=False)


def _later(
    job: Job,
    key: str,
    payload: Mapping[str, int],
    now: datetime,
    *,
    session_id: str = "",
    due: datetime | None = None,
) -> Job:
    """Return the job that merges a scope's memories, or sums up a session's but for the newest."""
    return Job(
        id=new_id(now),
        scope=job.scope,
        kind="consolidate",
        session_id=session_id,
        key=key,
        payload=payload,
        model=job.model,
        run_after=due or now,
        created_at=now,
    )
