"""How a memory is born, ages and is weighed: pure policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from .errors import InvalidInput
from .records import Fact, Memory, new_id

Fate: TypeAlias = Literal["stays", "extended", "deleted"]


def expiry(now: datetime, ttl_days: int) -> datetime | None:
    """When something that lives `ttl_days` from now expires; None (never) for 0 or less, or beyond the calendar."""
    try:
        return now + timedelta(days=ttl_days) if ttl_days > 0 else None
    except OverflowError:
        return None


def to_memory(fact: Fact, *, now: datetime, ttl_days: int, id: str | None = None, explicit: bool = False) -> Memory:
    """The row a fact becomes: a new id, created now, expiring by its own TTL or else by `ttl_days`.

    The row carries the TTL that was resolved, in days (0: never expires), so that a later extension uses the same.
    """
    days = max(ttl_days if fact.ttl_days is None else fact.ttl_days, 0)
    return Memory(
        id=id or new_id(now),
        content=fact.text,
        type=fact.type,
        topics=fact.topics,
        tags=fact.tags,
        importance=clamped(fact.importance),
        is_error=fact.is_error,
        origin=fact.origin,
        author=fact.author,
        session_id=fact.session_id,
        event_ids=fact.event_ids,
        subject=fact.subject,
        attribute=fact.attribute,
        metadata=fact.metadata,
        created_at=now,
        updated_at=now,
        happened_at=fact.happened_at,
        said_at=now if fact.said_at is None else min(fact.said_at, now),
        expires_at=expiry(now, days),
        ttl_days=days,
        pinned=fact.pinned,
        verbatim=fact.verbatim,
        explicit=explicit,
    )


def fate(memory: Memory, *, now: datetime, popular_after: int) -> Fate:
    """What a prune at `now` does with a memory: the rule that every store's `prune` states in SQL."""
    if memory.pinned or memory.expires_at is None or memory.expires_at > now:
        return "stays"
    return "extended" if memory.usage.delivered >= popular_after else "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceWeights:
    """How much each part of the importance formula counts; only their proportions matter.

    Raises:
        InvalidInput: a weight is negative or not finite, or all are 0.
    """

    recency: float = 0.2
    frequency: float = 0.2
    success: float = 0.2
    error: float = 0.2
    uniqueness: float = 0.2

    def __post_init__(self) -> None:
        values = [float(getattr(self, field.name)) for field in fields(self)]
        if not all(math.isfinite(value) and value >= 0 for value in values) or not any(values):
            raise InvalidInput("Importance weights must be finite, not negative, and not all 0.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceParts:
    """The five parts of the importance formula, each in 0..1."""

    recency: float
    frequency: float
    success: float
    error: float
    uniqueness: float


def importance_parts(
    memory: Memory,
    *,
    now: datetime,
    nearest: float = 0.0,
    half_life_days: float = 30.0,
    often: int = 100,
) -> ImportanceParts:
    """What the importance formula is made of.

    - recency: 0.5 ^ (age / `half_life_days`), the age counted from the latest of creation, change and delivery
    - frequency: log(1 + deliveries in its lifetime) / log(1 + `often`), at most 1
    - success: (successes + 1) / (successes + failures + 2), Laplace's rule of succession: 0.5 without feedback
    - error: the severity of what it reports: its own `importance` when it is an error, else 0
    - uniqueness: 1 - `nearest`, the cosine of the most similar other memory of the scope

    Args:
        memory: the memory with its usage.
        now: the time to weigh at.
        nearest: -1..1; below 0 counts as 0.
        half_life_days: after how many days the recency has halved.
        often: deliveries that count as most frequent.
    """
    used = memory.usage
    latest = max(memory.created_at, memory.updated_at, used.last_delivered_at or memory.created_at)
    age_days = max((now - latest).total_seconds(), 0.0) / 86_400
    return ImportanceParts(
        recency=0.5 ** (age_days / half_life_days),
        frequency=min(math.log1p(used.delivered_total) / math.log1p(often), 1.0),
        success=(used.successes + 1) / (used.successes + used.failures + 2),
        error=clamped(memory.importance) if memory.is_error else 0.0,
        uniqueness=1.0 - clamped(nearest),
    )


def importance(parts: ImportanceParts, weights: ImportanceWeights = ImportanceWeights()) -> float:
    """The weighted mean of the parts, in 0..1 (the design documents' formula: five parts, 0.2 each)."""
    names = [field.name for field in fields(weights)]
    total = math.fsum(getattr(weights, name) for name in names)
    return math.fsum(getattr(weights, name) * getattr(parts, name) for name in names) / total


def least_important(
    memories: Sequence[Memory],
    count: int,
    *,
    now: datetime,
    likeness: Mapping[str, Mapping[str, float]],
    weights: ImportanceWeights = ImportanceWeights(),
) -> list[Memory]:
    """The `count` memories with the least importance, least first; pinned ones are never among them.

    One after the other: what has been chosen no longer makes the others less unique, so that of two twins one stays.
    Equal ones go by age, oldest first.

    Args:
        memories: to choose from.
        count: how many at most.
        now: the time to weigh at.
        likeness: by id, how like other memories it is (-1..1, by their ids); nothing known: unique.
        weights: of the formula.
    """
    left = {memory.id: memory for memory in sorted(memories, key=lambda one: one.created_at) if not memory.pinned}
    near = {id: dict(likeness.get(id, {})) for id in left}
    values = {id: _weighed(memory, now, near[id], weights) for id, memory in left.items()}
    chosen: list[Memory] = []
    while left and len(chosen) < count:
        least = min(left, key=lambda id: values[id])
        chosen.append(left.pop(least))
        for id in left:
            if near[id].pop(least, None) is not None:
                values[id] = _weighed(left[id], now, near[id], weights)
    return chosen


def _weighed(memory: Memory, now: datetime, near: Mapping[str, float], weights: ImportanceWeights) -> float:
    return importance(importance_parts(memory, now=now, nearest=max(near.values(), default=0.0)), weights)


def clamped(value: float) -> float:
    """`value` brought into 0..1; 0.5 when it is no number."""
    return 0.5 if math.isnan(value) else min(max(float(value), 0.0), 1.0)
