"""The steps of one job, in the order of the write river; the last one commits everything at once.

Models are called outside any transaction. What they answered is planned against the scope as it is, and applied only if
the scope has not moved since; otherwise it is planned again, without asking the extraction again.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from ..concurrency import run_in_thread
from ..errors import Conflict, NotFound, StoreError
from ..models.llm import Meter, metered
from ..records import Change, Fact, Filter, Message, Scope
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some
from ..settings import MemorySettings
from ..stores.base import SESSION_END, Batch, Job, Store
from .consolidation import slot_of
from .consolidator import Consolidation, Prepared
from .extraction import SummaryProvider, Transcript
from .fact_validation import storable
from .leases import LEASE_SECONDS
from .payload import from_payload, handed_in
from .providers import Providers, ProviderUnavailable
from .recalled_filter import without_recalled

logger = logging.getLogger(__name__)

REPLANS = 8
EARLIER_AT_MOST = 50
EMBED_AT_ONCE = 256
MAX_SLOTS = 30
"""Slots of a scope that the extraction prompt shows."""
SLOTS_AMONG = 200  # newest memories


@dataclass(frozen=True, slots=True)
class _Extracted:
    """What a provider found in exactly these events."""

    events: frozenset[str]
    facts: Sequence[Fact]
    echoed: Sequence[str]


class JobHandlers:
    """Performs claimed jobs."""

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
        """Performs one job to its end and gives it back with its costs.

        Raises:
            ProviderUnavailable: its provider or model is unknown here.
            Conflict: another worker has the job.
            ModelError: the model is unavailable; the job is to be tried again.
            StoreError: the database is unavailable, or the scope kept moving.
        """
        if job.kind == "embed":
            return await self._embed(job)
        if job.kind == "consolidate":
            return await self._merge(job)
        provider = self._providers.find(job)
        extracted: _Extracted | None = None
        prepared: Prepared | None = None
        by_rule = False
        with metered() as meter:
            for _ in range(REPLANS):
                messages = from_payload(job.payload)
                ids = [message.event_id for message in messages]
                taken = await self._store.taken(job.scope, job.session_id, ids)
                messages = [message for message in messages if message.event_id not in taken]
                events = frozenset(message.event_id for message in messages)
                if extracted is None or extracted.events != events:
                    extracted, prepared = await self._extract(job, provider, messages), None
                if prepared is None:
                    llm = self._providers.consolidator(job)
                    prepared = await self._consolidation.prepare(job.scope, extracted.facts, llm=llm)
                batch = await self._consolidation.plan(job.scope, prepared, by_rule=by_rule, model=job.model)
                self._providers.bring(batch.jobs, prepared.llm)
                ends = [SESSION_END] if job.payload.get("ended") else []
                done = _costed(job, meter)
                batch = replace(
                    batch,
                    taken=[(job.session_id, event_id) for event_id in (*sorted(events), *ends)],
                    reinforced=tuple(dict.fromkeys((*batch.reinforced, *extracted.echoed))),
                    job=(job.id, job.fence),
                    calls=done.calls,
                    tokens=done.tokens,
                )
                try:
                    await self._store.apply(job.scope, batch, now=self._clock())
                except Conflict:
                    await self._still_ours(job)
                    # nothing moved: the model's own wish cannot be, such as a text that an expired memory has
                    by_rule = by_rule or await self._store.version(job.scope) == batch.expected_version
                    continue
                return done
        raise StoreError("The scope kept changing while a session was being ingested; it will be tried again.")

    async def consolidate(self, scope: Scope, *, dry_run: bool = False) -> tuple[Change, ...]:
        """Merges what says the same in a scope, and sums up what is old; see `Memories.consolidate`."""
        llm = self._providers.llm
        batch = await self._consolidation.merges(scope, llm, saved=True)
        if batch.changes and not dry_run:
            await self._store.apply(scope, batch, now=self._clock())
        merged = {change.memory.id for change in batch.changes}
        summaries = self._consolidation.summaries(scope, llm, saved=True, without=merged)
        return (*batch.changes, *await self._sum_up(scope, summaries, dry_run=dry_run))

    async def _sum_up(self, scope: Scope, summaries: AsyncIterable[Batch], *, dry_run: bool = False) -> list[Change]:
        """Puts each summary in the place of its group, unless somebody changed that meanwhile; gives the changes."""
        done: list[Change] = []
        async for summary in summaries:
            try:
                if not dry_run:
                    await self._store.apply(scope, summary, now=self._clock())
            except (Conflict, NotFound) as error:
                logger.info("Old memories were not summarised, because one of them changed meanwhile: %s", error)
            else:
                done += summary.changes
        return done

    async def _still_ours(self, job: Job) -> None:
        if not await self._store.renew(job, lease_seconds=LEASE_SECONDS):
            raise Conflict(f"This worker no longer holds the job {job.id}.")

    async def _extract(self, job: Job, provider: SummaryProvider, messages: Sequence[Message]) -> _Extracted:
        now = self._clock()
        handed = handed_in(job.payload)
        heard, echoed = await without_recalled(self._store, job.scope, messages, handed=handed, now=now)
        ended = bool(job.payload.get("ended"))
        if ended and not any(message.text.strip() for message in heard):
            # a session that ended before and in which nothing was said since has its summary, which costs a call
            ended = SESSION_END not in await self._store.taken(job.scope, job.session_id, [SESSION_END])
        earlier: tuple[str, ...] = ()
        if ended:
            session = Filter(session_id=job.session_id)
            page = await self._store.list(job.scope, filter=session, order="oldest", limit=EARLIER_AT_MOST, now=now)
            earlier = tuple(memory.content for memory in page.memories)
            if self._settings.short_term_hours:
                held = await self._store.short_term(
                    job.scope, session_id=job.session_id, limit=EARLIER_AT_MOST, now=now
                )
                earlier = (*earlier, *(memory.content for memory in reversed(held)))[:EARLIER_AT_MOST]
        slots = await self._slots(job.scope, now) if job.model or self._providers.llm is not None else ()
        transcript = Transcript(
            messages=heard, session_id=job.session_id, ended=ended, earlier=earlier, slots=slots, now=now
        )
        extracted_facts = await provider.facts(transcript) if heard or ended else ()
        kept = partial(
            storable,
            extracted_facts,
            session_id=job.session_id,
            sources={message.event_id: message.at for message in heard},
            said_at=job.created_at,
            max_bytes=self._settings.max_content_bytes,
        )
        facts = await run_in_thread(sum(len(fact.text) for fact in extracted_facts), kept)
        return _Extracted(frozenset(message.event_id for message in messages), facts, echoed)

    async def _slots(self, scope: Scope, now: datetime) -> tuple[tuple[str, str], ...]:
        """Return the slots that the newest memories of a scope fill, so that new facts meet them."""
        page = await self._store.list(scope, order="newest", limit=SLOTS_AMONG, now=now)
        slots = {
            slot_of(memory): (memory.subject, memory.attribute)
            for memory in page.memories
            if memory.subject and memory.attribute and not memory.is_summary
        }
        return tuple(slots.values())[:MAX_SLOTS]

    async def _embed(self, job: Job) -> Job:
        if self._vectors is None or not await self._vectors.serves(job.model):
            raise ProviderUnavailable(f"This process has no embedder{f' {job.model!r}' if job.model else ''}.")
        some = partial(embed_some, self._store, self._vectors, job.scope, limit=EMBED_AT_ONCE, clock=self._clock)
        while True:
            try:
                if await some(job=(job.id, job.fence)) < EMBED_AT_ONCE:
                    return job
            except Conflict:
                await self._still_ours(job)

    async def _merge(self, job: Job) -> Job:
        with metered() as meter:
            llm = self._providers.model(job) if job.model else self._providers.llm
            batch = await self._consolidation.merges(job.scope, llm)
            try:
                if self._settings.summarize_after_days:
                    # what is merged stands, whatever becomes of the summaries
                    await self._store.apply(job.scope, batch, now=self._clock())
                    await self._sum_up(job.scope, self._consolidation.summaries(job.scope, llm))
                    batch = Batch()
                done = _costed(job, meter)
                batch = replace(batch, job=(job.id, job.fence), calls=done.calls, tokens=done.tokens)
                await self._store.apply(job.scope, batch, now=self._clock())
            except Conflict as error:
                await self._still_ours(job)
                raise StoreError(
                    "The scope changed while it was being consolidated; it will be tried again."
                ) from error
        return done


def _costed(job: Job, meter: Meter) -> Job:
    return replace(job, calls=job.calls + meter.calls, tokens=job.tokens + meter.tokens)
