"""Decisions that all stores share: visibility, filters, pages, tombstones, the order of scopes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, TypeAdapter
from typing_extensions import Unpack

from ..checks import checked_text
from ..errors import InvalidInput
from ..records import Filter, Memory, Scope
from .codec import bounded, forgotten_key
from .values import Order, ScopeQuery, Whole, every_state

PARTS: Sequence[Literal["tenant", "app", "user"]] = ("tenant", "app", "user")
_PLACE = TypeAdapter[tuple[Order, AwareDatetime, UUID]](tuple[Order, AwareDatetime, UUID])


def page_cursor(last: Memory, order: Order) -> str:
    """Return the cursor after the last memory of a page."""
    place = _PLACE.dump_json((order, last.created_at, UUID(last.id)))
    return base64.urlsafe_b64encode(place).decode()


def page_end(cursor: str, order: Order) -> tuple[datetime, str]:
    """Return the time and id of the last memory of the previous page.

    Raises:
        InvalidInput: the cursor is not one of ours.
    """
    try:
        of_order, at, id = _PLACE.validate_json(base64.urlsafe_b64decode(cursor.encode()))
    except ValueError as error:
        raise InvalidInput("Invalid cursor; start without one.") from error
    if of_order != order:
        raise InvalidInput(f"This cursor belongs to the order {of_order!r}; start without one.")
    return at, str(id)


def tombstones_of(whole: Whole, salt: bytes = b"") -> set[tuple[str, str]]:
    """Return the tombstones of a forgotten memory by kind: the events of every state and change
    that it ever had, and the texts. Without a salt there are no texts.
    """
    states = every_state(whole.memory, whole.revisions)
    tombstones = {
        ("event", event) for source in (*states, *whole.revisions) for event in source.event_ids
    }
    if salt:
        tombstones |= {
            ("text", forgotten_key(salt, state.session_id, state.content)) for state in states
        }
    return tombstones


def in_order(scopes: Iterable[Scope], **which: Unpack[ScopeQuery]) -> list[Scope]:
    """Return the scopes that match, by (tenant, app, user); without a limit all.

    Raises:
        InvalidInput: tenant, user or app cannot be part of a scope.
    """
    place = attrgetter(*PARTS)
    parts, after, limit = named(which), which.get("after"), which.get("limit")
    matching = [
        scope
        for scope in sorted(scopes, key=place)
        if (after is None or place(scope) > place(after))
        and all(part in (None, getattr(scope, name)) for name, part in parts.items())
    ]
    return matching[: None if limit is None else bounded(limit)]


def named(which: ScopeQuery) -> dict[str, str | None]:
    """Return the parts of scopes that a query names, by name; None for the others.

    Raises:
        InvalidInput: a part is invalid.
    """
    return {
        name: None if (part := which.get(name)) is None else checked_text(part, f"The {name}")
        for name in PARTS
    }


def matches_filter(filter: Filter, memory: Memory) -> bool:
    """Return True if every field of the filter that is set matches the memory; see `Filter`."""
    return (
        (not filter.types or memory.type in filter.types)
        and (not filter.origins or memory.origin in filter.origins)
        and all(
            getattr(filter, name) in (None, getattr(memory, name))
            for name in ("session_id", "author", "category")
        )
        and (filter.min_importance is None or memory.importance >= filter.min_importance)
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


def _between(at: datetime | None, after: datetime | None, before: datetime | None) -> bool:
    if at is None:
        return after is before is None
    return (after is None or at >= after) and (before is None or at < before)


def is_visible(memory: Memory, now: datetime, superseded: bool | str = False) -> bool:
    """Return True if readers see a memory at `now`; `superseded` as in `Filter`."""
    if not memory.pinned and memory.expires_at is not None and memory.expires_at <= now:
        return False
    if isinstance(superseded, str):
        return memory.state == ("superseded" if superseded == "only" else superseded)
    return superseded or memory.state == "active"


def is_searched(memory: Memory, now: datetime, superseded: bool | str) -> bool:
    """Return True if searches see a memory at `now`: visible ones and kept turns."""
    return is_visible(memory, now, superseded or ("source" if memory.state == "source" else False))
