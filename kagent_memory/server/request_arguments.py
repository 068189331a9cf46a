"""Parse the arguments of a verb in a request: an object in JSON, or a query string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import BeforeValidator, ValidationError, ValidationInfo
from pydantic_core import SchemaValidator, from_json

from ..checks import described, fields_adapter
from ..errors import InvalidInput
from ..memories.types import WhichScopes
from ..memories.verbs import Verb
from ..records import Scope, Scopes

MAX_UNKNOWN = 1000  # arguments whose faults are worth listing


def _with_tenant(value: Any, info: ValidationInfo) -> Any:
    """Return a scope of a request with its default tenant filled in."""
    default: dict[str, Any] = info.context or {}
    return {**default, **cast("dict[str, Any]", value)} if isinstance(value, dict) else value


_Scopes: TypeAlias = Annotated[Scope | Scopes, BeforeValidator(_with_tenant)]


def read(verb: Verb, body: bytes, **context: Any) -> dict[str, Any]:
    """Parse the arguments in a JSON object; unknown ones are refused, nested ones too.

    Args:
        verb: the verb.
        body: the JSON.
        **context: the default tenant of the scopes in it.

    Raises:
        InvalidInput: the body is no such object; the message names faults, never the input.
    """
    try:
        return _reader(verb).validate_json(body, strict=True, extra="forbid", context=context)
    except ValidationError as error:
        raise _refusal(error) from error


def read_texts(verb: Verb, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse the arguments in a query string, each as plain text or, if it has parts, as JSON.

    Raises:
        InvalidInput: as for `read`.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        is_json = name in verb.wire_types and has_parts(verb.wire_types[name])
        try:
            values[name] = from_json(text) if is_json else text
        except ValueError as error:
            raise InvalidInput(f"{name}: Invalid JSON") from error
    try:
        return _reader(verb).validate_python(values, extra="forbid")
    except ValidationError as error:
        raise _refusal(error) from error


def has_parts(kind: Any) -> bool:
    """Return True if a value of this type may consist of others."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return has_parts(inner[0])
    if origin in (Union, UnionType):
        return any(map(has_parts, inner))
    return origin not in (None, Literal) or is_dataclass(kind)


@cache
def _reader(verb: Verb) -> SchemaValidator:
    """Return the validator of a verb's arguments, which stops at the first fault of a list."""
    kinds = {
        name: _Scopes | Sequence[_Scopes] if kind == WhichScopes else kind
        for name, kind in verb.wire_types.items()
    }
    if "llm" in kinds:
        kinds["llm"] = str | None  # a request can only name a model
    return SchemaValidator(_failing_fast(fields_adapter(kinds).core_schema))


def _failing_fast(schema: Any) -> Any:
    """Return a core schema whose lists and mappings stop at the first fault, since a request may
    have millions.
    """
    if isinstance(schema, list):
        return [_failing_fast(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = {name: _failing_fast(part) for name, part in cast("dict[str, Any]", schema).items()}
    is_container = parts.get("type") in ("list", "tuple", "dict")
    return {**parts, "fail_fast": True} if is_container else parts


def _refusal(error: ValidationError) -> InvalidInput:
    if error.error_count() > MAX_UNKNOWN:
        return InvalidInput(f"{error.error_count():,} arguments are unknown or do not fit.")
    return InvalidInput(described(error))
