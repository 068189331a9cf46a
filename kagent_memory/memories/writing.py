"""What is added and edited directly: masked and checked off the loop, embedded, and written in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from .. import telemetry
from ..concurrency import each_aside, run_in_thread
from ..errors import Conflict, InvalidInput
from ..ingestion.editing import Edit, edited, kept_fact, superseding
from ..records import DROPPED, Change, Fact, Memory, Scope, Vector, checked_text
from ..retention.lifecycle import promoted, to_memory, ttl_days_of
from ..retrieval.embedding_spaces import with_vectors
from ..stores.base import Batch
from .api import Items
from .components import Components
from .validation import checked_items, text_size


async def add(
    parts: Components,
    scope: Scope,
    items: Items,
    *,
    embedding: Sequence[Vector] | None,
    embedding_space: str | None,
    who: str,
    replaces: str | None,
    max_bytes: int,
) -> list[str]:
    """See `MemoryApi.add`."""

    def to_stored(item: Fact | str) -> Memory | None:
        fact = kept_fact(item, max_bytes=max_bytes, redact=parts.redactors.save)
        return fact and to_memory(
            fact,
            now=now,
            ttl_days=ttl_days_of(fact, parts.settings),
            explicit=True,
            quarantine=parts.settings.quarantine,
        )

    with telemetry.operation("create_memory", store=parts.location, scope_app=scope.app) as span:
        now = parts.clock()
        stored = await each_aside(checked_items(items), text_size, to_stored)
        memories = [memory for memory in stored if memory is not None]
        if not memories:
            return [DROPPED] * len(stored)
        if replaces is None:
            changes = [Change(kind="add", memory=memory, who=who, explicit=True) for memory in memories]
        elif len(memories) != 1:
            raise InvalidInput("replaces= goes with exactly one item.")
        elif memories[0].state == "quarantined":
            raise InvalidInput("What waits to be confirmed (quarantine) replaces nothing; leave replaces= out.")
        else:
            old = await parts.get(scope, replaces)
            changes = superseding(old, memories[0], now=now, who=who, why="replaced by its author")
        batch = Batch(changes=changes)
        if embedding is None:
            parts.check_own_space(embedding_space)
            batch = await with_vectors(parts.vectors, scope, batch, now, strict=True)
        else:
            batch = await parts.caller_vectors.added_to(batch, scope, stored, embedding, embedding_space)
        applied = await parts.store.apply(scope, batch, now=now)
        if any(job.run_after <= now for job in batch.jobs):
            parts.worker.wake()
        ids = [str(id) for id in applied.ids[: len(memories)]]
        span.records((id, memory.content, None) for id, memory in zip(ids, memories, strict=True))
        left = iter(ids)
        return [DROPPED if memory is None else next(left) for memory in stored]


async def edit(
    parts: Components,
    scope: Scope,
    id: str,
    wanted: Edit,
    *,
    revision: int | None = None,
    who: str,
    why: str = "",
) -> Memory:
    """See `MemoryApi.edit` and `pin`."""
    if wanted == Edit():
        raise InvalidInput(
            "Nothing to change was given: name content, type, category, topics, tags, importance, metadata, "
            "ttl_days or happened_at."
        )
    checked_text(why, "why")
    with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
        now = parts.clock()
        old = await parts.get(scope, id)
        if revision is not None and revision != old.revision:
            raise Conflict(f"The memory is at revision {old.revision}, not {revision}; read it again.")
        most = parts.settings.max_content_bytes
        changed = partial(edited, old, wanted, now=now, max_bytes=most, redact=parts.redactors.save)
        new = await run_in_thread(text_size(wanted.content, wanted.metadata), changed)
        if replace(new, updated_at=old.updated_at, revision=old.revision) == old:
            return old  # what changes nothing leaves no trace in the history
        if old.state == "short_term":  # what somebody cares for is more than a session's
            new = promoted(new, now)
        kind = "edit" if wanted.pinned is None else "pin"
        masked = await run_in_thread(len(why), partial(parts.redactors.mask, why))  # it is kept as memories are
        batch = Batch(changes=[Change(kind=kind, memory=new, who=who, why=masked)])
        if new.content != old.content or new.state != old.state:
            batch = await with_vectors(parts.vectors, scope, batch, now, strict=True)
        [there] = (await parts.store.apply(scope, batch, now=now)).ids
        # a short-term memory that says what a long-term one says became that one
        return new if there in (None, id) else await parts.get(scope, there)
