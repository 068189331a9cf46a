"""Checks of callers' values: text, names, JSON and times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from .errors import ConfigurationError, InvalidInput

Given = TypeVar("Given")

MAX_NAME_CHARS = 1024  # of a tenant, user or app
MAX_KEY_BYTES = 1024  # of an index key, such as an id or a session id
DEEPEST = 100
MAX_FAULTS = 5  # listed in an error message
MAX_PLACE_CHARS = 200  # of the name of a field, which a caller may have chosen
TIME_EXPECTED = "Input should be an ISO 8601 date or time, such as 2026-01-31"


def faults(error: ValidationError) -> list[tuple[str, str]]:
    """Return where values are invalid and what is accepted instead, never the values."""
    return [
        (
            valid_text(".".join(map(str, fault["loc"]))[:MAX_PLACE_CHARS]),
            TIME_EXPECTED
            if fault["type"].startswith("datetime_")
            else fault["msg"].removeprefix("Value error, ").removesuffix("."),
        )
        for fault in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def described(error: ValidationError) -> str:
    """Say which values are invalid and what is accepted instead, never the values."""
    return "; ".join(": ".join(filter(None, fault)) for fault in faults(error)[:MAX_FAULTS])


def fields_adapter(kinds: Mapping[str, Any], **config: bool) -> TypeAdapter[dict[str, Any]]:
    """Return an adapter that checks values by name and type; missing ones stay missing."""
    make: Any = TypedDict  # type checkers want its fields spelled out
    fields = make("Arguments", kinds, total=False)
    fields.__pydantic_config__ = {"arbitrary_types_allowed": True, **config}
    return TypeAdapter(fields)


def check_option(what: str, given: Given, kind: Any) -> Given:
    """Check the type of a developer's option and return it.

    Raises:
        ConfigurationError: it has the wrong type; the message names the option and what it takes,
            never the value.
    """
    try:
        TypeAdapter(kind).validate_python(given, strict=True)
    except ValidationError as error:
        raise ConfigurationError(f"{what}: {faults(error)[0][1]}.") from None
    return given


def checked_text(value: str, what: str) -> str:
    """Return `value` if it is valid text.

    Raises:
        InvalidInput: it is no string, contains NUL, or is not valid Unicode (a lone surrogate).
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
    """Return `value` if it is a valid name of a tenant, user or app.

    Raises:
        InvalidInput: it is no valid text, or too long.
    """
    if len(checked_text(value, what)) > MAX_NAME_CHARS:
        raise InvalidInput(
            f"{what} has {len(value):,} characters; at most {MAX_NAME_CHARS:,} are allowed."
        )
    return value


def checked_key(value: str, what: str) -> str:
    """Return `value` if it is a valid session or event id; these are index keys and limited in
    length.

    Raises:
        InvalidInput: it is no valid text, or longer than 1,024 bytes.
    """
    if len(checked_text(value, what).encode()) > MAX_KEY_BYTES:
        raise InvalidInput(f"{what} is longer than {MAX_KEY_BYTES} bytes; use a shorter one.")
    return value


def checked_scalar(value: Any) -> Any:
    """Return `value` if it is a JSON scalar; pydantic alone takes anything convertible for a float,
    such as a boolean of numpy.

    Raises:
        InvalidInput: it is no scalar.
    """
    if not isinstance(value, str | int | float | None):
        raise InvalidInput("The value must be a text, a number, true, false or null.")
    return value


def valid_text(value: str) -> str:
    """Replace characters that no database stores (NUL, lone surrogates) by U+FFFD."""
    return (
        value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def json_text(value: Any, what: str) -> str:
    """Return the value as JSON that any database and parser accepts.

    Raises:
        InvalidInput: JSON cannot represent it (another type, NaN, infinity, a lone surrogate), or
            it is nested too deeply.
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


def checked_time(at: datetime) -> datetime:
    """Return the time in UTC.

    Raises:
        InvalidInput: it has no time zone, or is outside the years 1 to 9999 in UTC.
    """
    if not at.tzinfo:
        raise InvalidInput("The time must be an aware datetime; give it a time zone.")
    try:
        return at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(
            "The time is out of range; use a time between the years 1 and 9999."
        ) from error


def parsed_time(value: Any, what: str) -> datetime:
    """Parse an ISO 8601 time; without a zone it is UTC.

    Raises:
        InvalidInput: the text is no such time.
    """
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must be an ISO 8601 date, such as 2026-01-31.") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)
