"""kagent's wire form, read the way its Go server reads it and written the way it writes it:
pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar, cast

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)

from ..checks import DEEPEST, LONGEST_NAME, too_deep
from ..errors import InvalidInput
from ..records import Fact, Memory, Vector
from ..stores.base import checked_vector

DIMENSIONS = 768
MOST_ITEMS = 50
SEARCH_LIMIT = 5
LONGEST_TTL_DAYS = 36_500
LARGEST_LIMIT = 10_000
MAX_NUMBER = float(np.finfo(np.float32).max)
MAX_METADATA_PARTS = 250_000  # keys and values, however they are nested
EMPTY = "\u200b"  # stands for kagent's empty content: our store refuses a text that says nothing
INVALID = "Invalid request body"
MISSING = "Missing required fields (agent_name, user_id, vector)"
TOO_LONG = f"agent_name and user_id must have at most {LONGEST_NAME} characters"
VALUE = "kagent_value"  # holds metadata that is not an object, since a memory's metadata is one

JSON_SPACE = " \t\n\r"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON.")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


Sent = TypeVar("Sent", bound=BaseModel)


class Refused(InvalidInput):
    """The request is invalid; the text is what kagent answers."""


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


@dataclass(frozen=True, slots=True)
class Named:
    """An agent and a user."""

    agent_name: str
    user_id: str


def _text(value: str) -> str:
    """Go reads a lone surrogate as the replacement character."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _text_or_other(value: object) -> object:
    return _text(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text_or_other)]
Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER, allow_inf_nan=False)]


class _Fields(BaseModel):
    """An object as Go reads it: null is nothing, and names match whatever their case."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _as_in_go(cls, value: object) -> object:
        if not isinstance(value, dict):
            return {} if value is None else value
        named = cast("dict[str, object]", value)
        found = {**{key.lower(): part for key, part in named.items()}, **named}
        return {key: part for key, part in found.items() if part is not None}


class _Batch(_Fields):
    items: list[Any] = []


class _Vector(_Fields):
    agent_name: Text = ""
    user_id: Text = ""
    vector: Annotated[list[Number | None], FailFast()] = []

    def checked_vector(self, missing: str) -> Vector:
        """Return the vector of an object that is complete.

        Raises:
            Refused: with kagent's text, which is `missing` where something is.
        """
        if max(len(self.agent_name), len(self.user_id)) > LONGEST_NAME:
            raise Refused(TOO_LONG)
        if not (self.agent_name and self.user_id and self.vector):
            raise Refused(missing)
        if len(self.vector) != DIMENSIONS:
            raise Refused(wrong_width(len(self.vector)))
        try:
            return checked_vector([number or 0.0 for number in self.vector], DIMENSIONS)
        except InvalidInput as error:
            raise Refused(str(error)) from error


class _Item(_Vector):
    content: Text = ""
    metadata: Any = None
    ttl_days: Whole = 0


class _Search(_Vector):
    limit: Whole = 0
    min_score: Annotated[float, Field(allow_inf_nan=False)] = 0.0


def item_of(fields: object) -> StoredItem:
    """One memory to store.

    Raises:
        Refused: with kagent's text.
    """
    return _item(fields, MISSING)


def batch_of(fields: object) -> list[StoredItem]:
    """Return 1 to 50 memories to store, all checked.

    Raises:
        Refused: with kagent's text.
    """
    items = _read(_Batch, fields).items
    if not items:
        raise Refused("Empty batch")
    check_count(len(items))
    return [_item(one, "Missing required fields in batch item") for one in items]


def check_count(items: int) -> None:
    """Refuse a batch that is too long, which can be told before it is read.

    Raises:
        Refused: with kagent's text.
    """
    if items > MOST_ITEMS:
        raise Refused(f"batch size {items} exceeds maximum allowed size of {MOST_ITEMS}")


def search_of(fields: object) -> Search:
    """A question by vector.

    Raises:
        Refused: with kagent's text.
    """
    sent = _read(_Search, fields)
    limit = min(sent.limit, LARGEST_LIMIT) if sent.limit > 0 else SEARCH_LIMIT
    return Search(
        sent.agent_name, sent.user_id, sent.checked_vector(MISSING), limit, sent.min_score
    )


def named_of(fields: Mapping[str, str]) -> Named:
    """Return the agent and the user that a list or a delete names.

    Raises:
        Refused: with kagent's text.
    """
    agent_name, user_id = fields.get("agent_name"), fields.get("user_id")
    if not agent_name or not user_id:
        raise Refused("Missing required query parameters (agent_name, user_id)")
    if max(len(agent_name), len(user_id)) > LONGEST_NAME:
        raise Refused(TOO_LONG)
    return Named(agent_name, user_id)


def _item(fields: object, missing: str) -> StoredItem:
    sent = _read(_Item, fields)
    vector, metadata = sent.checked_vector(missing), sent.metadata
    ttl = min(sent.ttl_days, LONGEST_TTL_DAYS) if sent.ttl_days > 0 else None
    if metadata is not None and too_deep(metadata):
        raise Refused(f"metadata must not be nested deeper than {DEEPEST} levels")
    if metadata is not None and not _has_few_parts(metadata):
        raise Refused(f"metadata must not hold more than {MAX_METADATA_PARTS:,} keys and values")
    cleaned: Any = {} if metadata is None else _clean(metadata)
    kept = cast("dict[str, Any]", cleaned) if isinstance(cleaned, dict) else {VALUE: cleaned}
    return StoredItem(sent.agent_name, sent.user_id, sent.content, vector, kept, ttl)


def decoded(body: bytes) -> object:
    """Return the JSON of a body.

    Raises:
        Refused: with kagent's text.
    """
    text = body.decode(errors="replace").lstrip(JSON_SPACE)
    try:
        # like Go's decoder: the first value counts, whatever follows
        return DECODER.raw_decode(text)[0]
    except (ValueError, RecursionError) as error:
        raise Refused(INVALID) from error


def _read(kind: type[Sent], fields: object) -> Sent:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise Refused(INVALID) from error


def wrong_width(numbers: int) -> str:
    """The text of kagent for a vector of so many numbers."""
    return f"vector must have exactly {DIMENSIONS} dimensions, got {numbers}"


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
