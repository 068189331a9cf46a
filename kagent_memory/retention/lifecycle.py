"""The life of a memory: the row that a fact becomes, when it expires, and when it has faded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from ..language.preferences import states_preference
from ..records import Fact, Memory, new_id
from ..retrieval.ranking.importance import clamped, idle_days
from ..settings import TAG, MemorySettings
from ..stores.codec import expiry, renewed

FADED_BELOW = 0.05


def revised(memory: Memory, *, now: datetime, **values: Any) -> Memory:
    """Return the memory with other values, one revision further."""
    return replace(memory, **values, updated_at=now, revision=memory.revision + 1)


def latest(times: Sequence[datetime | None]) -> datetime | None:
    """Return the latest of some times, where None is never."""
    return None if None in times else max(time for time in times if time is not None)


def promoted(memory: Memory, now: datetime) -> Memory:
    """Return a memory as active, which lives its own TTL from now on."""
    return replace(renewed(memory, now), state="active")


def ttl_days_of(fact: Fact, settings: MemorySettings) -> int:
    """Return the days that a fact lives that names no TTL of its own; 0: for ever.

    The first tag that the settings name counts, else the type, else the TTL of everything.
    """
    named = settings.ttl_days_by
    tags = {f"{TAG}{tag}" for tag in fact.tags}
    by_tag = (days for name, days in named.items() if name in tags)
    return next(by_tag, named.get(fact.type, settings.ttl_days))


def to_memory(
    fact: Fact,
    settings: MemorySettings = MemorySettings(),
    *,
    now: datetime,
    id: str | None = None,
    explicit: bool = False,
) -> Memory:
    """Return the row a fact becomes: a new id, created now, expiring by its own TTL or else as the
    settings say.

    The row carries the TTL that was resolved, in days (0: never expires), so that a later extension
    uses the same. A fact of a quarantined origin waits to be confirmed.
    """
    days = max(ttl_days_of(fact, settings) if fact.ttl_days is None else fact.ttl_days, 0)
    values = {
        field.name: getattr(fact, field.name) for field in fields(fact) if field.name != "text"
    }
    values |= {
        "topics": _topics(fact),
        "importance": clamped(fact.importance),
        "said_at": now if fact.said_at is None else min(fact.said_at, now),
        "ttl_days": days,
    }
    return Memory(
        id=id or new_id(now),
        content=fact.text,
        created_at=now,
        updated_at=now,
        expires_at=expiry(days, now),
        explicit=explicit,
        state="quarantined" if fact.origin in settings.quarantine else "active",
        **values,
    )


def _topics(fact: Fact) -> tuple[str, ...]:
    """Return the topics of a fact, with "preference" where it states one."""
    states_one = states_preference(fact.text, fact.author)
    return tuple(dict.fromkeys((*fact.topics, "preference"))) if states_one else fact.topics


def has_faded(memory: Memory, *, now: datetime, half_life_days: float) -> bool:
    """Return True if hardly anything is left of a memory's importance, which is halved every so
    many days in which nobody touched it: not before one half-life; 0: never.
    """
    idle = idle_days(memory, now=now)
    if memory.pinned or not half_life_days or idle < half_life_days:
        return False
    return memory.importance * 0.5 ** (idle / half_life_days) < FADED_BELOW
