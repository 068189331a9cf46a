"""Verbs made from the signatures of methods: their arguments checked, sent to a server and read
there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cached_property
from pathlib import Path
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json

from ..checks import MAX_FAULTS, faults, fields_adapter
from ..errors import InvalidInput

Method = TypeVar("Method", bound=Callable[..., Any])
MAX_UNKNOWN = 1000


def verb(route: str = "", *, durable: bool = False) -> Callable[[Method], Method]:
    """Make a method of `Memories` a verb, which the `perform` of its object performs: here, or by
    passing it on.

    Args:
        route: where a server answers it, such as "GET /memories/{id}"; empty: only where the store
            is opened.
        durable: once begun it runs to its end, even if its caller stops waiting.
    """

    def declare(function: Method) -> Method:
        declared = Verb(function, route, durable=durable)

        def stream(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return self.perform(declared, args, kwargs)

        async def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            return await self.perform(declared, args, kwargs)

        method = functools.wraps(function)(stream if declared.is_stream else call)
        vars(method)["verb"] = declared
        return cast("Method", method)

    return declare


def verbs_of(kind: type) -> Mapping[str, Verb]:
    """Return the verbs of a class, by name."""
    return {
        name: vars(method)["verb"]
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "verb" in vars(method)
    }


class Verb:
    """One verb, as its method declares it.

    Attributes:
        function: its implementation.
        method, path: where a server answers it, arguments in braces; both empty: nowhere.
        durable: once begun it runs to its end.
        is_stream: it gives lines, one at a time.
    """

    def __init__(self, function: Callable[..., Any], route: str, *, durable: bool) -> None:
        self.function = function
        self.name = function.__name__
        self.method, _, self.path = route.partition(" ")
        self.durable = durable
        self.is_stream = inspect.isasyncgenfunction(function)
        self.doc = inspect.getdoc(function) or ""
        self.signature = inspect.signature(function)
        _, *parameters = self.signature.parameters.values()
        self.defaults = {
            parameter.name: parameter.default
            for parameter in parameters
            if parameter.default is not parameter.empty
        }
        self.required = {parameter.name for parameter in parameters} - self.defaults.keys()

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the arguments by name, and of the answer as "return"."""
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def parameters(self) -> TypeAdapter[dict[str, Any]]:
        """Schema that checks, reads and writes the arguments."""
        kinds = {name: kind for name, kind in self.types.items() if name != "return"}
        return fields_adapter(self.name, kinds)

    @cached_property
    def takes_file(self) -> str:
        """The name of the argument that is a file, which is sent to a server as it is; "" when none
        is.
        """
        return next((name for name, kind in self.types.items() if Path in get_args(kind)), "")

    @property
    def in_query(self) -> bool:
        """True if a server reads the arguments in the query, for want of a body of its own."""
        return self.method in ("GET", "DELETE") or bool(self.takes_file)

    @cached_property
    def wire_types(self) -> Mapping[str, Any]:
        """The types of the arguments that a server takes: no callbacks, and no files, which are
        sent as they are.
        """
        return {
            name: kind
            for name, kind in self.types.items()
            if name not in ("return", self.takes_file) and not _is_callback(kind)
        }

    @cached_property
    def _reader(self) -> SchemaValidator:
        """Validator of the arguments, which reports the first fault of a list."""
        taken = fields_adapter(self.name, self.wire_types)
        return SchemaValidator(_failing_fast(taken.core_schema))

    @cached_property
    def answer(self) -> TypeAdapter[Any]:
        """Schema that writes and reads the answer."""
        return TypeAdapter(self.types["return"])

    def checked(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call by name, each of its declared type; those left out stay
        left out.

        Raises:
            InvalidInput: one does not fit; names it and what it takes.
            TypeError: one is missing, unknown or given twice.
        """
        try:
            bound = self.signature.bind(None, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None
        arguments = {name: _plain(value) for name, value in bound.items() if name != "self"}
        try:
            return self.parameters.validate_python(arguments, strict=True)
        except ValidationError as error:
            raise InvalidInput(_faults(error)) from None

    def written(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as JSON values, without those that are the default.

        Raises:
            InvalidInput: JSON cannot hold one.
        """
        stated = {
            name: value
            for name, value in arguments.items()
            if name in self.wire_types and value is not self.defaults.get(name, ...)
        }
        try:
            return self.parameters.dump_python(
                stated, mode="json", exclude_defaults=True, warnings=False
            )
        except ValueError as error:
            raise InvalidInput(
                f"{self.name}: an argument holds what is not JSON: {error}."
            ) from error

    def read(self, body: bytes, **context: Any) -> dict[str, Any]:
        """Return the arguments that a JSON object names; unknown ones are refused, in what they
        hold too.

        Args:
            body: the JSON.
            **context: what the types of `types.py` are told.

        Raises:
            InvalidInput: it is none, or does not fit; names some faults, never the input.
        """
        try:
            return self._reader.validate_json(body, strict=True, extra="forbid", context=context)
        except ValidationError as error:
            raise InvalidInput(_faults(error)) from error

    def read_texts(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments that a query string names, each as plain text or, if it has parts,
        as JSON.

        Raises:
            InvalidInput: as `read`.
        """
        values: dict[str, Any] = {}
        for name, text in texts.items():
            is_json = name in self.wire_types and has_parts(self.wire_types[name])
            try:
                values[name] = from_json(text) if is_json else text
            except ValueError as error:
                raise InvalidInput(f"{name}: Invalid JSON") from error
        try:
            return self._reader.validate_python(values, extra="forbid")
        except ValidationError as error:
            raise InvalidInput(_faults(error)) from error


def _is_callback(kind: Any) -> bool:
    return any(getattr(part, "__origin__", None) is Callable for part in (kind, *get_args(kind)))


def has_parts(kind: Any) -> bool:
    """Return True if a value of this type may be made of others."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return has_parts(inner[0])
    if origin in (Union, UnionType):
        return any(map(has_parts, inner))
    return origin not in (None, Literal) or is_dataclass(kind)


def _failing_fast(schema: Any) -> Any:
    """Return a core schema whose lists and mappings end at their first fault: a request may have
    millions.
    """
    if isinstance(schema, list):
        return [_failing_fast(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _failing_fast(part) for name, part in cast("dict[str, Any]", schema).items()}
    is_container = parts.get("type") in ("list", "tuple", "dict")
    return {**parts, "fail_fast": True} if is_container else parts


def _faults(error: ValidationError) -> str:
    """Name what does not fit and what is taken instead, never what was given."""
    if error.error_count() > MAX_UNKNOWN:
        return f"{error.error_count():,} arguments are unknown or do not fit."
    messages = [": ".join(filter(None, fault)) for fault in faults(error)[:MAX_FAULTS]]
    return "; ".join(messages).encode(errors="replace").decode()


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to Python's value and another iterable to a list."""
    dimensions: int | None = getattr(value, "ndim", None)
    if dimensions == 0:
        return value.item()
    is_whole = isinstance(value, Sequence | Mapping | BaseModel)
    if is_whole or not isinstance(value, Iterable) or dimensions == 1:
        return cast("Any", value)
    return list(cast("Iterable[Any]", value))
