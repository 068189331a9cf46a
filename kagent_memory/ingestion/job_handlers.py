"""Perform a job step by step; the last step commits everything at once.

Models are called outside any transaction. Their answers are planned against the current scope and
applied only if the scope has not changed; otherwise they are planned again, without a new
extraction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ..concurrency import LONG, run_in_thread
from ..errors import Conflict, KagentMemoryError, StoreError
from ..models.llm import Llm, Meter
from ..records import Change, Fact, Filter, Memory, Message, Scope
from ..retention.lifecycle import to_memory
from ..retention.prune import pages
from ..retrieval.embedding_spaces import StoreEmbedder, embed_some, with_vectors
from ..retrieval.similar import Near, current, neighbours
from ..retrieval.views import MAX_SHORT_TERM
from ..settings import MemorySettings
from ..stores import Store
from ..stores.codec import event_ids_in, without_events
from ..stores.planning import said, slot_of
from ..stores.values import EARLIEST, SESSION_END, WITH_SHORT_TERM, Batch, Job, MemoryQuery
from ..stores.view import MemoriesView
from .answers import SESSION_SUMMARY, Decision, storable
from .echoes import without_recalled
from .planner import MIN_REPLACED, Plan, decide
from .providers import Providers, ProviderUnavailable
from .sessions import kept_beside, source_changes, tiered
from .summary_provider import PassthroughSummary, SummaryProvider, Transcript
from .transcripts import from_payload
from .worker import lease_seconds

logger = logging.getLogger(__name__)

REPLANS = 8
MAX_EARLIER = 50
MAX_EMBEDDED = 256
MAX_SHORT_TERM_READ = 1000
MIN_SUMMED_UP = 25
"""Short-term memories after which a session is summed up before it ends."""
MAX_SLOTS = 30
"""Slots of a scope in the extraction prompt."""
SLOTS_AMONG = 200  # newest memories that are searched for slots


@dataclass(frozen=True, slots=True)
class Learnt:
    """Memories learned by a job, with their neighbours and decisions; the batch is planned from it
    again whenever the scope changes.

    Attributes:
        new: the rows that the facts would become.
        near: index into `new` → similar memories, as found at first.
        decided: index into `new` → the model's decision.
        turns: the turns to keep as the sources of the facts.
    """

    new: Sequence[Memory]
    near: Near
    decided: Mapping[int, Decision]
    turns: Sequence[Fact]


@dataclass(frozen=True)
class JobHandlers:
    """Perform claimed jobs."""

    store: Store
    vectors: StoreEmbedder | None
    providers: Providers
    settings: MemorySettings
    clock: Callable[[], datetime]

    async def run(self, job: Job, meter: Meter) -> None:
        """Perform one job to its end.

        Args:
            job: a claimed job.
            meter: counts its calls of models.

        Raises:
            ProviderUnavailable: its provider or model is unknown here.
            Conflict: another worker has the job.
            ModelError: the model is unavailable; the job is to be tried again.
            StoreError: the database is unavailable, or the scope kept changing.
        """
        if job.kind == "embed":
            await self._embed(job)
            return
        memories, provider = self.store.memories, self.providers.find(job)
        ids = event_ids_in(job.payload)
        ingested_ids = await memories.taken(job.scope, job.session_id, sorted(ids))
        new = without_events(job.payload, ingested_ids)
        learnt = await self._learn(job, provider, await run_in_thread(LONG, from_payload, new))
        events = sorted(ids - ingested_ids)
        ends = [SESSION_END] if job.payload.get("ended") else []
        for _ in range(REPLANS):
            batch = replace(
                await self._plan(job, learnt),
                taken=[(job.session_id, id) for id in (*events, *ends)],
                job=(job.id, job.fence),
                calls=job.calls + meter.calls,
                tokens=job.tokens + meter.tokens,
            )
            try:
                await self.store.apply(job.scope, batch, now=self.clock())
                return
            except Conflict:
                await self._still_ours(job)
                if await memories.taken(job.scope, job.session_id, events):
                    await self.run(job, meter)
                    return
                # the scope is unchanged: the model's decision itself conflicts, for example by the
                # text of an expired memory
                if await memories.version(job.scope) == batch.expected_version:
                    learnt = replace(learnt, decided={})
        raise StoreError(
            "The scope kept changing while a session was being ingested; it will be tried again."
        )

    async def _still_ours(self, job: Job) -> None:
        if not await self.store.queue.renew(job, lease_seconds=lease_seconds(job)):
            raise Conflict(f"This worker no longer holds the job {job.id}.")

    async def _learn(
        self, job: Job, provider: SummaryProvider, messages: Sequence[Message]
    ) -> Learnt:
        """Extract facts from new messages, and compare them with the scope."""
        now, settings = self.clock(), self.settings
        utterances = [message for message in messages if message.text.strip()]
        news, repeats = await without_recalled(self.store.memories, job.scope, utterances, now=now)
        transcript = await self._transcript(job, news, now)
        extracted = await provider.facts(transcript) if news or transcript.ended else ()
        turns: Sequence[Fact] = ()
        # with short-term memory, a session's content is not yet visible to all
        keeps_turns = settings.keep_turns and not settings.short_term_hours
        if news and keeps_turns and getattr(provider, "keeps_turns", False):
            turns = await PassthroughSummary().facts(
                replace(transcript, messages=[each for each in news if each.role != "tool"])
            )
        outputs = [message.text for message in utterances if message.role == "tool"]
        outputs += [memory.content for memory in transcript.earlier if memory.origin == "tool"]
        if settings.quarantine and job.session_id:  # earlier output of tools may be repeated
            for state in (False, "quarantined"):
                told = await self._newest(
                    job.scope, now, origins=("tool",), session_id=job.session_id, superseded=state
                )
                outputs += [memory.content for memory in told]

        def rows() -> tuple[list[Memory], list[Fact]]:
            facts, kept = (
                storable(
                    given,
                    transcript,
                    outputs=outputs,
                    said_at=job.created_at,
                    max_bytes=settings.max_content_bytes,
                )
                for given in (extracted, turns)
            )
            new = [to_memory(fact, settings, now=now) for fact in facts]
            return kept_beside(new, repeats) if keeps_turns else new, kept

        new, turns = await run_in_thread(LONG, rows)
        near, decided = await self._meet(job.scope, new, self.providers.llm or transcript.llm, now)
        return Learnt(new, near, decided, turns)

    async def _transcript(self, job: Job, news: Sequence[Message], now: datetime) -> Transcript:
        """Return the input of a provider: the new messages of a session, and its known facts."""
        ended = bool(job.payload.get("ended"))
        if ended and not news:  # the session may be summed up already
            ended = not await self.store.memories.taken(job.scope, job.session_id, [SESSION_END])
        is_summed_up = ended or (job.session_id and self.settings.short_term_hours)
        earlier = await self._earlier(job, now) if is_summed_up else ()
        states = [memory.state for memory in earlier if not memory.verbatim]
        slots: dict[str | None, tuple[str, str]] = {}
        if job.model or self.providers.llm is not None:  # only a model's facts use them
            for memory in await self._newest(job.scope, now, limit=SLOTS_AMONG):
                if memory.subject and memory.attribute and not memory.is_summary:
                    slots[slot_of(memory)] = memory.subject, memory.attribute
        return Transcript(
            messages=news,
            session_id=job.session_id,
            ended=ended or states.count("short_term") >= MIN_SUMMED_UP,
            earlier=earlier,
            slots=tuple(slots.values())[:MAX_SLOTS],
            llm=self.providers.model(job),
            now=now,
        )

    async def _earlier(self, job: Job, now: datetime) -> tuple[Memory, ...]:
        """Return the last summary of a session and the memories learned since, oldest first."""
        scope, id = job.scope, job.session_id
        newest = [
            *await self._short_term(scope, now, session_id=id, limit=MAX_SHORT_TERM),
            *await self._newest(scope, now, session_id=id),
        ]
        last = [memory for memory in newest if memory.attribute == SESSION_SUMMARY][:1]
        since = max((memory.created_at for memory in last), default=EARLIEST)
        later = (memory for memory in newest if memory not in last and memory.created_at >= since)
        return (*last, *sorted(later, key=lambda memory: (memory.created_at, memory.id)))

    async def _newest(
        self, scope: Scope, now: datetime, *, limit: int = MAX_EARLIER, **conditions: Any
    ) -> Sequence[Memory]:
        """Return the newest memories of a scope that match the conditions of a `Filter`."""
        query = MemoryQuery(filter=Filter(**conditions), limit=limit, now=now)
        return await self.store.memories.select(scope, query)

    async def _short_term(
        self, scope: Scope, now: datetime, *, limit: int = MAX_SHORT_TERM_READ, **conditions: Any
    ) -> Sequence[Memory]:
        """Return the newest short-term memories of a scope; none if the settings disable them."""
        if not self.settings.short_term_hours:
            return ()
        return await self._newest(scope, now, limit=limit, superseded="short_term", **conditions)

    async def _meet(
        self, scope: Scope, new: Sequence[Memory], llm: Llm | None, now: datetime
    ) -> tuple[Near, Mapping[int, Decision]]:
        """Return the neighbours of new rows, and the model's decisions about them; if the model
        fails, the rows are added undecided.
        """
        places = [
            place
            for place, memory in enumerate(new)
            if not memory.verbatim and memory.state == "active"
        ]
        if not places:
            return {}, {}
        memories, short_term = self.store.memories, await self._short_term(scope, now)
        facts = [new[place] for place in places]
        view = await memories.view(scope, now=now)
        found = [await neighbours(view, self.vectors, facts)]
        if short_term:
            brief = await MemoriesView.of(
                memories, scope, short_term, states=WITH_SHORT_TERM, now=now
            )
            found.append(await neighbours(brief, None, facts))
        near = {
            place: [pair for similar in found for pair in similar[number]]
            for number, place in enumerate(places)
        }
        context = await current(memories, scope, new, near, others=short_term, now=now)
        try:
            return near, await decide(new, context, llm)
        except KagentMemoryError as error:  # keep the facts: extracting them again costs calls
            logger.warning("%d new fact(s) are added undecided: %s", len(new), error)
            return near, {}

    async def _plan(self, job: Job, learnt: Learnt) -> Batch:
        """Return the batch of what a job learned, planned on the current version of the scope."""
        scope, settings, memories = job.scope, self.settings, self.store.memories
        now, version = self.clock(), await memories.version(scope)
        short_term = await self._short_term(scope, now)
        repeated_ids = [id for row in learnt.new for id in row.links]
        present = (
            await memories.get(scope, repeated_ids, now=now)
            if repeated_ids
            else dict[str, Memory]()
        )
        rows = [  # what repeats a memory that was forgotten meanwhile is one itself
            replace(row, state="active", links=())
            if row.state == "source" and present.keys().isdisjoint(row.links)
            else row
            for row in learnt.new
        ]
        new = tiered(rows, short_term, hours=settings.short_term_hours, now=now)
        near = await current(memories, scope, new, learnt.near, others=short_term, now=now)
        visible = (await self.store.stats(scope, now=now)).visible if any(near.values()) else 0

        history = list[Memory]()
        if any(said(memory) > said(new[n]) for n, similar in near.items() for memory, _ in similar):
            async for page in pages(memories, scope, Filter(superseded="only"), now=now):
                history += page
        plan = Plan(now=now, replaceable=max(MIN_REPLACED, visible // 10), history=history)

        def planned() -> Sequence[Change]:
            plan.take(new, near, learnt.decided)
            return source_changes(learnt.turns, new, plan.same, settings=settings, now=now)

        sources = await run_in_thread(LONG, planned)
        if plan.replaceable < 0:
            logger.warning(
                "%d memories beyond the limit of a job stay beside new facts.", -plan.replaceable
            )
        batch = Batch(
            changes=(*sources, *plan.changes),  # turns first, side by side in their session
            reinforced=sorted(plan.reinforced),
            expected_version=version,
        )
        return await with_vectors(self.vectors, scope, batch, now)

    async def _embed(self, job: Job) -> None:
        if self.vectors is None or not await self.vectors.serves(job.model):
            raise ProviderUnavailable(
                f"This process has no embedder{f' {job.model!r}' if job.model else ''}."
            )
        refused, count = set[str](), MAX_EMBEDDED
        while count == MAX_EMBEDDED:
            try:
                count = await embed_some(
                    self.store,
                    self.vectors,
                    job.scope,
                    limit=MAX_EMBEDDED,
                    refused=refused,
                    clock=self.clock,
                    job=(job.id, job.fence),
                )
            except Conflict:
                await self._still_ours(job)
