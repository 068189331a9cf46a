"""Taking back the last change of a memory, with all that the same decision changed."""

from __future__ import annotations

from .. import telemetry
from ..errors import NotFound
from ..ingestion.editing import last_change, taken_back
from ..records import Memory, Scope
from ..retrieval.embedding_spaces import with_vectors
from ..stores.base import Batch
from .components import Components


async def undo(parts: Components, scope: Scope, id: str, *, who: str) -> tuple[Memory, ...]:
    """See `MemoryApi.undo`."""
    store = parts.store
    with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
        await parts.get(scope, id, superseded=True)
        last, now = last_change(await store.history(scope, id)), parts.clock()
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
        batch = await with_vectors(parts.vectors, scope, Batch(changes=changes), now)
        await store.apply(scope, batch, now=now)
        return tuple(change.memory for change in changes)
