"""kagent's wire form, read the way its Go server reads it and written the way it writes it:
pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NoReturn, cast

import numpy as np

from ..checks import DEEPEST, LONGEST_NAME, too_deep
from ..errors import InvalidInput
from ..records import Fact, Memory, Vector
from ..stores.base import checked_vector

DIMENSIONS = 768
MOST_ITEMS = 50
SEARCH_LIMIT = 5
LONGEST_TTL_DAYS = 36_500
LARGEST_LIMIT = 10_000
MAX_METADATA_PARTS = 250_000  # keys and values, however they are nested
EMPTY = "\u200b"  # stands for kagent's empty content: our store refuses a text that says nothing
TOO_LONG = f"agent_name and user_id must have at most {LONGEST_NAME} characters"
VALUE = "kagent_value"  # holds metadata that is not an object, since a memory's metadata is one

JSON_SPACE = " \t\n\r"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON.")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Refused(Exception):
    """The request is invalid; the text is what kagent answers."""


class _BadBody(Refused):
    def __init__(self) -> None:
        super().__init__("Invalid request body")


@dataclass(frozen=True, slots=True)
class StoredItem:
    """One memory to store."""

    agent_name: str
    user_id: str
    content: str
    vector: Vector
    metadata: Mapping[str, Any]
    ttl_days: int | None

    def fact(self) -> Fact:
        """The record that `Memories.add` takes; without a TTL the server's holds."""
        return Fact(
            self.content if self.content.strip() else EMPTY,
            origin="agent",
            metadata=self.metadata,
            ttl_days=self.ttl_days,
        )


@dataclass(frozen=True, slots=True)
class Search:
    """A question by vector. `min_score` 0: no floor."""

    agent_name: str
    user_id: str
    vector: Vector
    limit: int
    min_score: float


def item(body: bytes) -> StoredItem:
    """One memory of a body.

    Raises:
        Refused: with kagent's text.
    """
    return item_of(_decoded(body))


def item_of(fields: Mapping[str, Any]) -> StoredItem:
    """One memory as its fields.

    Raises:
        Refused: with kagent's text.
    """
    return _item(fields, "Missing required fields (agent_name, user_id, vector)")


def batch(body: bytes) -> list[StoredItem]:
    """1 to 50 memories of a body, all checked.

    Raises:
        Refused: with kagent's text.
    """
    return batch_of(_field(_decoded(body), "items", list, []))


def batch_of(items: Sequence[Any]) -> list[StoredItem]:
    """1 to 50 memories as their fields, all checked.

    Raises:
        Refused: with kagent's text.
    """
    if not items:
        raise Refused("Empty batch")
    check_count(len(items))
    # a null item is an empty one to Go
    return [
        _item(_object({} if one is None else one), "Missing required fields in batch item")
        for one in items
    ]


def check_count(items: int) -> None:
    """Refuses a batch that is too long, which can be told before it is read.

    Raises:
        Refused: with kagent's text.
    """
    if items > MOST_ITEMS:
        raise Refused(f"batch size {items} exceeds maximum allowed size of {MOST_ITEMS}")


def search(body: bytes) -> Search:
    """The question of a body.

    Raises:
        Refused: with kagent's text.
    """
    return search_of(_decoded(body))


def search_of(fields: Mapping[str, Any]) -> Search:
    """The question as its fields.

    Raises:
        Refused: with kagent's text.
    """
    numbers = _numbers(fields)
    limit, floor = _whole(fields, "limit"), _number(_field(fields, "min_score", (int, float), 0.0))
    agent_name, user_id = _names(fields)
    if not (agent_name and user_id and numbers):
        raise Refused("Missing required fields (agent_name, user_id, vector)")
    return Search(
        agent_name,
        user_id,
        _vector(numbers),
        min(limit, LARGEST_LIMIT) if limit > 0 else SEARCH_LIMIT,
        floor,
    )


def _item(fields: Mapping[str, Any], missing: str) -> StoredItem:
    numbers = _numbers(fields)
    content, ttl_days = _text(_field(fields, "content", str, "")), _whole(fields, "ttl_days")
    agent_name, user_id = _names(fields)
    if not (agent_name and user_id and numbers):
        raise Refused(missing)
    ttl = min(ttl_days, LONGEST_TTL_DAYS) if ttl_days > 0 else None
    vector, sent = _vector(numbers), fields.get("metadata")
    if sent is not None and too_deep(sent):
        raise Refused(f"metadata must not be nested deeper than {DEEPEST} levels")
    if sent is not None and not _has_few_parts(sent):
        raise Refused(f"metadata must not hold more than {MAX_METADATA_PARTS:,} keys and values")
    cleaned: Any = {} if sent is None else _clean(sent)
    metadata = cast("dict[str, Any]", cleaned) if isinstance(cleaned, dict) else {VALUE: cleaned}
    return StoredItem(agent_name, user_id, content, vector, metadata, ttl)


def _decoded(body: bytes) -> Mapping[str, Any]:
    text = body.decode(errors="replace").lstrip(JSON_SPACE)
    try:
        # like Go's decoder: the first value counts, whatever follows
        value: object = DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        raise _BadBody from error
    return {} if value is None else _object(value)


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _BadBody
    # Go matches names whatever their case; the exact one wins
    named = cast("dict[str, Any]", value)
    return {**{key.lower(): part for key, part in named.items()}, **named}


def _field(fields: Mapping[str, Any], name: str, kind: type | tuple[type, ...], absent: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return absent
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _BadBody
    return value


def _names(fields: Mapping[str, Any]) -> tuple[str, str]:
    names = _text(_field(fields, "agent_name", str, "")), _text(_field(fields, "user_id", str, ""))
    if max(map(len, names)) > LONGEST_NAME:
        raise Refused(TOO_LONG)
    return names


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = _field(fields, name, int, 0)
    if not -(2**63) <= value < 2**63:
        raise _BadBody
    return value


def _number(value: float) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise _BadBody from error
    if not math.isfinite(number):
        raise _BadBody
    return number


def _numbers(fields: Mapping[str, Any]) -> list[float]:
    values = _field(fields, "vector", list, [])
    if not all(
        part is None or (isinstance(part, (int, float)) and not isinstance(part, bool))
        for part in values
    ):
        raise _BadBody
    numbers = [_number(part or 0.0) for part in values]
    if any(abs(number) > float(np.finfo(np.float32).max) for number in numbers):
        raise _BadBody
    return numbers


def wrong_width(numbers: int) -> str:
    """The text of kagent for a vector of so many numbers."""
    return f"vector must have exactly {DIMENSIONS} dimensions, got {numbers}"


def _vector(numbers: Sequence[float]) -> Vector:
    if len(numbers) != DIMENSIONS:
        raise Refused(wrong_width(len(numbers)))
    try:
        return checked_vector(numbers, DIMENSIONS)
    except InvalidInput as error:
        raise Refused(str(error)) from error


def _has_few_parts(metadata: object) -> bool:
    """Return True if `metadata` holds at most `MAX_METADATA_PARTS` keys and values in all."""
    remaining = MAX_METADATA_PARTS
    containers = [metadata]
    while containers:
        container = containers.pop()
        if isinstance(container, dict):
            members = cast("dict[str, object]", container)
            parts: list[object] = [*members, *members.values()]
        elif isinstance(container, list):
            parts = cast("list[object]", container)
        else:
            continue
        remaining -= len(parts)
        if remaining < 0:
            return False
        containers += parts
    return True


def _text(value: str) -> str:
    """Go reads a lone surrogate as the replacement character."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _clean(value: Any) -> Any:
    match value:
        case str():
            return _text(value)
        case list():
            return [_clean(part) for part in cast("list[Any]", value)]
        case dict():
            return {_text(key): _clean(part) for key, part in cast("dict[str, Any]", value).items()}
        case _:
            return value


def found(memory: Memory, score: float) -> dict[str, Any]:
    """A hit as kagent's search writes it."""
    return {
        "id": memory.id,
        "content": content_of(memory),
        "score": score,
        "metadata": metadata_of(memory),
        "created_at": nano(memory.created_at),
    }


def metadata_of(memory: Memory) -> Any:
    """The metadata as the client sent it."""
    metadata = memory.metadata
    return metadata[VALUE] if set(metadata) == {VALUE} else dict(metadata)


def listed(memory: Memory) -> dict[str, Any]:
    """A memory as kagent's list writes it."""
    expires = (
        {"expires_at": seconds(memory.expires_at)}
        if memory.expires_at and not memory.pinned
        else {}
    )
    return {
        "id": memory.id,
        "content": content_of(memory),
        "access_count": memory.usage.delivered,
        "created_at": seconds(memory.created_at),
        **expires,
    }


def content_of(memory: Memory) -> str:
    """The content as the client sent it."""
    return "" if memory.content == EMPTY else memory.content


def seconds(at: datetime) -> str:
    """RFC 3339 in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def nano(at: datetime) -> str:
    """RFC 3339 with the fraction as Go writes it: no closing zeros, no empty fraction."""
    whole, _, fraction = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}Z" if fraction else f"{whole}Z"
