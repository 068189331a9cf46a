"""Filters as the values that statements take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from ...records import Filter
from .row_codec import FILTERED
from .session import Transaction

_ALONE = {
    "only": "superseded",
    "quarantined": "quarantined",
    "short_term": "short_term",
    "source": "source",
}
_LISTS = ("types", "topics", "tags", "origins", "metadata")


async def filter_values(
    session: Transaction, filter: Filter, now: datetime, *, sources: bool = False
) -> dict[str, Any]:
    """Return what every statement with a filter takes: the time, and each condition or None.

    `filtered` says whether any condition is set; to take superseded memories too is none.
    `sources`: kept turns too.
    """
    values: dict[str, Any] = {field.name: getattr(filter, field.name) for field in fields(Filter)}
    for name in _LISTS:
        values[name] = values[name] or None
    values["state"] = _ALONE.get(values.pop("superseded"))
    filtered = any(value is not None for value in values.values())
    compared = {name: values[name] for name in FILTERED}
    digests: Mapping[str, Any] = {}
    if any(value is not None for value in compared.values()):
        # without keys too: what cannot be seen must not be told as not there
        await session.read_salt()
        digests = session.codec.digests(compared)
    values |= {f"sealed_{name}": digests.get(name) for name in FILTERED}
    values |= {"superseded": bool(filter.superseded), "sources": sources, "filtered": filtered}
    return {**values, "now": now}
