"""Arguments as models and developers give them, checked; failures are worded for who gave them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    create_model,
)

from ..checks import check_option, faults
from ..errors import InvalidInput

Tool = TypeVar("Tool", bound=BaseTool)
Model = TypeVar("Model", bound=BaseModel)
Number = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


def check_fields(given: object) -> None:
    """Check the fields of a dataclass against their types.

    Raises:
        ConfigurationError: one does not fit; names it and what it takes.
    """
    kind = type(given)
    for name, takes in get_type_hints(kind, include_extras=True).items():
        check_option(f"{kind.__name__}({name}=…)", getattr(given, name), takes)


@classmethod
def from_yaml(cls: type[Tool], config: ToolArgsConfig | None, config_abs_path: str) -> Tool:
    """Return the tool of a YAML agent; `args` are the constructor's arguments."""
    return cls(**(config.model_dump() if config else {}))


@cache
def arguments_of(function: Callable[..., Any], without: str = "") -> type[BaseModel]:
    """Return a model of the keyword-only arguments of a function, `without` one of them."""
    kinds = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (kinds[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != without
    }
    return create_model("Arguments", **fields)


def read(model: type[Model], given: Mapping[str, Any]) -> Model:
    """Return given values as a model reads them.

    Raises:
        InvalidInput: one does not fit; names it and what it takes.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        where, message = faults(error)[0]
        name = where.partition(".")[0]
        raise InvalidInput(f"{name}: {message.removeprefix('Input should be ')}.") from None


def _listed(labels: object) -> object:
    """Return labels as the tuple of them; a single text is one."""
    if isinstance(labels, str):
        return (labels,)
    if isinstance(labels, (list, set)):
        return tuple(cast("Iterable[object]", labels))
    return labels


AS_LABELS = BeforeValidator(_listed)
Labels = Annotated[tuple[str, ...], AS_LABELS]
