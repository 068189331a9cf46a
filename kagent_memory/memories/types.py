"""The types of the verbs' arguments that pydantic cannot read by itself, and where it finds the
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from ..checks import checked_name
from ..records import Scope, Scopes, Text
from ..redaction import redact
from .findings import Defect

MAX_DIMENSIONS = 16_000
MAX_HITS = 1000
MAX_MINUTES = 5_256_000  # ten years


Name: TypeAlias = Annotated[str, AfterValidator(partial(checked_name, what="The name"))]
"""The name of a tenant, a user or an app."""
Who: TypeAlias = Annotated[Text, AfterValidator(redact)]
"""A short text for the history; secrets in it are masked."""
Count: TypeAlias = Annotated[int, Field(ge=0)]
Hits: TypeAlias = Annotated[int, Field(ge=0, le=MAX_HITS)]
Cosine: TypeAlias = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]
Minutes: TypeAlias = Annotated[float, Field(ge=0, le=MAX_MINUTES)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Defects: TypeAlias = Annotated[Sequence[Defect], Field(min_length=1)]


def _array(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return a vector: whatever the caller has in process; numbers of JSON as whoever uses them
    wants them, since a request is read in a thread, and used on a loop.
    """
    import numpy as np

    return np.asarray(read(value), dtype=np.float64) if info.mode == "json" else value


def _numbers(vector: object) -> list[float]:
    from ..stores.spaces import checked_vector

    return checked_vector(vector, None).tolist()


def _model(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return a model; in JSON its name alone, which is a text."""
    if info.mode == "json":
        return read(value)
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
    from . import diagnosis, findings, forgetting, transfer

    own = {
        "Name": Name,
        "Who": Who,
        "Count": Count,
        "Hits": Hits,
        "Cosine": Cosine,
        "Minutes": Minutes,
        "Seconds": Seconds,
        "Defects": Defects,
        "Vector": Annotated[
            list[Annotated[float, Field(allow_inf_nan=False)]],
            Field(min_length=1, max_length=MAX_DIMENSIONS),
            WrapValidator(_array),
            PlainSerializer(_numbers),
        ],
        "Llm": Annotated[str, WrapValidator(_model), PlainSerializer(_model_name)],
        "EmbedderChoice": Any,
        "WhichScopes": SomeScopes | Sequence[SomeScopes],
    }
    names: dict[str, Any] = {}
    for module in (
        records,
        reembedding,
        base,
        receipts,
        values,
        findings,
        transfer,
        forgetting,
        diagnosis,
    ):
        names |= vars(module)
    return {**names, **own}
