"""Single memories between ADK and us: entries become facts or findings, hits become entries. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types

from ..errors import InvalidInput
from ..memories.tool_answers import Found, filled
from ..records import MEMORY_TYPES, ORIGINS, Fact, Hit, parsed_time
from .event_converter import attached, text_of

T = TypeVar("T")
_SECONDS = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*s\s*$")


def to_entry(hit: Hit) -> MemoryEntry:
    """The hit as ADK knows it; the timestamp is when it happened, else when it was stored."""
    memory = hit.memory
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.content)]),
        author=memory.author,
        timestamp=(memory.happened_at or memory.created_at).isoformat(),
        custom_metadata=dict(memory.metadata),
    )


def to_found(entry: MemoryEntry) -> Found:
    """An entry of another service as a model reads it; an invalid timestamp is left out."""
    text = text_of(entry.content)
    fields = {"id": entry.id, "text": text, "happened_at": entry.timestamp, "author": entry.author}
    try:
        at = datetime.fromisoformat(entry.timestamp) if entry.timestamp else None
    except ValueError:
        at = None
    return Found(text, at, "", filled(fields))


def to_fact(entry: MemoryEntry, custom_metadata: Mapping[str, object] | None = None) -> Fact:
    """What an entry asks to be remembered; its own metadata wins over the call's.

    Raises:
        InvalidInput: it holds no text, or a key that we understand has a value that does not fit.
    """
    files = attached(entry.content.parts or (), named=True)
    text = "\n".join(filter(None, (text_of(entry.content), *files)))
    if not text.strip():
        raise InvalidInput("A memory needs text, or a file's name or URI; this entry has none of them.")
    given: dict[str, Any] = {**(custom_metadata or {}), **entry.custom_metadata}
    for mine, other in (("ttl", "ttl_days"), ("ttl_days", "ttl")):  # the entry's wins over the call's, however named
        if entry.custom_metadata.get(mine) is not None and entry.custom_metadata.get(other) is None:
            given.pop(other, None)
    role = entry.content.role
    return Fact(
        text=text,
        author=entry.author,
        happened_at=parsed_time(entry.timestamp, "A memory's timestamp") if entry.timestamp else None,
        ttl_days=_ttl_days(given),
        session_id=_typed(given, "session_id", str, "text"),
        type=_one_of(given, "type", MEMORY_TYPES, "semantic"),
        origin=_one_of(given, "origin", ORIGINS, "agent" if role == "model" else "user"),
        topics=_labels(given, "topics"),
        tags=_labels(given, "tags"),
        importance=_importance(given),
        pinned=_typed(given, "pinned", bool, "true or false") or False,
        metadata=given,
    )


def _ttl_days(given: dict[str, Any]) -> int | None:
    days, ttl = given.pop("ttl_days", None), given.pop("ttl", None)
    if days is None and ttl is None:
        return None
    if days is None:
        match = _SECONDS.match(ttl) if isinstance(ttl, str) else None
        seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else float(match[1]) if match else 0.0
        if seconds <= 0:
            raise InvalidInput('ttl must be seconds as text, more than 0, such as "6000s"; ttl_days=0 keeps for ever.')
        days = seconds / 86_400
    if isinstance(days, bool) or not isinstance(days, (int, float)) or not math.isfinite(days):
        raise InvalidInput("ttl_days must be a whole number of days.")
    return math.ceil(days)


def _typed(given: dict[str, Any], key: str, kind: type[T], what: str) -> T | None:
    value = given.pop(key, None)
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(f"{key} must be {what}.")
    return value


def _one_of(given: dict[str, Any], key: str, known: tuple[Any, ...], otherwise: Any) -> Any:
    value = given.pop(key, None)
    if value is None:
        return otherwise
    if value not in known:
        raise InvalidInput(f"{key} must be one of {', '.join(known)}.")
    return value


def _labels(given: dict[str, Any], key: str) -> tuple[str, ...]:
    value = given.pop(key, None)
    if value is None:
        return ()
    listed = cast("Iterable[Any]", value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    labels = list(listed)
    if not all(isinstance(label, str) for label in labels):
        raise InvalidInput(f"{key} must be a list of strings.")
    return tuple(labels)


def _importance(given: dict[str, Any]) -> float:
    value = given.pop("importance", None)
    if value is None:
        return 0.5
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInput("importance must be a number from 0 to 1.")
    return float(value)
