"""Arguments as models and developers give them, checked; failures are worded for who gave them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar, cast, get_type_hints

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig
from pydantic import BaseModel, BeforeValidator, ValidationError, create_model

from ..errors import ConfigurationError, InvalidInput

Policy = TypeVar("Policy")
Tool = TypeVar("Tool", bound=BaseTool)
Model = TypeVar("Model", bound=BaseModel)


def checked_whole(what: str, given: int | None, *, least: int = 0) -> int | None:
    """Return the number itself.

    Raises:
        ConfigurationError: not a whole number, or below `least`.
    """
    if given is None or (isinstance(given, int) and given >= least):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        return given
    raise ConfigurationError(f"{what} must be a whole number, {least} or more, or None.")


def checked_policy(argument: str, given: Policy | None, kind: type[Policy]) -> Policy | None:
    """Return the policy itself; None means never.

    Raises:
        ConfigurationError: it is something else.
    """
    if given is None or isinstance(given, kind):
        return given
    raise ConfigurationError(f"{argument} takes {kind.__name__}(…) or None, not {given!r}.")


@classmethod
def from_yaml(cls: type[Tool], config: ToolArgsConfig | None, config_abs_path: str) -> Tool:
    """Return the tool of a YAML agent; `args` are the constructor's arguments."""
    return cls(**(config.model_dump() if config else {}))


def arguments_of(function: Callable[..., Any]) -> type[BaseModel]:
    """Return a model of the keyword-only arguments of a function."""
    kinds = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (kinds[name], ... if one.default is one.empty else one.default)
        for name, one in inspect.signature(function).parameters.items()
        if one.kind is one.KEYWORD_ONLY
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
        fault = error.errors(include_url=False)[0]
        told = fault["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
        raise InvalidInput(f"{fault['loc'][0]}: {told}.") from None


def _listed(labels: object) -> object:
    """Return labels as the tuple of them; a single text is one."""
    if isinstance(labels, str):
        return (labels,)
    if isinstance(labels, (list, set)):
        return tuple(cast("Iterable[object]", labels))
    return labels


AS_LABELS = BeforeValidator(_listed)
Labels = Annotated[tuple[str, ...], AS_LABELS]
