"""Which memories match a query and are kept from every reader, for whoever asks why one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from ..records import Filter, LeftOut, Memory
from ..stores.base import EARLIEST
from ..stores.view import View

AT_MOST = 50


async def exclusions_of(view: View, terms: Sequence[str], filter: Filter, *, now: datetime) -> tuple[LeftOut, ...]:
    """Return those of the 50 memories with the rarest terms that have expired, were superseded or are quarantined.

    Searched by words only, as of a time before any expired.
    """
    ever = view.under(replace(filter, superseded=True), EARLIEST)
    found = await ever.text(terms, limit=AT_MOST)
    memories = await ever.memories(list(found.matches))
    return tuple(out for memory in memories.values() if (out := _out(memory, filter, now)))


def _out(memory: Memory, filter: Filter, now: datetime) -> LeftOut | None:
    if memory.state != "active" and not filter.superseded:
        return LeftOut(memory_id=memory.id, reason=memory.state)
    if memory.expires_at is not None and memory.expires_at <= now and not memory.pinned:
        return LeftOut(memory_id=memory.id, reason="expired")
    return None
