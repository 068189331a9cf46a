"""Policies of ageing: three sets of values for what the settings do not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..records import MEMORY_TYPES

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


def days_by_name(value: object) -> object:
    """Return the mapping that a text such as `episodic:30,tag=invoice:3650` means; anything else as
    it is.

    Raises:
        ValueError: a part has no name.
    """
    if not isinstance(value, str):
        return value
    days: dict[str, str] = {}
    for part in filter(None, map(str.strip, value.split(","))):
        name, _, number = part.rpartition(":")
        if not name.strip():
            raise ValueError(f"{part!r} is not NAME:DAYS, as in episodic:30,tag=invoice:3650")
        days[name.strip()] = number.strip()
    return days


def check_names(days: Mapping[str, int]) -> Mapping[str, int]:
    """Return `days` itself.

    Raises:
        ValueError: a name is neither a type nor a tag.
    """
    for name in days:
        if name not in MEMORY_TYPES and not (name.startswith(TAG) and name != TAG):
            raise ValueError(
                f"{name!r} is neither a type ({', '.join(MEMORY_TYPES)}) nor a tag, which is "
                f"written {TAG}{name}"
            )
    return days
