"""Single memories between ADK and us: entries become facts, hits become entries. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any

from google.adk.memory.memory_entry import MemoryEntry
from google.genai import types
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ..checks import parsed_time
from ..errors import InvalidInput
from ..records import Fact, Hit, MemoryType, Origin
from .arguments import Labels, read
from .event_converter import attached, text_of

_SECONDS = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*s\s*$")


def to_entry(hit: Hit) -> MemoryEntry:
    """Return the hit as ADK knows it, with the time when it happened, else when it was stored."""
    memory = hit.memory
    return MemoryEntry(
        id=memory.id,
        content=types.Content(role="user", parts=[types.Part(text=memory.content)]),
        author=memory.author,
        timestamp=(memory.happened_at or memory.created_at).isoformat(),
        custom_metadata=dict(memory.metadata),
    )


def to_fact(entry: MemoryEntry, call: Mapping[str, Any]) -> Fact:
    """Convert an entry to a fact; its own metadata wins over the fields that its call sets.

    Raises:
        InvalidInput: it holds no text, or a key that we understand has a value that does not fit.
    """
    files = attached(entry.content.parts or (), named=True)
    text = "\n".join(filter(None, (text_of(entry.content), *files)))
    if not text.strip():
        raise InvalidInput(
            "A memory needs text, or a file's name or URI; this entry has none of them."
        )
    own = to_fields(entry.custom_metadata)
    values: dict[str, Any] = {
        "origin": "agent" if entry.content.role == "model" else "user",
        **call,
        **own,
        "metadata": {**call.get("metadata", {}), **own.get("metadata", {})},
    }
    return Fact(
        text=text,
        author=entry.author,
        happened_at=parsed_time(entry.timestamp, "A memory's timestamp")
        if entry.timestamp
        else None,
        **values,
    )


def _days(ttl: object) -> object:
    """Return the days of a `ttl`, which others give in seconds as text; None of None."""
    match = _SECONDS.match(ttl) if isinstance(ttl, str) else None
    seconds = float(match[1]) if match else 0.0
    if ttl is not None and not seconds:
        raise ValueError(
            'must be seconds as text, more than 0, such as "6000s"; ttl_days=0 keeps for ever'
        )
    return seconds / 86_400 or None


class _Fields(BaseModel):
    """Fields of a fact in custom metadata; every other key is its `metadata`."""

    model_config = ConfigDict(strict=True, extra="allow")

    ttl_days: Annotated[float, Field(allow_inf_nan=False)] | None = None
    ttl: Annotated[float | None, BeforeValidator(_days)] = None
    session_id: str | None = None
    type: MemoryType | None = None
    origin: Origin | None = None
    topics: Labels | None = None
    tags: Labels | None = None
    importance: Annotated[float, Field(ge=0, le=1)] | None = None
    pinned: bool | None = None


def to_fields(custom_metadata: Mapping[str, object] | None) -> dict[str, Any]:
    """Return the fields of a fact that custom metadata sets; all other keys are its `metadata`.

    Raises:
        InvalidInput: a key that we understand has a value that does not fit.
    """
    given = read(_Fields, custom_metadata or {})
    fields = given.model_dump(include=set(_Fields.model_fields))
    days = given.ttl if given.ttl_days is None else given.ttl_days
    fields |= {"ttl_days": None if days is None else math.ceil(days), "metadata": given.model_extra}
    del fields["ttl"]
    return {name: value for name, value in fields.items() if value not in (None, (), {})}
