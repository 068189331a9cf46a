"""The life of a memory: how a fact becomes a memory, when it expires and when it has faded."""

from __future__ import annotations

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
    """Return a new revision of the memory with these values changed."""
    return replace(memory, **values, updated_at=now, revision=memory.revision + 1)


def promoted(memory: Memory, now: datetime) -> Memory:
    """Return the memory as an active one whose TTL starts now."""
    return replace(renewed(memory, now), state="active")


def ttl_days_of(fact: Fact, settings: MemorySettings) -> int:
    """Return the default TTL of a fact in days; 0 means forever.

    The first matching tag of `ttl_days_by` counts, then the type, then `ttl_days`.
    """
    ttl_days_by = settings.ttl_days_by
    tags = {f"{TAG}{tag}" for tag in fact.tags}
    by_tag = (days for name, days in ttl_days_by.items() if name in tags)
    return next(by_tag, ttl_days_by.get(fact.type, settings.ttl_days))


def to_memory(
    fact: Fact,
    settings: MemorySettings = MemorySettings(),
    *,
    now: datetime,
    id: str | None = None,
    explicit: bool = False,
) -> Memory:
    """Make a memory of a fact, created now, with the TTL of the fact or else the default one.

    The memory keeps the resolved TTL in days (0 means forever), so that a later extension uses the
    same one. A fact of a quarantined origin is quarantined.
    """
    days = ttl_days_of(fact, settings) if fact.ttl_days is None else fact.ttl_days
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
    """Return the topics of a fact, plus "preference" if it states one."""
    if not states_preference(fact.text, fact.author):
        return fact.topics
    return tuple(dict.fromkeys((*fact.topics, "preference")))


def has_faded(memory: Memory, *, now: datetime, half_life_days: float) -> bool:
    """Return True if the memory has been idle so long that its importance is close to nothing.

    Importance halves every `half_life_days` in which nobody used or changed the memory; 0 means
    that nothing fades. Nothing fades before one half-life, and pinned memories never do.
    """
    idle = idle_days(memory, now=now)
    if memory.pinned or not half_life_days or idle < half_life_days:
        return False
    return memory.importance * 0.5 ** (idle / half_life_days) < FADED_BELOW
