"""The verbs that write: queue transcripts, and add and change memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from ..concurrency import LONG, SHORT, each_aside, run_in_thread
from ..errors import Conflict, InvalidInput, NotFound
from ..ingestion.editing import checked_fact, edited, superseding, taken_back
from ..ingestion.summaries import REUSING
from ..ingestion.transcripts import batch_key, prepared, to_payload
from ..records import (
    DROPPED,
    Change,
    ChangeKind,
    Fact,
    Memory,
    MemoryType,
    Message,
    Scope,
    Text,
    Time,
    new_id,
)
from ..redaction.personal_data import PersonalDataDropped
from ..retention.lifecycle import promoted, revised, to_memory
from ..stores.codec import event_ids_in, without_events
from ..stores.spaces import external_name
from ..stores.values import Batch, Job, last_change
from .opened import Opened
from .types import Llm, Minutes, SessionId, Vector, Who
from .verbs import verb


class Writing(Opened):
    """The verbs of `Memories` that write."""

    @verb("POST /sessions", durable=True)
    async def remember(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: SessionId,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: Minutes | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        """Queue a transcript durably; a worker ingests it.

        Args:
            scope: the scope of the new memories.
            messages: the session so far, or a part of it; ingested events are skipped.
            session_id: the session of the messages.
            ended: the session is over.
            save: False only arms the timer.
            end_after_minutes: (re)arm a durable timer: without another call in this time the
                session counts as ended, and its remaining messages are ingested.
            compaction: use the summaries of ADK's compaction; the provider gets only the rest.
            llm: the caller's model, used if none is configured; or its name, if the model is
                elsewhere. A server gets only the name, and a worker that can create the model
                ingests the transcript.

        Returns:
            The id of the job; None if there was nothing new.
        """
        with self.operation("upsert_memory", scope):
            # at least in a thread: masking recalled texts takes longer than the messages tell
            size = max(LONG, sum(len(str(message.text)) for message in messages))

            def written() -> Mapping[str, Any]:
                ready = prepared(
                    messages, session_id, self.redactors.save, self.settings.max_content_bytes
                )
                return to_payload(ready, ended=ended)

            payload = await run_in_thread(size, written)
            ingested = await self.store.memories.taken(
                scope, session_id, sorted(event_ids_in(payload))
            )
            payload = without_events(payload, ingested)
            if end_after_minutes is not None and not compaction:
                former = await self.store.queue.waiting(scope, "session_end", session_id)
                compaction = former is not None and former.provider.startswith(f"{REUSING}+")
            provider, model = self.providers.choose(scope, compaction=compaction, brought=llm)
            now = self.clock()
            job = Job(
                id=new_id(now),
                scope=scope,
                kind="transcript",
                session_id=session_id,
                key=batch_key(payload, session_id),
                payload=payload,
                provider=provider,
                model=model,
                run_after=now,
                created_at=now,
            )
            jobs = [job] if save and (payload["messages"] or ended) else []
            # the store adds these messages to waiting ones
            if end_after_minutes is not None:
                timer = replace(
                    job,
                    id=new_id(now),
                    kind="session_end",
                    key=session_id,
                    payload={**payload, "ended": True},
                    run_after=now + timedelta(minutes=end_after_minutes),
                )
                jobs.append(timer)
            await self.store.queue.enqueue(jobs)
        self.worker.wake(llm if isinstance(llm, str) else llm.name if llm else "")
        return job.id if job in jobs else None

    @verb("POST /sessions/end", durable=True)
    async def end_session(self, scope: Scope, session_id: SessionId) -> None:
        """Run the session's armed timer now; do nothing without one."""
        if timer := await self.store.queue.waiting(scope, "session_end", session_id):
            await self.store.queue.enqueue([replace(timer, run_after=self.clock())])
            self.worker.wake()

    @verb("POST /memories", durable=True)
    async def add(
        self,
        scope: Scope,
        items: Sequence[Fact | str],
        *,
        embedding: Sequence[Vector] | None = None,
        who: Who = "",
        replaces: str | None = None,
    ) -> list[str]:
        """Store memories as given, all or none; return when they are durable.

        Args:
            scope: the scope of the new memories.
            items: facts or plain texts. One that exists already gets its TTL anew.
            embedding: the caller's vectors, one for each item, with a multiple of 64 dimensions up
                to 4,096. They are kept apart from the embedder's.
            who: the name for the history.
            replaces: the id of the memory that the single item corrects; it becomes history.

        Returns:
            The ids in order; `DROPPED` for an item left out by `pii="drop"`.

        Raises:
            InvalidInput: an item or vector is invalid.
            NotFound: `replaces` names no memory.
            UnusableAnswer: the embedder answered NaN, zeros or another width. An unavailable
                embedder is no error: the memories are stored and embedded later.
            ConfigurationError: the store holds vectors of another embedder.
        """
        settings, now = self.settings, self.clock()

        def to_stored(item: Fact | str) -> Memory | None:
            with suppress(PersonalDataDropped):
                fact = checked_fact(
                    item, max_bytes=settings.max_content_bytes, redact=self.redactors.save
                )
                return to_memory(fact, settings, now=now, explicit=True)
            return None

        with self.operation("create_memory", scope) as span:
            stored = await each_aside(items, _size, to_stored)
            memories = [*filter(None, stored)]
            if not memories:
                return [DROPPED] * len(stored)
            changes: Sequence[Change] = [
                Change(kind="add", memory=memory, who=who, explicit=True) for memory in memories
            ]
            if replaces is not None:
                if len(memories) != 1:
                    raise InvalidInput("replaces= goes with exactly one item.")
                if memories[0].state == "quarantined":
                    raise InvalidInput(
                        "What waits to be confirmed (quarantine) replaces nothing; leave "
                        "replaces= out."
                    )
                old = await self.stored(scope, replaces)
                changes = superseding(old, memories[0], now=now, who=who)
            if embedding is None:
                applied = await self.embed_and_apply(scope, changes, now=now, strict=True)
            else:
                batch = await self._with_vectors(changes, stored, embedding)
                applied = await self.store.apply(scope, batch, now=now)
            remaining = iter(applied)
            ids = [DROPPED if memory is None else str(next(remaining)) for memory in stored]
            span.records(
                (id, memory.content, None) for id, memory in zip(ids, stored, strict=True) if memory
            )
            return ids

    async def _with_vectors(
        self,
        changes: Sequence[Change],
        memories: Sequence[Memory | None],
        embedding: Sequence[Vector],
    ) -> Batch:
        """Return the batch of changes with a caller's vectors, one for each item, also for items
        that are None.

        Raises:
            InvalidInput: the vectors differ in width, or in number from the items.
        """
        if len(embedding) != len(memories):
            raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
        width, *others = {*map(len, embedding)}
        if others:  # checked here, so that no space is made for a call that is refused
            raise InvalidInput("The vectors have different widths; add each width by itself.")
        space = await self.store.memories.spaces.add(external_name(width), width, None)
        return Batch(
            changes=changes,
            vectors={
                memory.id: vector
                for memory, vector in zip(memories, embedding, strict=True)
                if memory
            },
            space_number=space.number,
        )

    @verb("PATCH /memories/{id}", durable=True)
    async def edit(
        self,
        scope: Scope,
        id: str,
        *,
        content: str | None = None,
        type: MemoryType | None = None,
        topics: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        category: str | None = None,
        ttl_days: int | None = None,
        happened_at: Time | None = None,
        revision: int | None = None,
        who: Who = "",
        why: Text = "",
    ) -> Memory:
        """Change fields of a memory and keep the previous state in its history.

        Args:
            scope: the scope of the memory.
            id: the id of the memory.
            content: the text.
            type: the type of memory.
            topics: what the memory is about. They replace the former ones.
            tags: labels of your own. They replace the former ones.
            importance: 0 to 1.
            metadata: data of your own. It replaces the former.
            category: a label of your own beside the type. An empty one removes it.
            ttl_days: days to live from now; 0: forever.
            happened_at: when the event in it happened.
            revision: the revision to change; a later one is a conflict.
            who: the name for the history.
            why: the reason, for the history.

        Returns:
            The changed memory; unchanged if nothing differs.

        Raises:
            NotFound: no such memory.
            Conflict: it is no longer at `revision`, or would equal another memory.
            InvalidInput: a value is invalid, or none is given.
            UnusableAnswer: the embedder answered NaN, zeros or another width for the new content.
        """
        values = {
            "content": content,
            "type": type,
            "topics": topics,
            "tags": tags,
            "importance": importance,
            "metadata": metadata,
            "category": category,
            "ttl_days": ttl_days,
            "happened_at": happened_at,
        }
        changes = {name: value for name, value in values.items() if value is not None}
        if not changes:
            raise InvalidInput(f"Nothing to change was given: name {', '.join(values)}.")
        return await self._edited("edit", scope, id, changes, revision=revision, who=who, why=why)

    @verb("PUT /memories/{id}/pin", durable=True)
    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: Who = "") -> Memory:
        """Keep a memory from ever expiring, or release it; a released one that is overdue gets its
        TTL anew.

        Raises:
            NotFound: no such memory.
        """
        return await self._edited("pin", scope, id, {"pinned": pinned}, who=who)

    async def _edited(
        self,
        kind: ChangeKind,
        scope: Scope,
        id: str,
        values: Mapping[str, Any],
        *,
        revision: int | None = None,
        who: str,
        why: str = "",
    ) -> Memory:
        with self.operation("update_memory", scope):
            now = self.clock()
            old = await self.stored(scope, id)
            if revision is not None and revision != old.revision:
                raise Conflict(
                    f"The memory is at revision {old.revision}, not {revision}; read it again."
                )
            new = await run_in_thread(
                LONG,
                edited,
                old,
                values,
                now=now,
                max_bytes=self.settings.max_content_bytes,
                redact=self.redactors.save,
            )
            why = await run_in_thread(len(why), self.redactors.mask, why)
            if replace(new, updated_at=old.updated_at, revision=old.revision) == old:
                return old  # a change without effect leaves no trace in the history
            if old.state == "short_term":  # an edited memory is worth more than one session
                new = promoted(new, now)
            changes = [Change(kind=kind, memory=new, who=who, why=why)]
            if new.content != old.content or new.state != old.state:
                [stored_id] = await self.embed_and_apply(scope, changes, now=now, strict=True)
            else:
                [stored_id] = await self.store.apply(scope, Batch(changes=changes), now=now)
            # it became the long-term memory that says the same
            return new if stored_id in (None, id) else await self.stored(scope, stored_id)

    @verb("POST /memories/{id}/undo", durable=True)
    async def undo(self, scope: Scope, id: str, *, who: Who = "") -> tuple[Memory, ...]:
        """Undo the last change of a memory, with everything that the same decision changed, byte
        for byte.

        Undoing again goes one change further back, until nothing is left to undo; it never redoes a
        change.

        Raises:
            NotFound: no such memory, it has expired, or nothing is left to undo.
            Conflict: one of the memories has changed again since, or has expired.
        """
        memories, now = self.store.memories, self.clock()
        with self.operation("update_memory", scope):
            await self.stored(scope, id, superseded=True)
            last = last_change(await memories.history(scope, id))
            if last is None:
                raise NotFound(
                    "Nothing is left to undo: this memory is as it was when it was added."
                )
            decision = await memories.group(scope, last.group) if last.group else [last]
            ids = [revision.memory_id for revision in decision]
            # read before the histories, which then show any change made in between
            current = await memories.get(scope, ids, now=now, superseded=True)
            last_changes = [last_change(await memories.history(scope, id)) for id in ids]
            changes = taken_back(decision, current, last_changes, now=now, who=who)
            await self.embed_and_apply(scope, changes, now=now)
            return tuple(change.memory for change in changes)

    @verb("POST /memories/{id}/confirm", durable=True)
    async def confirm(self, scope: Scope, id: str, *, who: Who = "") -> Memory:
        """Release a memory from quarantine: it is found from now on, and its TTL starts now.

        `list(filter=Filter(superseded="quarantined"))` lists quarantined memories; see the setting
        `quarantine`.

        Returns:
            The confirmed memory. `undo` returns it to quarantine.

        Raises:
            NotFound: no memory with this id is quarantined, or it has expired.
            Conflict: another memory says the same now, or somebody else was first.
        """
        with self.operation("update_memory", scope):
            now = self.clock()
            active = revised(promoted(await self.stored(scope, id, quarantined=True), now), now=now)
            change = Change(kind="confirm", memory=active, who=who, why="confirmed", explicit=True)
            await self.embed_and_apply(scope, [change], now=now)
        return active

    @verb("POST /memories/{id}/feedback", durable=True)
    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        """Count that a memory helped or misled.

        Raises:
            NotFound: no such memory, or it has expired or was superseded.
        """
        await self.stored(scope, id)
        await self.deliveries.rate(scope, id, success=success)


def _size(item: Fact | str) -> int:
    """Return the approximate number of characters to check and mask: enough for a thread if the
    item may hold more than a text.
    """
    return len(item) if isinstance(item, str) else SHORT + 1 + len(str(item.text))
