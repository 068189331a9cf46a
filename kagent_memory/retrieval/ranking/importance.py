"""Importance of a memory: one formula of five parts, shared by ranking and eviction.

Two ways to measure the parts: smoothly (`importance_parts`), or in the published steps of the
policy "tiers" (`tiered_parts`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from ...errors import InvalidInput
from ...records import Memory
from ...settings.policies import PolicyName

# likeness of the most similar other memory from which on the published formula calls none unique
TWIN = 0.9
HALF_LIFE_DAYS = 30.0
OFTEN = 100  # deliveries that count as most frequent


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportanceWeights:
    """Weights of the parts of the importance formula; only their proportions matter.

    Raises:
        InvalidInput: a weight is negative or not finite, or all are 0.
    """

    recency: float = 0.2
    frequency: float = 0.2
    success: float = 0.2
    error: float = 0.2
    uniqueness: float = 0.2

    def __post_init__(self) -> None:
        values = asdict(self).values()
        if not all(math.isfinite(value) and value >= 0 for value in values) or not any(values):
            raise InvalidInput("Importance weights must be finite, not negative, and not all 0.")


def importance(
    memory: Memory,
    *,
    weights: ImportanceWeights = ImportanceWeights(),
    policy: PolicyName = "kagent",
    now: datetime,
    nearest: float = 0.0,
) -> float:
    """Return the weighted mean of the parts, in 0..1 (the design documents' formula: five parts,
    0.2 each).

    Args:
        memory: the memory with its usage.
        weights: of the parts.
        policy: "tiers" measures the parts as published.
        now: the time to weigh at.
        nearest: the cosine of the most similar other memory of the scope, -1..1.
    """
    measure = tiered_parts if policy == "tiers" else importance_parts
    parts, shares = measure(memory, now=now, nearest=nearest), asdict(weights)
    weighted = (share * parts[name] for name, share in shares.items())
    return math.fsum(weighted) / math.fsum(shares.values())


def tiered_parts(memory: Memory, *, now: datetime, nearest: float) -> Mapping[str, float]:
    """Return the parts of the published formula of the policy "tiers".

    - recency: 1 - age / 365 days, the age counted from creation; at least 0
    - frequency: deliveries in its lifetime / 10, at most 1
    - success: 1, or 0.3 for what misled more often than it helped
    - error: 0.9 for what reports an error, else 0.5
    - uniqueness: 0.9, or 0.5 where another memory of the scope is like it to 0.9 or more
    """
    used = memory.usage
    return {
        "recency": max(1.0 - age_days(memory, now=now) / 365, 0.0),
        "frequency": min(used.delivered_total / 10, 1.0),
        "success": 1.0 if used.successes >= used.failures else 0.3,
        "error": 0.9 if memory.is_error else 0.5,
        "uniqueness": 0.5 if nearest >= TWIN else 0.9,
    }


def importance_parts(memory: Memory, *, now: datetime, nearest: float) -> Mapping[str, float]:
    """Return the parts of the importance formula.

    - recency: halved every 30 days, counted from the latest of creation, change and delivery
    - frequency: log(1 + deliveries in its lifetime) / log(1 + 100), at most 1
    - success: (successes + 1) / (successes + failures + 2), Laplace's rule of succession: 0.5
      without feedback
    - error: the severity of what it reports: its own `importance` when it is an error, else 0
    - uniqueness: 1 - `nearest`, of which what is below 0 counts as 0
    """
    used = memory.usage
    return {
        "recency": 0.5 ** (idle_days(memory, now=now) / HALF_LIFE_DAYS),
        "frequency": min(math.log1p(used.delivered_total) / math.log1p(OFTEN), 1.0),
        "success": (used.successes + 1) / (used.successes + used.failures + 2),
        "error": clamped(memory.importance) if memory.is_error else 0.0,
        "uniqueness": 1.0 - clamped(nearest),
    }


def age_days(memory: Memory, *, now: datetime) -> float:
    """Days since it was made; 0 for what is made in the future."""
    return max((now - memory.created_at).total_seconds(), 0.0) / 86_400


def idle_days(memory: Memory, *, now: datetime) -> float:
    """Days since it was made, changed or delivered last."""
    latest = max(
        memory.created_at, memory.updated_at, memory.usage.last_delivered_at or memory.created_at
    )
    return max((now - latest).total_seconds(), 0.0) / 86_400


def clamped(value: float) -> float:
    """`value` brought into 0..1; 0.5 when not a number."""
    return 0.5 if math.isnan(value) else min(max(float(value), 0.0), 1.0)
