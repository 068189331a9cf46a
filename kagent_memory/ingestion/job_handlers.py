"""The steps of one job, in their order; the last one commits everything at once.

Models are called outside any transaction. What they answered is planned against the scope as it is,
and applied only if the scope has not moved since; otherwise it is planned again, without asking the
extraction again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

from ..concurrency import run_in_thread
from ..errors import Conflict, ModelError, ModelUnavailable, NotFound, StoreError
from ..models.llm import Llm, Meter, metered
from ..records import Change, Filter, Memory, Message, Scope
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some
from ..settings import MemorySettings
from ..stores import Store
from ..stores.base import SESSION_END, Batch, Job
from ..stores.planning import slot_of
from .consolidation import Consolidation, Learnt
from .echoes import without_recalled
from .facts import storable
from .kept_turns import keeps_turns, turns_of
from .providers import Providers, ProviderUnavailable
from .summary_provider import SummaryProvider, Transcript
from .transcripts import from_payload, handed_in
from .worker import lease_seconds

logger = logging.getLogger(__name__)

REPLANS = 8
MAX_EARLIER = 50
MAX_EMBEDDED = 256
MAX_SLOTS = 30
"""Slots of a scope that the extraction prompt shows."""
SLOTS_AMONG = 200  # newest memories


class JobHandlers:
    """Perform claimed jobs."""

    def __init__(
        self,
        store: Store,
        vectors: StoreEmbedder | None,
        providers: Providers,
        *,
        settings: MemorySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._providers = providers
        self._settings = settings
        self._clock = clock
        self._consolidation = Consolidation(store, vectors, settings=settings, clock=clock)

    async def run(self, job: Job) -> Job:
        """Perform one job to its end and return it with its costs.

        Raises:
            ProviderUnavailable: its provider or model is unknown here.
            Conflict: another worker has the job.
            ModelError: the model is unavailable; the job is to be tried again.
            StoreError: the database is unavailable, or the scope kept moving.
        """
        if job.kind == "embed":
            return await self._embed(job)
        if job.kind == "consolidate":
            return await self._consolidate(job)
        provider = self._providers.find(job)
        learnt: Learnt | None = None
        by_rule = False
        with metered() as meter:
            for _ in range(REPLANS):
                messages = from_payload(job.payload)
                ids = [message.event_id for message in messages]
                taken = await self._store.memories.taken(job.scope, job.session_id, ids)
                messages = [message for message in messages if message.event_id not in taken]
                events = frozenset(message.event_id for message in messages)
                if learnt is None or learnt.events != events:
                    learnt = await self._learn(job, provider, messages)
                batch = await self._consolidation.plan(job, learnt, by_rule=by_rule)
                self._providers.bring(batch.jobs, learnt.llm)
                ends = [SESSION_END] if job.payload.get("ended") else []
                ingested = [(job.session_id, id) for id in (*sorted(events), *ends)]
                try:
                    return await self._end(job, meter, replace(batch, taken=ingested))
                except Conflict:
                    await self._still_ours(job)
                    # nothing moved: the model's own wish cannot be, such as a text that an expired
                    # memory has
                    version = await self._store.memories.version(job.scope)
                    by_rule = by_rule or version == batch.expected_version
        raise StoreError(
            "The scope kept changing while a session was being ingested; it will be tried again."
        )

    async def _end(self, job: Job, meter: Meter, batch: Batch) -> Job:
        """Apply the last batch of a job, which ends it, and return the job with its costs."""
        calls, tokens = job.calls + meter.calls, job.tokens + meter.tokens
        batch = replace(batch, job=(job.id, job.fence), calls=calls, tokens=tokens)
        await self._store.apply(job.scope, batch, now=self._clock())
        return replace(job, calls=calls, tokens=tokens)

    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merge what says the same in a scope, and sum up what is old; see
        `Memories.consolidate`.
        """
        return await self._merge(scope, self._providers.llm, saved=True, dry_run=dry_run)

    async def _merge(
        self, scope: Scope, llm: Llm | None, *, saved: bool = False, dry_run: bool = False
    ) -> tuple[Change, ...]:
        """Merge and sum up a scope's memories; what is merged stands, whatever becomes of the
        summaries.
        """
        if llm is None:
            return ()
        batch = await self._consolidation.merges(scope, llm, saved=saved)
        if batch.changes and not dry_run:
            await self._store.apply(scope, batch, now=self._clock())
        merged = {change.memory.id for change in batch.changes}
        groups = await self._consolidation.old_groups(scope, saved=saved, without=merged)
        return (*batch.changes, *await self._sum_up(scope, groups, llm, dry_run=dry_run))

    async def _sum_up(
        self,
        scope: Scope,
        groups: Sequence[Sequence[Memory]],
        llm: Llm,
        *,
        dry_run: bool = False,
    ) -> list[Change]:
        """Put a summary in the place of each group, unless somebody changed that meanwhile; return
        the changes.

        Raises:
            ModelError: the model is unavailable, or failed at a group; the others are summed up.
        """
        done: list[Change] = []
        failure: ModelError | None = None
        for group in groups:
            try:
                summary = await self._consolidation.summary(scope, group, llm)
                if summary.changes and not dry_run:
                    await self._store.apply(scope, summary, now=self._clock())
                done += summary.changes
            except ModelUnavailable:
                raise
            except ModelError as error:
                failure = failure or error
            except (Conflict, NotFound) as error:
                logger.info(
                    "Old memories were not summarised, because one of them changed meanwhile: %s",
                    error,
                )
        if failure is not None:
            raise failure
        return done

    async def _still_ours(self, job: Job) -> None:
        if not await self._store.queue.renew(job, lease_seconds=lease_seconds(job)):
            raise Conflict(f"This worker no longer holds the job {job.id}.")

    async def _learn(
        self, job: Job, provider: SummaryProvider, messages: Sequence[Message]
    ) -> Learnt:
        """Return what a provider finds in new messages, and what it meets in the scope."""
        now, settings = self._clock(), self._settings
        said = [message for message in messages if message.text.strip()]
        heard, echoed = await without_recalled(
            self._store.memories, job.scope, said, handed=handed_in(job.payload), now=now
        )
        transcript = await self._transcript(job, heard, now)
        found = await provider.facts(transcript) if heard or transcript.ended else ()
        keeps = heard and keeps_turns(provider, settings)
        turns = await turns_of(transcript) if keeps else ()
        outputs = [message.text for message in said if message.role == "tool"]
        if settings.quarantine and job.session_id:  # what tools said before may be repeated
            for state in (False, "quarantined"):
                outputs += [
                    memory.content
                    for memory in await self._memories(
                        job, now, origins=("tool",), session_id=job.session_id, superseded=state
                    )
                ]
        kept = partial(
            storable,
            messages=heard,
            outputs=outputs,
            session_id=job.session_id,
            said_at=job.created_at,
            max_bytes=settings.max_content_bytes,
        )
        size = sum(map(len, outputs)) + sum(len(fact.text) for fact in (*found, *turns))
        facts, turns = await run_in_thread(size, lambda: (kept(found), kept(turns)))
        llm = self._providers.consolidator(job)
        new, near, decided = await self._consolidation.meet(job.scope, facts, llm)
        events = frozenset(message.event_id for message in messages)
        return Learnt(events, new, near, decided, turns, echoed, transcript.ended, llm)

    async def _transcript(self, job: Job, heard: Sequence[Message], now: datetime) -> Transcript:
        """Return what a provider is told: what is new in a session, and what is known of it."""
        ended = bool(job.payload.get("ended"))
        if ended and not heard:  # the session may have a summary of all of it
            ends = await self._store.memories.taken(job.scope, job.session_id, [SESSION_END])
            ended = SESSION_END not in ends
        earlier: list[Memory] = []
        if ended:
            session_id = job.session_id
            earlier += await self._memories(job, now, order="oldest", session_id=session_id)
            short_term = await self._store.memories.short_term(
                job.scope, session_id=session_id, limit=MAX_EARLIER, now=now
            )
            earlier = [*earlier, *reversed(short_term)]
        slots: dict[str | None, tuple[str, str]] = {}
        if job.model or self._providers.llm is not None:  # a model's facts are to meet them
            for memory in await self._memories(job, now, limit=SLOTS_AMONG):
                if memory.subject and memory.attribute and not memory.is_summary:
                    slots[slot_of(memory)] = memory.subject, memory.attribute
        return Transcript(
            messages=heard,
            session_id=job.session_id,
            ended=ended,
            earlier=tuple(earlier[:MAX_EARLIER]),
            slots=tuple(slots.values())[:MAX_SLOTS],
            now=now,
        )

    async def _memories(
        self,
        job: Job,
        now: datetime,
        *,
        limit: int = MAX_EARLIER,
        order: Literal["newest", "oldest"] = "newest",
        **conditions: Any,
    ) -> Sequence[Memory]:
        """Return some memories of a job's scope, on the conditions of a `Filter`."""
        page = await self._store.memories.list(
            job.scope, filter=Filter(**conditions), order=order, limit=limit, now=now
        )
        return page.memories

    async def _embed(self, job: Job) -> Job:
        if self._vectors is None or not await self._vectors.serves(job.model):
            raise ProviderUnavailable(
                f"This process has no embedder{f' {job.model!r}' if job.model else ''}."
            )
        some = partial(
            embed_some,
            self._store,
            self._vectors,
            job.scope,
            limit=MAX_EMBEDDED,
            refused=set[str](),
            clock=self._clock,
        )
        while True:
            try:
                if await some(job=(job.id, job.fence)) < MAX_EMBEDDED:
                    return job
            except Conflict:
                await self._still_ours(job)

    async def _consolidate(self, job: Job) -> Job:
        with metered() as meter:
            llm = self._providers.model(job) if job.model else self._providers.llm
            try:
                if job.session_id and llm is not None:
                    groups = await self._consolidation.session_groups(
                        job.scope, job.session_id, keep=int(job.payload.get("keep", 0))
                    )
                    await self._sum_up(job.scope, groups, llm)
                elif not job.session_id:
                    await self._merge(job.scope, llm)
                return await self._end(job, meter, Batch())
            except Conflict as error:
                await self._still_ours(job)
                raise StoreError(
                    "The scope changed while it was being consolidated; it will be tried again."
                ) from error
