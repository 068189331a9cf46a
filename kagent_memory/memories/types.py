"""The types of the verbs' arguments, in process and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    InstanceOf,
    PlainSerializer,
    SkipValidation,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.json_schema import SkipJsonSchema

from ..checks import checked_name, valid_text
from ..errors import InvalidInput
from ..ingestion.editing import checked_session_id
from ..models import embedding, llm
from ..records import MAX_QUERY_CHARS, VALID_TEXT, Filter, Scope, Scopes, Text
from ..redaction import masked_filter, redact
from ..stores.spaces import checked_vector
from .audit import Defect

MAX_HITS = 1000
MAX_MINUTES = 5_256_000  # ten years
WIDTH_STEP = 64  # of callers' vectors
MAX_WIDTH = 4096


def _array(value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """Return a vector as an array; a request is parsed in a thread but used on the loop. Widths are
    limited, because each width has a table.
    """
    vector = checked_vector(read(value) if info.mode == "json" else value, None)
    if (width := len(vector)) % WIDTH_STEP or width > MAX_WIDTH:
        raise InvalidInput(
            f"The vector has {width:,} dimensions; those of vectors of your own are a multiple of "
            f"{WIDTH_STEP}, up to {MAX_WIDTH:,}."
        )
    return vector


def _model(value: Any) -> Any:
    """Refuse a class and a name that is no text, which would only fail in the worker."""
    if isinstance(value, type) or not isinstance(value.name, str):
        raise InvalidInput("It takes an object with a name and complete().")
    return value


def _cleaned(turn: Any) -> Any:
    return valid_text(turn) if isinstance(turn, str) else turn


Name: TypeAlias = Annotated[str, AfterValidator(partial(checked_name, what="The name"))]
"""The name of a tenant, a user or an app."""
Who: TypeAlias = Annotated[Text, AfterValidator(redact)]
"""A short text for the history; secrets in it are masked."""
SessionId: TypeAlias = Annotated[str, AfterValidator(checked_session_id)]
"""The id of a session, with secrets masked as in memories."""
MaskedFilter: TypeAlias = Annotated[Filter, AfterValidator(masked_filter)]
"""A filter with its session id masked as in memories."""
Query: TypeAlias = Annotated[str, Field(max_length=MAX_QUERY_CHARS), VALID_TEXT]
Turn: TypeAlias = Annotated[str, BeforeValidator(_cleaned)]
"""A turn said earlier, whose other words count although a character of it cannot be kept."""
Progress: TypeAlias = Callable[[int], None]
Positive: TypeAlias = Annotated[int, Field(ge=1)]
Hits: TypeAlias = Annotated[int, Field(ge=0, le=MAX_HITS)]
Cosine: TypeAlias = Annotated[float, Field(ge=-1, le=1)]
Minutes: TypeAlias = Annotated[float, Field(ge=0, le=MAX_MINUTES)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Defects: TypeAlias = Annotated[Sequence[Defect], Field(min_length=1)]
Vector: TypeAlias = Annotated[
    npt.NDArray[np.float32],
    GetPydanticSchema(lambda _, handler: handler.generate_schema(list[float])),
    WrapValidator(_array),
    PlainSerializer(np.ndarray.tolist, return_type=list[float]),
    Field(json_schema_extra={"minItems": WIDTH_STEP, "maxItems": MAX_WIDTH}),
]
Llm: TypeAlias = SkipJsonSchema[Annotated[InstanceOf[llm.Llm], AfterValidator(_model)]]
EmbedderChoice: TypeAlias = SkipValidation[embedding.EmbedderChoice]
WhichScopes: TypeAlias = Scope | Scopes | Sequence[Scope | Scopes]
