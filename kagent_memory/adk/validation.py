"""Validates what developers pass to our tools, callbacks and plugin, when they pass it."""

from __future__ import annotations

from typing import TypeVar

from ..errors import ConfigurationError

Policy = TypeVar("Policy")


def checked_whole(what: str, given: int | None) -> int | None:
    """The number itself.

    Raises:
        ConfigurationError: not a whole number, or below 0.
    """
    if given is None or (isinstance(given, int) and given >= 0):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        return given
    raise ConfigurationError(f"{what} must be a whole number, 0 or more.")


def checked_policy(argument: str, given: object, kind: type[Policy], none: str) -> Policy | None:
    """The policy itself; None means what `none` says.

    Raises:
        ConfigurationError: it is something else.
    """
    if given is None or isinstance(given, kind):
        return given
    raise ConfigurationError(f"{argument} takes {kind.__name__}(…), or None for {none}; not {given!r}.")
