"""The types of the verbs' arguments that pydantic cannot read by itself, and where it finds the
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, core_schema

from ..checks import checked_name, checked_text
from ..records import Scope, Scopes
from ..redaction import redact
from .findings import Defect

MAX_DIMENSIONS = 16_000
MAX_HITS = 1000


def _bounded_name(value: str) -> str:
    return checked_name(value, "The name")


def _masked_text(value: str) -> str:
    return redact(checked_text(value, "The text"))


Name: TypeAlias = Annotated[str, AfterValidator(_bounded_name)]
"""The name of a tenant, a user or an app."""
Who: TypeAlias = Annotated[str, AfterValidator(_masked_text)]
"""A short text for the history; secrets in it are masked."""
Count: TypeAlias = Annotated[int, Field(ge=0)]
Hits: TypeAlias = Annotated[int, Field(ge=0, le=MAX_HITS)]
Cosine: TypeAlias = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Defects: TypeAlias = Annotated[Sequence[Defect], Field(min_length=1)]


class _VectorSchema:
    """A vector: whatever the caller has in process, numbers in JSON."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        number = core_schema.float_schema(allow_inf_nan=False)
        numbers = core_schema.list_schema(number, min_length=1, max_length=MAX_DIMENSIONS)
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(_array, numbers),
            python_schema=core_schema.any_schema(),
            serialization=core_schema.plain_serializer_function_ser_schema(_numbers),
        )


def _array(numbers: list[float]) -> object:
    """Return the numbers as whoever uses them wants them: a request is read in a thread, and used
    on a loop.
    """
    import numpy as np

    return np.asarray(numbers, dtype=np.float64)


def _numbers(vector: object) -> list[float]:
    from ..stores.base import checked_vector

    return checked_vector(vector, None).tolist()


class _ModelSchema:
    """A model; in JSON its name alone, which is a text."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.json_or_python_schema(
            json_schema=core_schema.str_schema(),
            python_schema=core_schema.no_info_plain_validator_function(_checked_model),
            serialization=core_schema.plain_serializer_function_ser_schema(_model_name),
        )


def _checked_model(value: Any) -> Any:
    has_name = isinstance(getattr(value, "name", None), str)
    if not has_name or not callable(getattr(value, "complete", None)) or isinstance(value, type):
        raise ValueError("a model with name and complete")
    return value


def _model_name(value: Any) -> str:
    return value.name


def _with_tenant(value: Any, info: ValidationInfo) -> Any:
    """Return a scope of a request with the tenant that it means, where it names none."""
    context: dict[str, Any] | None = info.context
    return (
        {**context, **cast("dict[str, Any]", value)}
        if context and isinstance(value, dict)
        else value
    )


SomeScopes: TypeAlias = Annotated[Scope | Scopes, BeforeValidator(_with_tenant)]


@cache
def namespace() -> Mapping[str, Any]:
    """Return the names that the signatures of `Memories` use, with their types."""
    from .. import records
    from ..ingestion import reembedding
    from ..stores import base, receipts, values
    from . import findings, forgetting, transfer

    own = {
        "Name": Name,
        "Who": Who,
        "Count": Count,
        "Hits": Hits,
        "Cosine": Cosine,
        "Seconds": Seconds,
        "Defects": Defects,
        "Vector": Annotated[Any, _VectorSchema],
        "Llm": Annotated[Any, _ModelSchema],
        "EmbedderChoice": Any,
        "WhichScopes": SomeScopes | Sequence[SomeScopes],
    }
    names: dict[str, Any] = {}
    for module in (records, reembedding, base, receipts, values, findings, transfer, forgetting):
        names |= vars(module)
    return {**names, **own}
