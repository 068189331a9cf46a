"""Bodies of requests: JSON that is bounded, parsed off the event loop and validated before a route sees it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias, cast, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator
from typing_extensions import override

from ..concurrency import run_in_thread

MOST_VALUES = 250_000
MOST_MEMBERS = 20_000  # of one list or object; a list of numbers that is not very long counts as one value
DEEPEST_NESTING = 1_000
MOST_ERRORS = 5
READ_AT_ONCE = 65_536  # characters; so many the interpreter's own reader takes in some milliseconds
NUMBERS_AT_ONCE = 131_072

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBERS = re.compile(rf"\[[0-9eE+\-., \t\n\r]{{0,{NUMBERS_AT_ONCE}}}\]")
_SCALAR = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null")
_string: Callable[[str, int, bool], tuple[str, int]] = json.decoder.scanstring  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownMemberType]
_WORDS: dict[str, JsonValue] = {"true": True, "false": False, "null": None}

Container: TypeAlias = list[JsonValue] | dict[str, JsonValue]


class Unreadable(ValueError):
    """The text is not JSON, or too much of it."""


def parsed(text: str) -> tuple[JsonValue, int]:
    """The first JSON value in a text, and where it ends; NaN and infinity are not JSON.

    Raises:
        Unreadable: there is none, or it is too much: too many values, members of one list or object, or levels.
    """
    try:
        if len(text) > READ_AT_ONCE:
            return _Reader(text).value()
        return json.JSONDecoder(parse_constant=_refused).raw_decode(text, _spaced(text, 0))
    except RecursionError:
        return _Reader(text).value()
    except Unreadable:
        raise
    except (ValueError, IndexError) as error:  # also a number of more digits than Python takes
        raise Unreadable("The body is not valid JSON.") from error


def _refused(name: str) -> float:
    raise Unreadable(f"{name} is not valid JSON.")


def _spaced(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


class _Reader:
    """Reads step by step, so that other threads can run; the standard library's parser holds the GIL to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = _spaced(text, 0)
        self._open: list[tuple[Container, str]] = []  # the containers around, each with the key that waits for a value
        self._left = MOST_VALUES

    def value(self) -> tuple[JsonValue, int]:
        """The value, and where it ends."""
        while True:
            self._left -= 1
            if self._left < 0:
                raise Unreadable(f"The body holds more than {MOST_VALUES:,} values.")
            value = self._next()
            while value is not _OPENED:
                if not self._open:
                    return cast("JsonValue", value), self._at
                value = self._placed(cast("JsonValue", value))

    def _next(self) -> object:
        """The value that begins here; _OPENED when it is a container with something in it."""
        text, at = self._text, self._at
        sign = text[at]
        if sign == '"':
            value, self._at = _string(text, at + 1, True)
            return value
        if sign == "[" and (numbers := _NUMBERS.match(text, at)):
            self._at = numbers.end()
            return json.loads(numbers.group())
        if match := _SCALAR.match(text, at):
            self._at = match.end()
            whole, fraction, power = match.groups()
            if whole is None:
                return _WORDS[match.group()]
            return int(whole) if fraction is None and power is None else float(match.group())
        if sign not in "[{":
            raise Unreadable("The body is not valid JSON.")
        made: Container = [] if sign == "[" else {}
        self._at = _spaced(text, at + 1)
        if text[self._at] == ("]" if sign == "[" else "}"):
            self._at += 1
            return made
        self._open.append((made, "" if sign == "[" else self._key()))
        if len(self._open) > DEEPEST_NESTING:
            raise Unreadable(f"The body is nested deeper than {DEEPEST_NESTING:,} levels.")
        return _OPENED

    def _key(self) -> str:
        if self._text[self._at] != '"':
            raise Unreadable("The body is not valid JSON.")
        key, at = _string(self._text, self._at + 1, True)
        at = _spaced(self._text, at)
        if self._text[at] != ":":
            raise Unreadable("The body is not valid JSON.")
        self._at = _spaced(self._text, at + 1)
        return key

    def _placed(self, value: JsonValue) -> object:
        """Puts a value into its container: that one when it ends here, else _OPENED."""
        made, key = self._open[-1]
        if isinstance(made, list):
            made.append(value)
        else:
            made[key] = value
        if len(made) > MOST_MEMBERS:
            raise Unreadable(f"A list or object in the body has more than {MOST_MEMBERS:,} members.")
        at = _spaced(self._text, self._at)
        sign = self._text[at]
        self._at = at + 1
        if sign == ("]" if isinstance(made, list) else "}"):
            self._open.pop()
            return made
        if sign != ",":
            raise Unreadable("The body is not valid JSON.")
        self._at = _spaced(self._text, self._at)
        if isinstance(made, dict):
            self._open[-1] = made, self._key()
        return _OPENED


_OPENED = object()


def media_type(request: Request) -> str:
    """What a request says that its body is, without parameters such as the character set."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def as_object(value: object) -> Mapping[str, object]:
    """The value as a JSON object; an empty one when it is something else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


class Strict(BaseModel):
    """A body without unknown fields: a misspelt one is an error, not silence."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: object) -> object:
        # one error for all fields that are too many, instead of one for each
        if len(as_object(given)) > len(cls.model_fields):
            raise ValueError(f"has more fields than {', '.join(cls.model_fields)}")
        return given


class BoundedRoute(APIRoute):
    """A route whose body is bounded, and parsed and validated off the event loop when it is long."""

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, which finds the checked body in its request."""
        handle = super().get_route_handler()
        kinds = get_type_hints(self.endpoint).values()
        body = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Strict)), None)
        if body is None:
            return handle

        async def handle_checked(request: Request) -> Response:
            raw = await request.body()
            sent = media_type(request)
            is_json = sent == "application/json" or (sent.startswith("application/") and sent.endswith("+json"))
            if not raw or not is_json:
                return await handle(request)
            value = await run_in_thread(len(raw), partial(checked, body, raw))
            return await handle(_Checked(request, raw, value))

        return handle_checked


def checked(kind: type[BaseModel], raw: bytes) -> BaseModel:
    """A body as the route takes it.

    Raises:
        RequestValidationError: it is not JSON, or does not fit; tells a few of its faults, and never what was sent.
    """
    try:
        text = raw.decode("utf-8-sig")
        value, end = parsed(text)
        if text[end:].strip(" \t\n\r"):
            raise Unreadable("There is extra data after the JSON value.")
    except UnicodeDecodeError as error:
        raise RequestValidationError([_fault("The body is not UTF-8.")]) from error
    except Unreadable as error:
        raise RequestValidationError([_fault(str(error))]) from error
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:MOST_ERRORS]
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in faults]) from error


def _fault(text: str) -> dict[str, object]:
    return {"type": "json_invalid", "loc": ("body",), "msg": text}


class _Checked(Request):
    """A request whose body was read; its JSON is the value that the route takes."""

    def __init__(self, request: Request, raw: bytes, value: BaseModel) -> None:
        super().__init__(request.scope, request.receive)
        self._raw, self._value = raw, value

    @override
    async def body(self) -> bytes:
        """The bytes."""
        return self._raw

    @override
    async def json(self) -> Any:
        """The checked value."""
        return self._value
