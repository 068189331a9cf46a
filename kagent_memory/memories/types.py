"""The types of the verbs' arguments, in process and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from ..checks import checked_name, checked_text, valid_text
from ..ingestion.editing import checked_session_id
from ..models import embedding, llm
from ..records import MAX_QUERY_CHARS, Filter, Scope, Scopes, Text
from ..redaction import masked_id, redact
from .audit import Defect
from .caller_vectors import checked_caller_vector

MAX_DIMENSIONS = 16_000
MAX_HITS = 1000
MAX_MINUTES = 5_256_000  # ten years


def _array(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return a vector as an array; a request is parsed in a thread but used on the loop."""
    return checked_caller_vector(read(value) if info.mode == "json" else value)


def _numbers(vector: npt.NDArray[np.float32]) -> list[float]:
    return vector.tolist()


def _model(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return a model; JSON may only give its name."""
    if info.mode == "json":
        return read(value)
    has_name = isinstance(getattr(value, "name", None), str)
    if not has_name or not callable(getattr(value, "complete", None)) or isinstance(value, type):
        raise ValueError("a model with name and complete")
    return value


def _cleaned(turn: Any) -> Any:
    return valid_text(turn) if isinstance(turn, str) else turn


def _masked(filter: Filter) -> Filter:
    session_id = filter.session_id
    return filter if session_id is None else replace(filter, session_id=masked_id(session_id))


def _with_tenant(value: Any, info: ValidationInfo) -> Any:
    """Return a scope of a request with its default tenant filled in."""
    default: dict[str, Any] = info.context or {}
    return {**default, **cast("dict[str, Any]", value)} if isinstance(value, dict) else value


def _read_as(kind: Any) -> GetPydanticSchema:
    """Make pydantic check, read and write a type as another one."""
    return GetPydanticSchema(lambda _, handler: handler.generate_schema(kind))


_NUMBERS: Any = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]],
    Field(min_length=1, max_length=MAX_DIMENSIONS),
    WrapValidator(_array),
    PlainSerializer(_numbers),
]
_MODEL: Any = Annotated[str, WrapValidator(_model)]

Name: TypeAlias = Annotated[str, AfterValidator(partial(checked_name, what="The name"))]
"""The name of a tenant, a user or an app."""
Who: TypeAlias = Annotated[Text, AfterValidator(redact)]
"""A short text for the history; secrets in it are masked."""
SessionId: TypeAlias = Annotated[str, AfterValidator(checked_session_id)]
"""The id of a session, with secrets masked as in memories."""
MaskedFilter: TypeAlias = Annotated[Filter, AfterValidator(_masked)]
"""A filter with its session id masked as in memories."""
Query: TypeAlias = Annotated[
    str, Field(max_length=MAX_QUERY_CHARS), AfterValidator(partial(checked_text, what="The query"))
]
Turn: TypeAlias = Annotated[str, BeforeValidator(_cleaned)]
"""A turn said earlier, whose other words count although a character of it cannot be kept."""
Progress: TypeAlias = Callable[[int], None]
Positive: TypeAlias = Annotated[int, Field(ge=1)]
Hits: TypeAlias = Annotated[int, Field(ge=0, le=MAX_HITS)]
Cosine: TypeAlias = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Minutes: TypeAlias = Annotated[float, Field(ge=0, le=MAX_MINUTES)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Defects: TypeAlias = Annotated[Sequence[Defect], Field(min_length=1)]
Vector: TypeAlias = Annotated[npt.NDArray[np.float32], _read_as(_NUMBERS)]
Llm: TypeAlias = Annotated[llm.Llm, _read_as(_MODEL)]
EmbedderChoice: TypeAlias = Annotated[embedding.EmbedderChoice, _read_as(Any)]
SomeScopes: TypeAlias = Annotated[Scope | Scopes, BeforeValidator(_with_tenant)]
WhichScopes: TypeAlias = SomeScopes | Sequence[SomeScopes]
