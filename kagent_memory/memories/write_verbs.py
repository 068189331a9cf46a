"""The verbs of the write river."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, TypeAlias, cast

from .. import telemetry
from ..concurrency import PORTION, each_aside, run_in_thread
from ..errors import Conflict, InvalidInput, NotFound
from ..ingestion.editing import Edit, checked_fact, edited, last_change, superseding, taken_back
from ..models.llm import Llm
from ..records import Change, Fact, Memory, MemoryType, Message, Scope, Vector
from ..retention.lifecycle import to_memory
from ..retrieval.embedding_spaces import with_vectors
from ..stores.base import Batch, checked_vector
from .components import Components

Items: TypeAlias = Sequence[Fact | str]


class WriteVerbs:
    """Remember, add, edit, pin, forget, undo, feedback."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts

    async def remember(
        self,
        scope: Scope,
        messages: Sequence[Message],
        session_id: str,
        *,
        ended: bool = False,
        save: bool = True,
        end_after_minutes: float | None = None,
        compaction: bool = False,
        llm: Llm | str | None = None,
    ) -> str | None:
        """Queues a transcript and returns when that is durable; the worker takes it in.

        Args:
            scope: whose.
            messages: all of the session so far, or some of it; events taken in before are left out.
            session_id: the session they belong to.
            ended: the session is over.
            save: False only arms the timer.
            end_after_minutes: (re)arms a durable timer: after so long without another call the session counts as
                ended and what was not taken in by then is.
            compaction: uses the summaries that ADK's compaction made; the provider gets only the rest.
            llm: the model at hand when none is configured; its name, where the model itself is elsewhere: a worker that
                can make it of its name takes the transcript in.

        Returns:
            The job's id; None when there was nothing new.
        """
        with telemetry.operation("upsert_memory", store=self._parts.location, scope_app=scope.app):
            job = await self._parts.intake.queue(
                scope,
                messages,
                session_id,
                ended=ended,
                save=save,
                end_after_minutes=end_after_minutes,
                compaction=compaction,
                llm=llm,
            )
        self._parts.worker.wake(llm if isinstance(llm, str) else llm.name if llm else "")
        return job

    async def end_session(self, scope: Scope, session_id: str) -> None:
        """Runs the session's armed timer now; harmless without one."""
        await self._parts.intake.end_session(scope, session_id)
        self._parts.worker.wake()

    async def add(
        self,
        scope: Scope,
        items: Items,
        *,
        embedding: Sequence[Vector] | None = None,
        generation: str | None = None,
        who: str = "",
        replaces: str | None = None,
        max_bytes: int | None = None,
    ) -> list[str]:
        """Stores memories as given, whole or not at all; returns when they are durable.

        Args:
            scope: whose.
            items: facts or bare texts. One that is there already is revived and its id returned.
            embedding: vectors the caller brings, one an item.
            generation: the embedder that made them, if the store holds vectors of it; else they are kept apart, as
                "external-<width>": the default, but for a scope that holds others of another width only. A tenant's
                callers may bring 8 widths, and kagent's 768 beside them.
            who: for the history.
            replaces: the id of the memory that the single item corrects; it stays as history.
            max_bytes: the longest content, and the longest metadata; None: the setting `max_content_bytes`.

        Returns:
            The ids, in order.

        Raises:
            InvalidInput: an item or vector does not fit.
            NotFound: `replaces` names no memory.
            UnusableAnswer: the embedder answered NaN, zeros or another width. An unavailable one is not an error: the
                memories are stored, and embedded later.
            ConfigurationError: the embedder is not the one whose vectors the store holds.
        """
        with telemetry.operation("create_memory", store=self._parts.location, scope_app=scope.app) as seen:
            now, items = self._parts.clock(), list(items)
            most = self._parts.settings.max_content_bytes if max_bytes is None else max_bytes
            memories = await each_aside(items, _weight, partial(self._made, now=now, max_bytes=most))
            if not memories:
                return []
            if replaces is None:
                changes = [Change(kind="add", memory=memory, who=who, explicit=True) for memory in memories]
            else:
                changes = await self._replacing(scope, memories, replaces, now, who)
            batch = Batch(changes=changes)
            if embedding is None:
                batch = await with_vectors(self._parts.vectors, scope, batch, now, strict=True)
            else:
                batch = await self._with_external(scope, batch, memories, embedding, generation)
            applied = await self._parts.store.apply(scope, batch, now=now)
            if any(job.run_after <= now for job in batch.jobs):
                self._parts.worker.wake()
            ids = [str(id) for id in applied.ids[: len(memories)]]
            seen.records((id, memory.content, None) for id, memory in zip(ids, memories, strict=True))
            return ids

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
        ttl_days: int | None = None,
        happened_at: datetime | None = None,
        revision: int | None = None,
        who: str = "",
        why: str = "",
    ) -> Memory:
        """Sets what is given and keeps the former state in the history; a new TTL counts from now.

        Returns:
            The memory as it is then; as it was when that is no change.

        Raises:
            NotFound: no such memory.
            Conflict: it is no longer at `revision`, or would equal another memory.
            InvalidInput: a value does not fit, or none is given.
            UnusableAnswer: the embedder answered NaN, zeros or another width for the new content.
        """
        edit = Edit(
            content=content,
            type=type,
            topics=topics,
            tags=tags,
            importance=importance,
            metadata=metadata,
            ttl_days=ttl_days,
            happened_at=happened_at,
        )
        if edit == Edit():
            raise InvalidInput(
                "Nothing to change was given: name content, type, topics, tags, importance, metadata, ttl_days or "
                "happened_at."
            )
        return await self._edit(scope, id, edit, kind="edit", revision=revision, who=who, why=why)

    async def pin(self, scope: Scope, id: str, pinned: bool = True, *, who: str = "") -> Memory:
        """Keeps a memory from ever expiring, or lets it go again; one whose time is over by then lives its TTL anew.

        Raises:
            NotFound: no such memory.
        """
        return await self._edit(scope, id, Edit(pinned=pinned), kind="pin", revision=None, who=who, why="")

    async def forget(
        self,
        scope: Scope,
        ids: Sequence[str] | str = (),
        *,
        session_id: str | None = None,
        everything: bool = False,
    ) -> tuple[str, ...]:
        """Erases memories for good, with their history and what is queued of them; gives the erased ids.

        Raises:
            NotFound: one of the given ids is not there; the others are erased all the same.
        """
        wanted = (ids,) if isinstance(ids, str) else tuple(ids)
        with telemetry.operation("delete_memory", store=self._parts.location, scope_app=scope.app):
            erased = await self._parts.store.forget(
                scope, ids=wanted, session_id=session_id, everything=everything, now=self._parts.clock()
            )
        if missing := sorted(set(wanted) - set(erased)):
            raise NotFound(f"No memory {', '.join(missing)} in this scope.")
        return erased

    async def undo(self, scope: Scope, id: str, *, who: str = "") -> tuple[Memory, ...]:
        """Takes back the last change of a memory, with all that the same decision changed; byte for byte.

        Undoing again goes one change further back, until nothing is left to undo; it never redoes what was undone.

        Raises:
            NotFound: no such memory, it has expired, or nothing is left to undo.
            Conflict: one of the memories was changed again since, or it has expired.
        """
        with telemetry.operation("update_memory", store=self._parts.location, scope_app=scope.app):
            await self._parts.get(scope, id, superseded=True)
            store, now = self._parts.store, self._parts.clock()
            last = last_change(await store.history(scope, id))
            if last is None:
                raise NotFound("Nothing is left to undo: this memory is as it was when it was added.")
            decision = await store.group(scope, last.group) if last.group else [last]
            undone: dict[str, int] = {}
            for revision in decision:
                history = await store.history(scope, revision.memory_id)
                latest = last_change(history)
                if latest is not None and latest.revision == revision.revision:
                    undone[revision.memory_id] = sum(other.revision > revision.revision for other in history)
            current = await store.get(scope, [revision.memory_id for revision in decision], now=now, superseded=True)
            changes = taken_back(decision, current, now=now, who=who, undone=undone)
            batch = await with_vectors(self._parts.vectors, scope, Batch(changes=changes), now)
            await self._parts.store.apply(scope, batch, now=now)
            return tuple(change.memory for change in changes)

    async def feedback(self, scope: Scope, id: str, *, success: bool) -> None:
        """Counts that a memory helped, or that it misled.

        Raises:
            NotFound: no such memory, or it has expired or was superseded.
        """
        await self._parts.get(scope, id)
        await self._parts.store.feedback(scope, id, success=success)

    # -- inside

    def _made(self, item: Fact | str, *, now: datetime, max_bytes: int) -> Memory:
        fact = checked_fact(item, max_bytes=max_bytes, redact=self._parts.redact)
        return to_memory(fact, now=now, ttl_days=self._parts.settings.ttl_days, explicit=True)

    async def _replacing(
        self, scope: Scope, memories: Sequence[Memory], replaced: str, now: datetime, who: str
    ) -> list[Change]:
        if len(memories) != 1:
            raise InvalidInput("replaces= goes with exactly one item.")
        old = await self._parts.get(scope, replaced)
        return superseding(old, memories[0], now=now, who=who, why="replaced by its author")

    async def _edit(
        self,
        scope: Scope,
        id: str,
        edit: Edit,
        *,
        kind: Literal["edit", "pin"],
        revision: int | None,
        who: str,
        why: str,
    ) -> Memory:
        with telemetry.operation("update_memory", store=self._parts.location, scope_app=scope.app):
            now = self._parts.clock()
            old = await self._parts.get(scope, id)
            if revision is not None and revision != old.revision:
                raise Conflict(f"The memory is at revision {old.revision}, not {revision}; read it again.")
            most = self._parts.settings.max_content_bytes
            make = partial(edited, old, edit, now=now, max_bytes=most, redact=self._parts.redact)
            new = await run_in_thread(_weight(edit.content, edit.metadata), make)
            if replace(new, updated_at=old.updated_at, revision=old.revision) == old:
                return old  # what changes nothing leaves no trace in the history
            batch = Batch(changes=[Change(kind=kind, memory=new, who=who, why=why)])
            if new.content != old.content:
                batch = await with_vectors(self._parts.vectors, scope, batch, now, strict=True)
            await self._parts.store.apply(scope, batch, now=now)
            return new

    async def _with_external(
        self, scope: Scope, batch: Batch, memories: Sequence[Memory], embedding: Sequence[Vector], name: str | None
    ) -> Batch:
        if len(embedding) != len(memories):
            raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
        first = checked_vector(embedding[0], None)
        given = [checked_vector(vector, len(first)) for vector in embedding]
        made = await self._parts.generation_for(scope, name, first)
        vectors = {memory.id: vector for memory, vector in zip(memories, given, strict=True)}
        return replace(batch, vectors=vectors, generation=made.number)


def _weight(*values: object) -> int:
    """About how many characters are read when these are checked and masked; stops counting once they are many."""
    weight, left = 0, list(values)
    while left and weight <= PORTION * 8:
        value = left.pop()
        match value:
            case str() as text:
                weight += len(text)
            case Fact() as fact:
                left += (fact.text, fact.subject, fact.attribute, fact.topics, fact.tags, fact.event_ids, fact.metadata)
            case Mapping():
                pairs = cast("Mapping[object, object]", value)
                left += pairs.values()
                weight += 50 * len(pairs)
            case list() | tuple():
                left += cast("Sequence[object]", value)
            case _:
                weight += 10
    return weight
