"""Verbs made from the signatures of methods: checked, and written for a server."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from ..checks import described, fields_adapter
from ..errors import InvalidInput

FILE = "path"
# the answer, a file and a callback
NO_JSON = frozenset({"return", FILE, "progress"})
Method = TypeVar("Method", bound=Callable[..., Any])


def verb(route: str = "", *, durable: bool = False) -> Callable[[Method], Method]:
    """Make a method of `Memories` a verb, which the `perform` of its object runs or passes on.

    Args:
        route: the route on a server, such as "GET /memories/{id}"; empty: only in the process that
            opened the store.
        durable: True if it runs to its end once begun, even if its caller stops waiting.
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
    """Return the verbs of a class by name."""
    return {
        name: vars(method)["verb"]
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "verb" in vars(method)
    }


class Verb:
    """One verb, as its method declares it.

    Attributes:
        function: its implementation.
        method, path: its route on a server, with arguments in braces; both empty: none.
        durable: True if it runs to its end once begun.
        is_stream: True if it yields lines.
        takes_file: the name of the argument that is sent to a server as a file, or "".
    """

    def __init__(self, function: Callable[..., Any], route: str, *, durable: bool) -> None:
        self.function = function
        self.name = function.__name__
        self.method, _, self.path = route.partition(" ")
        self.durable = durable
        self.is_stream = inspect.isasyncgenfunction(function)
        self.signature = inspect.signature(function)
        self.takes_file = FILE if FILE in self.signature.parameters else ""
        self.defaults = {
            name: parameter.default
            for name, parameter in self.signature.parameters.items()
            if parameter.default is not parameter.empty
        }

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """Return the types of the arguments by name, and of the answer as "return"."""
        return get_type_hints(self.function, include_extras=True)

    @cached_property
    def parameters(self) -> TypeAdapter[dict[str, Any]]:
        """Return the schema that checks, reads and writes the arguments."""
        kinds = {name: kind for name, kind in self.types.items() if name != "return"}
        return fields_adapter(kinds)

    @property
    def in_query(self) -> bool:
        """Return True if a server reads the arguments from the query string."""
        return self.method in ("GET", "DELETE") or bool(self.takes_file)

    @cached_property
    def wire_types(self) -> Mapping[str, Any]:
        """Return the types of the arguments that a server takes as JSON, without callbacks and
        files.
        """
        return {name: kind for name, kind in self.types.items() if name not in NO_JSON}

    @cached_property
    def answer(self) -> TypeAdapter[Any]:
        """Return the schema that writes and reads the answer."""
        return TypeAdapter(self.types["return"])

    def checked(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Check the arguments of a call and return those given, by name.

        Raises:
            InvalidInput: an argument is invalid; the message names it and what it takes.
            TypeError: an argument is missing, unknown or given twice.
        """
        try:
            bound = self.signature.bind(None, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None
        arguments = {name: _plain(value) for name, value in bound.items() if name != "self"}
        try:
            return self.parameters.validate_python(arguments, strict=True)
        except ValidationError as error:
            raise InvalidInput(described(error)) from None

    def written(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments as JSON values, without those that equal the default.

        Raises:
            InvalidInput: JSON cannot represent one.
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


def _plain(value: Any) -> Any:
    """Convert a numpy scalar to Python's value and another iterable to a list."""
    dimensions: int | None = getattr(value, "ndim", None)
    if dimensions == 0:
        return value.item()
    is_whole = isinstance(value, Sequence | Mapping | BaseModel)
    if is_whole or not isinstance(value, Iterable) or dimensions == 1:
        return cast("Any", value)
    return list(cast("Iterable[Any]", value))
