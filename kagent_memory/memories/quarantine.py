"""What waits to be confirmed: let in, or erased."""

from __future__ import annotations

from dataclasses import replace

from .. import telemetry
from ..errors import NotFound
from ..records import Change, Memory, Scope, checked_text
from ..redaction import redact as mask_secrets
from ..retrieval.embedding_spaces import with_vectors
from ..stores.base import Batch
from ..stores.codec import renewed
from .components import Components
from .forgetting import Which, forget


async def confirm(parts: Components, scope: Scope, id: str, *, who: str) -> Memory:
    """See `MemoryApi.confirm`."""
    who = mask_secrets(checked_text(who, "who"))
    with telemetry.operation("update_memory", store=parts.location, scope_app=scope.app):
        now, held = parts.clock(), await _held(parts, scope, id)
        let_in = replace(renewed(held, now), state="active", updated_at=now, revision=held.revision + 1)
        batch = Batch(changes=[Change(kind="confirm", memory=let_in, who=who, why="confirmed", explicit=True)])
        batch = await with_vectors(parts.vectors, scope, batch, now)
        await parts.store.apply(scope, batch, now=now)
    if batch.jobs:
        parts.worker.wake()
    return let_in


async def reject(parts: Components, scope: Scope, id: str, *, who: str) -> tuple[str, ...]:
    """See `MemoryApi.reject`."""
    return await forget(parts, scope, Which(ids=((await _held(parts, scope, id)).id,), who=who))


async def _held(parts: Components, scope: Scope, id: str) -> Memory:
    memory = (await parts.store.get(scope, [id], now=parts.clock(), superseded=True)).get(id)
    if memory is None or memory.state != "quarantined":
        raise NotFound(f"No memory {id} waits in the quarantine of this scope.")
    return memory
