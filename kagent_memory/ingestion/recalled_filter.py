"""Keeps what agents and tools only repeat from being learnt again.

What memory handed over goes before a transcript is queued, what memory holds before it is extracted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from ..concurrency import run_in_thread
from ..language.tokenizer import query_terms
from ..records import Message, Scope
from ..stores.base import MemoryStore
from .firewall import mask_recalled
from .payload import handed_key

CANDIDATES = 20


def without_handed(messages: Sequence[Message]) -> list[Message]:
    """The messages without echoes of what memory handed over in them; one that nothing is left of has no text."""
    numbered = [replace(message, event_id=str(number)) for number, message in enumerate(messages)]
    left, _ = mask_recalled(numbered, ())
    texts = {message.event_id: message.text for message in left}
    return [replace(message, text=texts.get(str(number), "")) for number, message in enumerate(messages)]


async def without_recalled(
    store: MemoryStore, scope: Scope, messages: Sequence[Message], *, handed: Collection[str] = (), now: datetime
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages without echoes of memory, and the ids of the memories that were said again.

    Args:
        store: whose memories.
        scope: of whom.
        messages: a transcript in its order.
        handed: what memory handed over in it, as `handed_key`.
        now: when.
    """
    ids: dict[str, None] = {}
    for message in messages:
        if message.role != "user" and message.text.strip():
            matches = await store.search_text(scope, query_terms(message.text), limit=CANDIDATES, now=now)
            ids.update(dict.fromkeys(matches.matches))
    found = await store.get(scope, list(ids), now=now)
    # What an agent said itself it may say again: the same words twice are two turns.
    known = [memory for memory in found.values() if not (memory.verbatim and memory.origin == "agent")]
    recalled = [(memory.id, memory.content) for memory in known]
    size = sum(len(message.text) for message in messages)
    left, echoed = await run_in_thread(size, partial(mask_recalled, messages, recalled))
    again = (memory.id for memory in known if handed and handed_key(scope, memory.content) in handed)
    return left, tuple(dict.fromkeys((*echoed, *again)))
