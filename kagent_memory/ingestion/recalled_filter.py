"""Keeps what agents and tools only repeat from being learnt again.

What memory handed over goes before a transcript is queued, what memory holds before it is extracted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from ..concurrency import run_in_thread
from ..language.tokenizer import query_terms
from ..records import Memory, Message, Scope
from ..stores.base import MemoryStore
from ..stores.view import texts
from .firewall import KnownMemory, mask_recalled
from .payload import handed_key

CANDIDATES = 100  # memories that a message may repeat
ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}  # of the days of a month; else "th"


def without_handed(messages: Sequence[Message]) -> list[Message]:
    """The messages without echoes of what memory handed over in them; one of which nothing is left has no text."""
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
    said = [message.text for message in messages if message.role != "user" and message.text.strip()]
    if not said:
        return list(messages), ()
    queries = await run_in_thread(sum(map(len, said)), partial(_queries, said))
    view = store.view(scope, now=now)
    matches = await texts(view, queries, limit=CANDIDATES)
    ids = dict.fromkeys(id for of_query in matches for id in of_query.matches)
    held = await view.memories(list(ids))
    memories = _learnt(held.values())
    known = known_memories(memories)
    size = sum(len(message.text) for message in messages) + sum(len(memory.text) for memory in known)
    left, echoed = await run_in_thread(size, partial(mask_recalled, messages, known, names=(scope.user,)))
    again = (memory.id for memory in memories if handed and handed_key(scope, memory.content) in handed)
    return left, tuple(dict.fromkeys((*echoed, *again)))


def known_memories(memories: Iterable[Memory]) -> list[KnownMemory]:
    """What an echo may be of: all of them but what an agent said itself."""
    return [
        KnownMemory(memory.id, memory.content, days_of((memory.happened_at, memory.said_at, memory.created_at)))
        for memory in _learnt(memories)
    ]


def _learnt(memories: Iterable[Memory]) -> list[Memory]:
    """What an agent said itself it may say again: the same words twice are two turns."""
    return [memory for memory in memories if not (memory.verbatim and memory.origin == "agent")]


def days_of(times: Iterable[datetime | None]) -> str:
    """These days in all the ways in which they are written beside a memory."""
    days = dict.fromkeys((at.date(), at.strftime("%H:%M")) for at in times if at is not None)
    return " ".join(
        f"{day.isoformat()}, {time}, {day.day} {day:%B} {day.year}, {day.day}{ORDINALS.get(day.day, 'th')}, {day:%A}, "
        f"{day.day}.{day.month}.{day.year}, {day.month}/{day.day}/{day.year}, {day.day}/{day.month}/{day.year}."
        for day, time in days
    )


def _queries(texts: Sequence[str]) -> list[Sequence[str]]:
    """Return the terms of each text that is not empty of them."""
    return [terms for text in texts if (terms := query_terms(text))]
