"""Adds and changes single memories: masked and checked off the loop, embedded, and written in one
transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from .. import telemetry
from ..concurrency import PORTION, each_aside, run_in_thread
from ..errors import Conflict, InvalidInput, NotFound
from ..ingestion.editing import edited, kept_fact, last_change, superseding, taken_back
from ..records import DROPPED, Change, Fact, Memory, Scope, Vector
from ..retention.lifecycle import promoted, to_memory, ttl_days_of
from ..retrieval.embedding_spaces import with_vectors
from ..stores.base import Batch
from ..stores.codec import renewed

if TYPE_CHECKING:
    from .components import Components

NOTHING_GIVEN = (
    "Nothing to change was given: name content, type, category, topics, tags, importance, "
    "metadata, ttl_days or "
    "happened_at."
)


class Editor:
    """Writes what callers say explicitly; see the verbs of `Memories`."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts

    async def add(
        self,
        scope: Scope,
        items: Sequence[Fact | str],
        *,
        embedding: Sequence[Vector] | None = None,
        embedding_space: str | None = None,
        who: str = "",
        replaces: str | None = None,
        max_bytes: int | None = None,
    ) -> list[str]:
        """Store memories as given, with vectors that are made or brought; `max_bytes`: instead of
        the setting.
        """
        parts, who = self._parts, self._parts.masked_name(who, "who")
        with telemetry.operation(
            "create_memory", store=parts.location, scope_app=scope.app
        ) as span:
            now = parts.clock()
            to_stored = partial(
                self._to_memory, now=now, max_bytes=max_bytes or parts.settings.max_content_bytes
            )
            stored = await each_aside(items, text_size, to_stored)
            memories = [memory for memory in stored if memory is not None]
            if not memories:
                return [DROPPED] * len(stored)
            if replaces is None:
                changes = [
                    Change(kind="add", memory=memory, who=who, explicit=True) for memory in memories
                ]
            else:
                changes = await self._replacing(scope, replaces, memories, now=now, who=who)
            batch = Batch(changes=changes)
            if embedding is None:
                parts.caller_vectors.check_own_space(embedding_space, parts.own_space)
                batch = await with_vectors(parts.vectors, scope, batch, now, strict=True)
            else:
                batch = await parts.caller_vectors.added_to(
                    batch, scope, stored, embedding, embedding_space
                )
            applied = await parts.store.apply(scope, batch, now=now)
            if any(job.run_after <= now for job in batch.jobs):
                parts.worker.wake()
            ids = [str(id) for id in applied.ids[: len(memories)]]
            span.records(
                (id, memory.content, None) for id, memory in zip(ids, memories, strict=True)
            )
            left = iter(ids)
            return [DROPPED if memory is None else next(left) for memory in stored]

    def _to_memory(self, item: Fact | str, *, now: datetime, max_bytes: int) -> Memory | None:
        settings = self._parts.settings
        fact = kept_fact(item, max_bytes=max_bytes, redact=self._parts.redactors.save)
        return fact and to_memory(
            fact,
            now=now,
            ttl_days=ttl_days_of(fact, settings),
            explicit=True,
            quarantine=settings.quarantine,
        )

    async def _replacing(
        self, scope: Scope, replaces: str, memories: Sequence[Memory], *, now: datetime, who: str
    ) -> Sequence[Change]:
        if len(memories) != 1:
            raise InvalidInput("replaces= goes with exactly one item.")
        if memories[0].state == "quarantined":
            raise InvalidInput(
                "What waits to be confirmed (quarantine) replaces nothing; leave replaces= out."
            )
        old = await self._parts.get(scope, replaces)
        return superseding(old, memories[0], now=now, who=who, why="replaced by its author")

    async def edit(
        self,
        scope: Scope,
        id: str,
        *,
        revision: int | None = None,
        who: str = "",
        why: str = "",
        **values: Any,
    ) -> Memory:
        """Set the fields that are given; see `Memories.edit` and `pin`."""
        parts, who = self._parts, self._parts.masked_name(who, "who")
        given = {name: value for name, value in values.items() if value is not None}
        if not given:
            raise InvalidInput(NOTHING_GIVEN)
        masked_why = await parts.masked(why, "why")  # it is kept as memories are
        with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
            now = parts.clock()
            old = await parts.get(scope, id)
            if revision is not None and revision != old.revision:
                raise Conflict(
                    f"The memory is at revision {old.revision}, not {revision}; read it again."
                )
            most = parts.settings.max_content_bytes
            change = partial(
                edited, old, given, now=now, max_bytes=most, redact=parts.redactors.save
            )
            new = await run_in_thread(
                text_size((given.get("content"), given.get("metadata"))), change
            )
            if replace(new, updated_at=old.updated_at, revision=old.revision) == old:
                return old  # what changes nothing leaves no trace in the history
            if old.state == "short_term":  # what somebody cares for is more than a session's
                new = promoted(new, now)
            kind = "pin" if "pinned" in given else "edit"
            batch = Batch(changes=[Change(kind=kind, memory=new, who=who, why=masked_why)])
            if new.content != old.content or new.state != old.state:
                batch = await with_vectors(parts.vectors, scope, batch, now, strict=True)
            [stored_id] = (await parts.store.apply(scope, batch, now=now)).ids
            # a short-term memory that says what a long-term one says became that one
            return new if stored_id in (None, id) else await parts.get(scope, stored_id)

    async def undo(self, scope: Scope, id: str, *, who: str) -> tuple[Memory, ...]:
        """Take back the last change of a memory, with everything that the same decision changed."""
        parts, store, who = self._parts, self._parts.store, self._parts.masked_name(who, "who")
        with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
            await parts.get(scope, id, superseded=True)
            last, now = last_change(await store.memories.history(scope, id)), parts.clock()
            if last is None:
                raise NotFound(
                    "Nothing is left to undo: this memory is as it was when it was added."
                )
            decision = await store.memories.group(scope, last.group) if last.group else [last]
            undone: dict[str, int] = {}
            for revision in decision:
                history = await store.memories.history(scope, revision.memory_id)
                latest = last_change(history)
                if latest is not None and latest.revision == revision.revision:
                    undone[revision.memory_id] = sum(
                        other.revision > revision.revision for other in history
                    )
            current = await store.memories.get(
                scope, [revision.memory_id for revision in decision], now=now, superseded=True
            )
            changes = taken_back(decision, current, now=now, who=who, undone=undone)
            batch = await with_vectors(parts.vectors, scope, Batch(changes=changes), now)
            await store.apply(scope, batch, now=now)
            return tuple(change.memory for change in changes)

    async def confirm(self, scope: Scope, id: str, *, who: str) -> Memory:
        """Let a memory out of quarantine."""
        parts, who = self._parts, self._parts.masked_name(who, "who")
        with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
            now, waiting = parts.clock(), await parts.quarantined(scope, id)
            active = replace(
                renewed(waiting, now), state="active", updated_at=now, revision=waiting.revision + 1
            )
            batch = Batch(
                changes=[
                    Change(kind="confirm", memory=active, who=who, why="confirmed", explicit=True)
                ]
            )
            batch = await with_vectors(parts.vectors, scope, batch, now)
            await parts.store.apply(scope, batch, now=now)
        if batch.jobs:
            parts.worker.wake()
        return active


def text_size(value: object) -> int:
    """Return about how many characters are read when this is checked and masked; stop counting once
    they are many.
    """
    size, left = 0, [value]
    while left and size <= PORTION * 8:
        value = left.pop()
        match value:
            case str() as text:
                size += len(text)
            case Fact() as fact:
                left += (
                    fact.text,
                    fact.subject,
                    fact.attribute,
                    fact.topics,
                    fact.tags,
                    fact.event_ids,
                    fact.metadata,
                )
            case Mapping():
                pairs = cast("Mapping[object, object]", value)
                left += pairs.values()
                size += 50 * len(pairs)
            case list() | tuple():
                left += cast("Iterable[object]", value)
            case _:
                size += 10
    return size
