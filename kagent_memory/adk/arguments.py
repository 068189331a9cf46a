"""Arguments as models and developers give them, checked; failures are worded for who gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_configs import ToolArgsConfig

from ..errors import ConfigurationError, InvalidInput
from ..memories.tool_answers import moment
from ..records import MEMORY_TYPES, Filter

Policy = TypeVar("Policy")
Tool = TypeVar("Tool", bound=BaseTool)


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


def asked_filter(args: Mapping[str, Any]) -> Filter:
    """Return the filter that a model's arguments name.

    Raises:
        InvalidInput: one of them does not fit; the text is for the model.
    """
    types_ = labels(args, "types")
    if unknown := sorted(set(types_) - set(MEMORY_TYPES)):
        raise InvalidInput(f"Unknown types {', '.join(unknown)}; use {', '.join(MEMORY_TYPES)}.")
    importance = args.get("min_importance")
    if importance is not None and (
        isinstance(importance, bool) or not isinstance(importance, (int, float))
    ):
        raise InvalidInput("min_importance must be a number from 0 to 1.")
    return Filter(
        types=cast("Any", types_),
        topics=labels(args, "topics"),
        tags=labels(args, "tags"),
        min_importance=float(importance) if importance is not None else None,
        happened_after=moment(args, "after"),
        happened_before=moment(args, "before"),
    )


def narrowed(fixed: Filter, asked: Filter) -> Filter:
    """Return what the model asked for; a field that the developer's filter sets stays as it is."""
    unset = Filter()
    names = (field.name for field in fields(Filter))
    kept = {name: getattr(fixed, name) for name in names}
    return replace(
        asked, **{name: value for name, value in kept.items() if value != getattr(unset, name)}
    )


def labels(args: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a list of texts; models give a single one bare."""
    value = args.get(name)
    if value is None or value == "":
        return ()
    listed = cast("Sequence[Any]", value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(label, str) for label in listed):
        raise InvalidInput(f"{name} must be a list of strings.")
    return tuple(listed)
