"""Looks up what agents and tools may be repeating, so that the firewall can keep it from being learnt again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..firewall import mask_recalled
from ..records import Message, Scope
from ..stores.base import MemoryStore
from ..text import query_terms

CANDIDATES = 20


async def without_echoes(
    store: MemoryStore, scope: Scope, messages: Sequence[Message], *, now: datetime
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages without echoes of memory, and the ids of the memories that were said again."""
    ids: dict[str, None] = {}
    for message in messages:
        if message.role != "user" and message.text.strip():
            matches = await store.search_text(scope, query_terms(message.text), limit=CANDIDATES, now=now)
            ids.update(dict.fromkeys(matches.matches))
    found = await store.get(scope, list(ids), now=now)
    # What an agent said itself it may say again: the same words twice are two turns.
    known = [memory for memory in found.values() if not (memory.verbatim and memory.origin == "agent")]
    return mask_recalled(messages, [(memory.id, memory.content) for memory in known])
