"""Records as plain JSON and back: one spelling for the command line, the server and the client of a server."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from ..errors import InvalidInput

T = TypeVar("T")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def to_wire(value: Any, kind: Any | None = None) -> Any:
    """A record, or a container of them when `kind` names it, as JSON values; times in ISO 8601.

    What a caller put into a field of another type goes as it is, for the receiver to judge.

    Raises:
        InvalidInput: JSON cannot hold it.
    """
    adapter = _adapter(cast("Any", type(value)) if kind is None else kind)
    try:
        return adapter.dump_python(value, mode="json", warnings=False)
    except PydanticSerializationError as error:
        raise InvalidInput(f"{type(value).__name__} holds what is not JSON: {error}.") from error


def from_wire(data: Any, kind: type[T]) -> T:
    """The record that `to_wire` wrote.

    Raises:
        ValueError: the data has another shape.
    """
    return _adapter(kind).validate_python(data)
