"""The steps of one job, in their order; the last one commits everything at once.

Models are called outside any transaction. What they answered is planned against the scope as it is,
and applied only if the scope has not moved since; otherwise it is planned again, without asking the
extraction again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from ..concurrency import run_in_thread
from ..errors import Conflict, ModelError, ModelUnavailable, NotFound, StoreError
from ..models.llm import Llm, Meter, metered
from ..records import Change, Fact, Filter, Memory, Message, Scope
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some
from ..settings import MemorySettings
from ..stores import Store
from ..stores.base import SESSION_END, Batch, Job
from .consolidation.consolidator import Consolidation, Prepared
from .consolidation.similarity import slot_of
from .echoes import without_recalled
from .extraction import SummaryProvider, Transcript
from .extraction.facts import SESSION_SUMMARY, storable
from .kept_turns import keeps_turns, turns_of
from .providers import Providers, ProviderUnavailable
from .transcripts import from_payload, handed_in
from .worker import lease_seconds

logger = logging.getLogger(__name__)

REPLANS = 8
EARLIER_AT_MOST = 50
EMBED_AT_ONCE = 256
MAX_SLOTS = 30
"""Slots of a scope that the extraction prompt shows."""
SLOTS_AMONG = 200  # newest memories


@dataclass(frozen=True, slots=True)
class _Extracted:
    """Facts that a provider found in these events, and the turns kept beside them."""

    events: frozenset[str]
    facts: Sequence[Fact]
    turns: Sequence[Fact]
    echoed: Sequence[str]
    ended: bool


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
        extracted: _Extracted | None = None
        prepared: Prepared | None = None
        by_rule = False
        with metered() as meter:
            for _ in range(REPLANS):
                messages = from_payload(job.payload)
                ids = [message.event_id for message in messages]
                taken = await self._store.memories.taken(job.scope, job.session_id, ids)
                messages = [message for message in messages if message.event_id not in taken]
                events = frozenset(message.event_id for message in messages)
                if extracted is None or extracted.events != events:
                    extracted, prepared = await self._extract(job, provider, messages), None
                if prepared is None:
                    llm = self._providers.consolidator(job)
                    prepared = await self._consolidation.prepare(
                        job.scope, extracted.facts, llm=llm
                    )
                batch = await self._consolidation.plan(
                    job.scope,
                    prepared,
                    turns=extracted.turns,
                    by_rule=by_rule,
                    model=job.model,
                    ended=job.session_id if extracted.ended else "",
                )
                self._providers.bring(batch.jobs, prepared.llm)
                ends = [SESSION_END] if job.payload.get("ended") else []
                done = _costed(job, meter)
                batch = replace(
                    batch,
                    taken=[(job.session_id, event_id) for event_id in (*sorted(events), *ends)],
                    reinforced=await self._with_turns(
                        job.scope, (*batch.reinforced, *extracted.echoed)
                    ),
                    job=(job.id, job.fence),
                    calls=done.calls,
                    tokens=done.tokens,
                )
                try:
                    await self._store.apply(job.scope, batch, now=self._clock())
                except Conflict:
                    await self._still_ours(job)
                    # nothing moved: the model's own wish cannot be, such as a text that an expired
                    # memory has
                    by_rule = (
                        by_rule
                        or await self._store.memories.version(job.scope) == batch.expected_version
                    )
                    continue
                return done
        raise StoreError(
            "The scope kept changing while a session was being ingested; it will be tried again."
        )

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
        llm: Llm | None,
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
        if llm is None:
            return done
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

    async def _with_turns(self, scope: Scope, ids: Sequence[str]) -> Sequence[str]:
        """Return the ids of memories that were met again with those of their turns, which live as
        long.
        """
        if not ids:
            return ()
        held = await self._store.memories.get(scope, ids, now=self._clock())
        turns = (id for memory in held.values() for id in memory.source_ids)
        return tuple(dict.fromkeys((*ids, *turns)))

    async def _still_ours(self, job: Job) -> None:
        if not await self._store.queue.renew(job, lease_seconds=lease_seconds(job)):
            raise Conflict(f"This worker no longer holds the job {job.id}.")

    async def _extract(
        self, job: Job, provider: SummaryProvider, messages: Sequence[Message]
    ) -> _Extracted:
        now = self._clock()
        said = [message for message in messages if message.text.strip()]
        heard, echoed = await without_recalled(
            self._store.memories, job.scope, said, handed=handed_in(job.payload), now=now
        )
        ended = await self._ends(job, heard)
        long_term, short_term = await self._earlier(job, now) if ended else ((), ())
        earlier = [memory.content for memory in (*long_term, *short_term)]
        transcript = Transcript(
            messages=heard,
            session_id=job.session_id,
            ended=ended,
            earlier=tuple(earlier[:EARLIER_AT_MOST]),
            slots=await self._slots(job, now),
            now=now,
        )
        # what its summary outlives is among its sources
        before = tuple(event_id for memory in short_term for event_id in memory.event_ids)
        found = [
            replace(fact, event_ids=(*fact.event_ids, *before))
            if fact.attribute == SESSION_SUMMARY
            else fact
            for fact in (await provider.facts(transcript) if heard or ended else ())
        ]
        keeps = heard and keeps_turns(provider, self._settings)
        turns = await turns_of(transcript) if keeps else ()
        outputs = [message.text for message in said if message.role == "tool"]
        kept = partial(
            storable,
            messages=heard,
            outputs=(*outputs, *await self._outputs_before(job, now)),
            session_id=job.session_id,
            said_at=job.created_at,
            max_bytes=self._settings.max_content_bytes,
        )
        size = sum(map(len, outputs)) + sum(len(fact.text) for fact in (*found, *turns))
        facts, turns = await run_in_thread(size, lambda: (kept(found), kept(turns)))
        taken = frozenset(message.event_id for message in messages)
        return _Extracted(taken, facts, turns, echoed, ended)

    async def _ends(self, job: Job, heard: Sequence[Message]) -> bool:
        """Return True if a session ended with a job, and has no summary of all of it yet."""
        if heard or not job.payload.get("ended"):
            return bool(job.payload.get("ended"))
        return SESSION_END not in await self._store.memories.taken(
            job.scope, job.session_id, [SESSION_END]
        )

    async def _earlier(self, job: Job, now: datetime) -> tuple[Sequence[Memory], Sequence[Memory]]:
        """Return the long-term and the short-term memories of a job's session, oldest first."""
        of_session = Filter(session_id=job.session_id)
        long_term = await self._store.memories.list(
            job.scope, filter=of_session, order="oldest", limit=EARLIER_AT_MOST, now=now
        )
        newest_first = (
            await self._store.memories.short_term(
                job.scope, session_id=job.session_id, limit=EARLIER_AT_MOST, now=now
            )
            if self._settings.short_term_hours
            else ()
        )
        return long_term.memories, newest_first[::-1]

    async def _outputs_before(self, job: Job, now: datetime) -> tuple[str, ...]:
        """Return what tools said earlier in a job's session, where a quarantine asks for it."""
        if not (self._settings.quarantine and job.session_id):
            return ()
        of_tools = Filter(session_id=job.session_id, origins=("tool",))
        pages = [
            await self._store.memories.list(
                job.scope, filter=filter, order="newest", limit=EARLIER_AT_MOST, now=now
            )
            for filter in (of_tools, replace(of_tools, superseded="quarantined"))
        ]
        return tuple(memory.content for page in pages for memory in page.memories)

    async def _slots(self, job: Job, now: datetime) -> tuple[tuple[str, str], ...]:
        """Return the slots that the scope's newest memories fill, for a model whose facts are to
        meet them.
        """
        if not job.model and self._providers.llm is None:
            return ()
        page = await self._store.memories.list(
            job.scope, order="newest", limit=SLOTS_AMONG, now=now
        )
        slots = {
            slot_of(memory): (memory.subject, memory.attribute)
            for memory in page.memories
            if memory.subject and memory.attribute and not memory.is_summary
        }
        return tuple(slots.values())[:MAX_SLOTS]

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
            limit=EMBED_AT_ONCE,
            refused=set[str](),
            clock=self._clock,
        )
        while True:
            try:
                if await some(job=(job.id, job.fence)) < EMBED_AT_ONCE:
                    return job
            except Conflict:
                await self._still_ours(job)

    async def _consolidate(self, job: Job) -> Job:
        scope = job.scope
        with metered() as meter:
            llm = self._providers.model(job) if job.model else self._providers.llm
            try:
                if job.session_id:
                    groups = await self._consolidation.session_groups(
                        scope, job.session_id, keep=int(job.payload.get("keep", 0))
                    )
                    await self._sum_up(scope, groups, llm)
                else:
                    await self._merge(scope, llm)
                done = _costed(job, meter)
                end = Batch(job=(job.id, job.fence), calls=done.calls, tokens=done.tokens)
                await self._store.apply(scope, end, now=self._clock())
            except Conflict as error:
                await self._still_ours(job)
                raise StoreError(
                    "The scope changed while it was being consolidated; it will be tried again."
                ) from error
        return done


def _costed(job: Job, meter: Meter) -> Job:
    return replace(job, calls=job.calls + meter.calls, tokens=job.tokens + meter.tokens)
