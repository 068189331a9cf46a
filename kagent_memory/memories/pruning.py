"""The verb `prune`."""

from __future__ import annotations

from .. import telemetry
from ..retention import prune as retention
from ..stores.base import Pruned
from .components import Components


async def prune(parts: Components, *, dry_run: bool) -> Pruned:
    """See `MemoryApi.prune`."""
    await parts.deliveries.flush()  # what is popular by now must not be deleted for a count that waits
    pruned = await retention.prune(
        parts.store,
        parts.vectors,
        settings=parts.settings,
        weights=parts.weights,
        now=parts.clock(),
        dry_run=dry_run,
    )
    if not dry_run:
        if pruned.erased:
            parts.forget_vectors()
        telemetry.pruned(pruned.counts)
    return pruned
