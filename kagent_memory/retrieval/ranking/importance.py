"""The importance of a memory: one formula of five parts, by which the prune evicts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import datetime

from ...errors import InvalidInput
from ...records import Memory

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
    now: datetime,
    nearest: float = 0.0,
) -> float:
    """Return the weighted mean of five parts, in 0..1.

    - recency: halved every 30 days, counted from the latest of creation, change and delivery
    - frequency: log(1 + deliveries in its lifetime) / log(1 + 100), at most 1
    - success: (successes + 1) / (successes + failures + 2), Laplace's rule of succession: 0.5
      without feedback
    - error: the severity of what it reports: its own `importance` when it is an error, else 0
    - uniqueness: 1 - `nearest`, of which what is below 0 counts as 0

    Args:
        memory: the memory with its usage.
        weights: of the parts.
        now: the time to weigh at.
        nearest: the cosine of the most similar other memory of the scope, -1..1.
    """
    used = memory.usage
    shares = asdict(weights)
    parts = {
        "recency": 0.5 ** (idle_days(memory, now=now) / HALF_LIFE_DAYS),
        "frequency": min(math.log1p(used.delivered_total) / math.log1p(OFTEN), 1.0),
        "success": (used.successes + 1) / (used.successes + used.failures + 2),
        "error": clamped(memory.importance) if memory.is_error else 0.0,
        "uniqueness": 1.0 - clamped(nearest),
    }
    return math.fsum(shares[name] * part for name, part in parts.items()) / math.fsum(
        shares.values()
    )


def idle_days(memory: Memory, *, now: datetime) -> float:
    """Return the days since it was last created, changed or delivered."""
    latest = max(
        memory.created_at, memory.updated_at, memory.usage.last_delivered_at or memory.created_at
    )
    return max((now - latest).total_seconds(), 0.0) / 86_400


def clamped(value: float) -> float:
    """Limit `value` to 0..1; NaN becomes 0.5."""
    return 0.5 if math.isnan(value) else min(max(float(value), 0.0), 1.0)
