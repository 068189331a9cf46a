"""Which memories match a query and are kept from every reader, for whoever asks why one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ..records import Filter, LeftOut, Memory, Scope
from .past import Searchable

AT_MOST = 50
_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)


async def exclusions_of(
    store: Searchable, scope: Scope, terms: Sequence[str], filter: Filter, *, now: datetime
) -> tuple[LeftOut, ...]:
    """Of the 50 memories that share the rarest terms, those that have expired, were superseded or are quarantined.

    Asked as of a time before any expired; by words only.
    """
    ever = replace(filter, superseded=True)
    found = await store.search_text(scope, terms, limit=AT_MOST, filter=ever, now=_BEFORE_ALL)
    memories = await store.get(scope, list(found.matches), now=_BEFORE_ALL, superseded=True)
    return tuple(out for memory in memories.values() if (out := _out(memory, filter, now)))


def _out(memory: Memory, filter: Filter, now: datetime) -> LeftOut | None:
    if memory.state != "active" and not filter.superseded:
        return LeftOut(memory_id=memory.id, reason=memory.state)
    if memory.expires_at is not None and memory.expires_at <= now and not memory.pinned:
        return LeftOut(memory_id=memory.id, reason="expired")
    return None
