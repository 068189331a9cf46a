"""Decisions about a scope's memories that stores share: pages, tombstones, the order of scopes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import AwareDatetime, TypeAdapter
from typing_extensions import Unpack

from ..checks import checked_text
from ..errors import InvalidInput
from ..records import Memory, Scope
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

    def place(scope: Scope) -> tuple[str, str, str]:
        return scope.tenant, scope.app, scope.user

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
