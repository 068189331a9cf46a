"""How memories age: the three policies, each a set of values that the settings have where nobody says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Policy: TypeAlias = Literal["kagent", "archive", "tiers"]

PRESETS: Mapping[str, Mapping[str, int | float]] = {
    "kagent": {},
    "archive": {"ttl_days": 0},
    "tiers": {
        "ttl_days": 90,
        "short_term_hours": 24.0,
        "half_life_days": 30.0,
        "unimportant_after_days": 180,
        "max_memories": 10_000,
        "importance_boost": 0.1,
        "prune_every_hours": 168.0,
    },
}
"""By policy, what differs from the settings' own defaults, which are kagent's."""


def days_by_name(value: object) -> object:
    """A mapping of names to days from its text, `episodic:30,procedural:0`.

    Raises:
        ValueError: a part has no name or no whole number.
    """
    if not isinstance(value, str):
        return value
    days: dict[str, int] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        name, _, number = part.rpartition(":")
        if not name.strip() or not number.strip().isdecimal():
            raise ValueError(f"{part!r} is not NAME:DAYS, as in episodic:30,procedural:0")
        days[name.strip()] = int(number)
    return days
