"""Filters applied to memories in Python, for rows that no store has filtered."""

from __future__ import annotations

from datetime import datetime

from ..records import Filter, Memory


def matches_filter(filter: Filter, memory: Memory) -> bool:
    """Return True if every field of the filter that is set matches the memory; see `Filter`."""
    return (
        _is_of(filter, memory)
        and (not filter.topics or not set(filter.topics).isdisjoint(memory.topics))
        and set(filter.tags) <= set(memory.tags)
        and all(
            key in memory.metadata
            and memory.metadata[key] == value
            and isinstance(memory.metadata[key], bool) == isinstance(value, bool)  # True == 1
            for key, value in filter.metadata.items()
        )
        and _between(memory.created_at, filter.created_after, filter.created_before)
        and _between(memory.happened_at, filter.happened_after, filter.happened_before)
    )


def _is_of(filter: Filter, memory: Memory) -> bool:
    return (
        (not filter.types or memory.type in filter.types)
        and (not filter.origins or memory.origin in filter.origins)
        and all(
            getattr(filter, name) in (None, getattr(memory, name))
            for name in ("session_id", "author", "category")
        )
        and (filter.min_importance is None or memory.importance >= filter.min_importance)
    )


def _between(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    if after is None and before is None:
        return True
    return at is not None and (after is None or at >= after) and (before is None or at < before)


def is_visible(memory: Memory, now: datetime, superseded: bool | str = False) -> bool:
    """Return True if readers see a memory at `now`; `superseded` as in `Filter`."""
    if not memory.pinned and memory.expires_at is not None and memory.expires_at <= now:
        return False
    if isinstance(superseded, str):
        return memory.state == ("superseded" if superseded == "only" else superseded)
    return superseded or memory.state == "active"


def is_searched(memory: Memory, now: datetime, superseded: bool | str = False) -> bool:
    """Return True if searches see a memory at `now`: visible ones and kept turns."""
    return is_visible(memory, now, superseded or ("source" if memory.state == "source" else False))
