"""Erasing a tenant, in steps of a bounded size."""

from __future__ import annotations

from .. import telemetry
from ..stores.values import ForgottenTenant
from .components import Components
from .validation import checked_limit, checked_tenant

BATCH = 10_000


async def forget_tenant(parts: Components, tenant: str, limit: int | None) -> ForgottenTenant:
    """See `MemoryApi.forget_tenant`."""
    name, most = checked_tenant(tenant), BATCH if limit is None else checked_limit(limit)
    with telemetry.operation("delete_memory", store=parts.location, scope_app=""):
        await parts.deliveries.flush()
        erased = await parts.store.forget_tenant(name, limit=most, now=parts.clock())
        while limit is None and not erased.done:
            erased += await parts.store.forget_tenant(name, limit=most, now=parts.clock())
    parts.caller_vectors.forget(name)
    return erased
