"""Check the arguments of models and developers, with errors worded for each of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Required, TypeVar, get_type_hints

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from ..checks import check_option, faults, fields_adapter
from ..errors import InvalidInput

Tool = TypeVar("Tool", bound=BaseTool)
Number = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


def check_fields(instance: object) -> None:
    """Check the fields of a dataclass against their types.

    Raises:
        ConfigurationError: a field is invalid; the message names it and what it takes.
    """
    kind = type(instance)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        check_option(f"{kind.__name__}({name}=…)", getattr(instance, name), hint)


@classmethod
def from_yaml(cls: type[Tool], config: ToolArgsConfig | None, config_abs_path: str) -> Tool:
    """Return the tool of a YAML agent; `args` are the constructor's arguments."""
    return cls(**(config.model_dump() if config else {}))


@cache
def arguments_of(function: Callable[..., Any], without: str = "") -> TypeAdapter[dict[str, Any]]:
    """Return an adapter for the keyword-only arguments of a function, except `without`."""
    hints = get_type_hints(function, include_extras=True)
    fields = {
        name: Required[hints[name]] if parameter.default is parameter.empty else hints[name]
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != without
    }
    return fields_adapter(fields)


def parse(adapter: TypeAdapter[dict[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values that a model passed to arguments.

    Raises:
        InvalidInput: a value is invalid; the message names it and what it takes.
    """
    try:
        return adapter.validate_python(values)
    except ValidationError as error:
        path, message = faults(error)[0]
        name = path.partition(".")[0]
        raise InvalidInput(f"{name}: {message.removeprefix('Input should be ')}.") from None


def as_labels(labels: Any) -> Any:
    """Return labels as they are, or a single text as one label."""
    return (labels,) if isinstance(labels, str) else labels


AS_LABELS = BeforeValidator(as_labels)
Labels = Annotated[tuple[str, ...], AS_LABELS]
