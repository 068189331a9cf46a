"""Checks of the values that callers give: text, names, JSON and times."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .errors import ConfigurationError, InvalidInput

Given = TypeVar("Given")

MAX_NAME_CHARS = 1024  # characters of a tenant's, user's or app's
MAX_KEY_BYTES = 1024  # of what a row is found by, such as an id or a session's
DEEPEST = 100
MAX_FAULTS = 5  # that an error names
MAX_PLACE_CHARS = 200  # of the place of a fault, which a caller may have named


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """Return where values do not fit and what is taken instead, never what was given."""
    return [
        (
            valid_text(".".join(map(str, fault["loc"]))[:MAX_PLACE_CHARS]),
            fault["msg"].removeprefix("Value error, ").removesuffix("."),
        )
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def fields_adapter(
    name: str, kinds: Mapping[str, Any], **config: bool
) -> TypeAdapter[dict[str, Any]]:
    """Return what checks values by name, each of its kind; those left out stay left out."""
    make = cast("Callable[..., Any]", TypedDict)  # a type checker wants its fields spelled out
    fields = make(name, dict(kinds), total=False)
    fields.__pydantic_config__ = {"arbitrary_types_allowed": True, **config}
    return TypeAdapter(fields)


def check_option(what: str, given: Given, kind: Any) -> Given:
    """Return an option of a developer's as it is.

    Raises:
        ConfigurationError: it is not of the kind; names the option and what it takes, never what
            was given.
    """
    try:
        TypeAdapter(kind).validate_python(given, strict=True)
    except ValidationError as error:
        raise ConfigurationError(f"{what}: {faults(error)[0][1]}.") from None
    return given


def checked_text(value: str, what: str) -> str:
    """Return `value` itself.

    Raises:
        InvalidInput: not a string, contains NUL, or is not valid Unicode (a lone surrogate).
    """
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise InvalidInput(f"{what} must be text, not {type(value).__name__}.")
    if "\0" in value:
        raise InvalidInput(f"{what} holds a NUL character; remove it.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{what} is not valid Unicode ({error.reason}); decode it again."
        ) from error
    return value


def checked_name(value: str, what: str) -> str:
    """Return `value` itself, the name of a tenant, a user or an app.

    Raises:
        InvalidInput: no text that can be kept, or too long.
    """
    if len(checked_text(value, what)) > MAX_NAME_CHARS:
        raise InvalidInput(
            f"{what} has {len(value):,} characters; at most {MAX_NAME_CHARS:,} are allowed."
        )
    return value


def checked_key(value: str, what: str) -> str:
    """Return `value` itself; session and event ids are index keys and so are bounded.

    Raises:
        InvalidInput: no text that can be kept, or longer than 1,024 bytes.
    """
    if len(checked_text(value, what).encode()) > MAX_KEY_BYTES:
        raise InvalidInput(f"{what} is longer than {MAX_KEY_BYTES} bytes; use a shorter one.")
    return value


def checked_scalar(value: Any) -> Any:
    """Return `value` itself, a scalar of JSON; by itself pydantic takes for a float whatever can be
    made one, such as a truth value of numpy.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(value, str | int | float | None):
        raise InvalidInput("The value must be a text, a number, true, false or null.")
    return value


def valid_text(value: str) -> str:
    """Return the text with what no database keeps (NUL, lone surrogates) shown as U+FFFD."""
    return (
        value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def json_text(value: Any, what: str) -> str:
    """Return the value as JSON text that any database and any JSON parser takes.

    Raises:
        InvalidInput: JSON cannot hold it (another type, NaN, infinity, a lone surrogate), or it is
            nested too deep.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except RecursionError as error:
        raise InvalidInput(
            f"{what} is nested too deep; a value may have at most {DEEPEST} levels."
        ) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} is not valid JSON: {error}.") from error
    return text


def too_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Return True if lists and mappings in a JSON value are nested more levels deep."""
    if not isinstance(value, dict | list):
        return False
    parts: Any = value.values() if isinstance(value, dict) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] raw JSON
    return not levels or any(too_deep(part, levels - 1) for part in parts)


def checked_time(at: datetime) -> datetime:
    """Return the same moment in UTC.

    Raises:
        InvalidInput: it has no time zone, or lies outside the years 1 to 9999 in UTC.
    """
    if at.tzinfo is None:
        raise InvalidInput("The time must be an aware datetime; give it a time zone.")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(
            "The time is out of range; use a time between the years 1 and 9999."
        ) from error


def parsed_time(value: Any, what: str) -> datetime:
    """Return the moment that a text names in ISO 8601; without a zone it is UTC.

    Raises:
        InvalidInput: it names none.
    """
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be an ISO 8601 date, such as 2026-01-31.") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
