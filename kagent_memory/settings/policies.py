"""Policies of ageing: three sets of values for what the settings do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

PolicyName: TypeAlias = Literal["kagent", "archive", "tiers"]

TAG = "tag="


POLICIES: Mapping[str, Mapping[str, int | float]] = {
    "kagent": {},
    "archive": {"ttl_days": 0},
    "tiers": {
        "ttl_days": 90,
        "short_term_hours": 24.0,
        "half_life_days": 30.0,
        "max_memories": 10_000,
        "prune_every_hours": 168.0,
    },
}
"""What differs from the settings' own defaults, which are kagent's."""
