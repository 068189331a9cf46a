"""Read and write kagent's wire format as its Go server does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Annotated, Any, NoReturn, TypeVar, cast

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    model_validator,
)

from ..checks import DEEPEST, MAX_NAME_CHARS
from ..errors import InvalidInput
from ..records import Fact, Memory, Vector
from ..stores.spaces import checked_vector

DIMENSIONS = 768
MAX_ITEMS = 50
SEARCH_LIMIT = 5
MAX_TTL_DAYS = 36_500
MAX_LIMIT = 10_000
MAX_NUMBER = float(np.finfo(np.float32).max)
MAX_METADATA_PARTS = 250_000  # keys and values at all levels
EMPTY = "\u200b"  # stands for empty content, which kagent accepts and our store refuses
INVALID = "Invalid request body"
MISSING = "Missing required fields (agent_name, user_id, vector)"
MISSING_IN_BATCH = "Missing required fields in batch item"
MISSING_IN_QUERY = "Missing required query parameters (agent_name, user_id)"
VALUE = "kagent_value"  # key for metadata that is not an object
JSON_SPACE = " \t\n\r"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON.")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


Whole = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER, allow_inf_nan=False)]


class GoObject(BaseModel):
    """An object as Go reads it: null means absent, and names match in any case."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _as_in_go(cls, value: object) -> object:
        if not isinstance(value, dict):
            return {} if value is None else value
        fields = cast("dict[str, object]", value)
        parts = {**{key.lower(): part for key, part in fields.items()}, **fields}
        return {key: part for key, part in parts.items() if part is not None}


class AgentUser(GoObject):
    """An agent and a user."""

    agent_name: str = ""
    user_id: str = ""

    def check(self, missing: str) -> None:
        """Refuse an incomplete object with kagent's text `missing`.

        Raises:
            InvalidInput: with kagent's text.
        """
        if not (self.agent_name and self.user_id):
            raise InvalidInput(missing)
        if max(len(self.agent_name), len(self.user_id)) > MAX_NAME_CHARS:
            raise InvalidInput(
                f"agent_name and user_id must have at most {MAX_NAME_CHARS} characters"
            )


class _Embedded(AgentUser):
    vector: Annotated[list[Number | None], FailFast()] = []

    @cached_property
    def array(self) -> Vector:
        """Return the vector as an array.

        Raises:
            InvalidInput: it has the wrong width, or is zero.
        """
        check_width(len(self.vector))
        return checked_vector([number or 0.0 for number in self.vector], DIMENSIONS)

    def check(self, missing: str) -> None:
        """See `AgentUser.check`; the vector must be present and valid."""
        super().check(missing)
        if not self.vector:
            raise InvalidInput(missing)
        _ = self.array


class Item(_Embedded):
    """A memory to store; without a TTL it gets the default one."""

    content: str = ""
    metadata: Any = None
    ttl_days: Whole = 0

    @cached_property
    def fact(self) -> Fact:
        """Return the fact for `Memories.add`.

        Raises:
            InvalidInput: the metadata is nested too deeply or has too many parts.
        """
        metadata: Any = {} if self.metadata is None else self.metadata
        _check_metadata(metadata)
        is_object = isinstance(metadata, dict)
        return Fact(
            self.content if self.content.strip() else EMPTY,
            origin="agent",
            metadata=cast("dict[str, Any]", metadata) if is_object else {VALUE: metadata},
            ttl_days=min(self.ttl_days, MAX_TTL_DAYS) if self.ttl_days > 0 else None,
        )

    def check(self, missing: str) -> None:
        """See `AgentUser.check`; vector and metadata must be valid."""
        super().check(missing)
        _ = self.fact


class Search(_Embedded):
    """A search by vector. `min_score` 0 means no floor."""

    limit: Whole = 0
    min_score: Annotated[float, Field(allow_inf_nan=False)] = 0.0

    @property
    def rows(self) -> int:
        """Return the number of memories to return."""
        return min(self.limit, MAX_LIMIT) if self.limit > 0 else SEARCH_LIMIT


class _Batch(GoObject):
    items: list[Any] = []


Request = TypeVar("Request", bound=AgentUser)


def batch_of(fields: object) -> list[Item]:
    """Return 1 to 50 checked memories to store.

    Raises:
        InvalidInput: with kagent's text.
    """
    items = _read(_Batch, fields).items
    if not items:
        raise InvalidInput("Empty batch")
    check_count(len(items))
    return [_checked(Item, item, MISSING_IN_BATCH) for item in items]


def agent_user_of(fields: Mapping[str, str]) -> AgentUser:
    """Return the agent and user of a list or delete request.

    Raises:
        InvalidInput: with kagent's text.
    """
    exact = {name: fields.get(name) for name in AgentUser.model_fields}
    return _checked(AgentUser, exact, MISSING_IN_QUERY)


def _checked(kind: type[Request], fields: object, missing: str) -> Request:
    parsed = _read(kind, fields)
    parsed.check(missing)
    return parsed


T = TypeVar("T", bound=GoObject)


def _read(kind: type[T], fields: object) -> T:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        raise InvalidInput(INVALID) from error


item_of = partial(_checked, Item, missing=MISSING)
"""Return one memory to store; raises `InvalidInput` with kagent's text."""
search_of = partial(_checked, Search, missing=MISSING)
"""Return a search by vector; raises as `item_of` does."""


def parse_body(body: bytes) -> object:
    """Parse the JSON of a body.

    Raises:
        InvalidInput: with kagent's text.
    """
    text = body.decode(errors="replace").lstrip(JSON_SPACE)
    try:
        # like Go's decoder, use the first value and ignore the rest
        value, _ = DECODER.raw_decode(text)
        if "\\ud" in text.lower():  # lone surrogates become the replacement character
            data = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            value = json.loads(data.decode("utf-16", "replace"))
        return value
    except (ValueError, RecursionError) as error:
        raise InvalidInput(INVALID) from error


def check_count(items: int) -> None:
    """Refuse a batch that is too long, before its items are parsed.

    Raises:
        InvalidInput: with kagent's text.
    """
    if items > MAX_ITEMS:
        raise InvalidInput(f"batch size {items} exceeds maximum allowed size of {MAX_ITEMS}")


def check_width(numbers: int) -> None:
    """Refuse a vector that does not have kagent's width.

    Raises:
        InvalidInput: with kagent's text.
    """
    if numbers != DIMENSIONS:
        raise InvalidInput(f"vector must have exactly {DIMENSIONS} dimensions, got {numbers}")


def _check_metadata(metadata: Any) -> None:
    """Refuse metadata that is nested too deeply or has too many parts.

    Raises:
        InvalidInput: the metadata exceeds a limit.
    """
    if _parts_in(metadata) > MAX_METADATA_PARTS:
        raise InvalidInput(
            f"metadata must not hold more than {MAX_METADATA_PARTS:,} keys and values"
        )


def _parts_in(value: Any, levels: int = DEEPEST) -> int:
    """Count the keys and values in a JSON value at all levels.

    Raises:
        InvalidInput: it holds lists and mappings of more levels.
    """
    if not isinstance(value, dict | list):
        return 0
    if not levels:
        raise InvalidInput(f"metadata must not be nested deeper than {DEEPEST} levels")
    is_object = isinstance(value, dict)
    members = cast("Mapping[str, Any]", value).values() if is_object else cast("list[Any]", value)
    count = len(members) * (2 if is_object else 1)
    return count + sum(_parts_in(member, levels - 1) for member in members)


def search_row(memory: Memory, score: float) -> dict[str, Any]:
    """Return a hit as a row of kagent's search, with the metadata as the client sent it."""
    metadata = memory.metadata
    return {
        "id": memory.id,
        "content": _content(memory),
        "score": score,
        "metadata": metadata[VALUE] if set(metadata) == {VALUE} else dict(metadata),
        "created_at": _nano(memory.created_at),
    }


def list_row(memory: Memory) -> dict[str, Any]:
    """Return a memory as a row of kagent's list."""
    expires_at = memory.expires_at if not memory.pinned else None
    return {
        "id": memory.id,
        "content": _content(memory),
        "access_count": memory.usage.delivered,
        "created_at": _seconds(memory.created_at),
        **({"expires_at": _seconds(expires_at)} if expires_at else {}),
    }


def _content(memory: Memory) -> str:
    return "" if memory.content == EMPTY else memory.content


def _seconds(at: datetime) -> str:
    """Format a time as RFC 3339 in whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nano(at: datetime) -> str:
    """Format a time as RFC 3339 like Go: a fraction without trailing zeros."""
    text = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").removesuffix(".") + "Z"
