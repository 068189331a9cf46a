"""Which memories have outlived their use: pure rules, to be combined; a pinned memory meets none of them."""

from __future__ import annotations

from datetime import datetime

from ..records import Memory
from ..retrieval.ranking.importance import age_days, idle_days

FADED_BELOW = 0.05
UNIMPORTANT_BELOW = 0.5
FEW_DELIVERIES = 3


def strength(memory: Memory, *, now: datetime, half_life_days: float) -> float:
    """What is left of a memory's own importance, halved every so many days in which nobody touched it."""
    return memory.importance * 0.5 ** (idle_days(memory, now=now) / half_life_days)


def has_faded(memory: Memory, *, now: datetime, half_life_days: float) -> bool:
    """Whether hardly anything is left of a memory: not before one half-life, however unimportant it was; 0: never."""
    if memory.pinned or not half_life_days or idle_days(memory, now=now) < half_life_days:
        return False
    return strength(memory, now=now, half_life_days=half_life_days) < FADED_BELOW


def is_old_and_unused(memory: Memory, *, now: datetime, after_days: float) -> bool:
    """Whether a memory is older than so many days and was delivered fewer than 3 times in them; 0 days: never."""
    if memory.pinned or not after_days:
        return False
    return age_days(memory, now=now) > after_days and memory.usage.delivered_total < FEW_DELIVERIES
