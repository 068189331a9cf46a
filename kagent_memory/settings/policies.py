"""Policies of ageing: three sets of values for what the settings do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

PolicyName: TypeAlias = Literal["kagent", "archive", "tiers"]

TAG = "tag="


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Rules by which memories age.

    Attributes:
        settings: what differs from the settings' own defaults, which are kagent's.
        unimportant_after_days: the prune erases what is older, was delivered fewer than 3 times and
            has an importance below 0.5 by the formula. 0: off.
        importance_boost: weight of the importance formula in ranking, where `rank` gives its
            `standing` none.
    """

    settings: Mapping[str, int | float] = field(default_factory=dict[str, int | float])
    unimportant_after_days: int = 0
    importance_boost: float = 0.0


POLICIES: Mapping[str, Policy] = {
    "kagent": Policy(),
    "archive": Policy(settings={"ttl_days": 0}),
    "tiers": Policy(
        settings={
            "ttl_days": 90,
            "short_term_hours": 24.0,
            "half_life_days": 30.0,
            "max_memories": 10_000,
            "prune_every_hours": 168.0,
        },
        unimportant_after_days=180,
        importance_boost=0.1,
    ),
}
