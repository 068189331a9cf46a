"""Errors, one family for each person who must act.

KagentMemoryError
├── ConfigurationError   the operator: a setting, a URI, a missing extra or extension
├── InvalidInput         the caller: invalid content, vector, filter or argument
├── NotFound             the caller: no such memory or job in this scope
├── Conflict             the caller: somebody else changed it first; read again and retry
├── StoreError           the database: unreachable, read-only, refused
└── ModelError           the model or embedder: unreachable, refused
    ├── ModelUnavailable the model or embedder is unavailable for now; try again later
    ├── TruncatedAnswer  the model: its answer was cut off; ask for less at once
    └── UnusableAnswer   the embedder: it answers, but not with usable vectors
"""

from __future__ import annotations

from typing import NamedTuple


class ErrorFamily(NamedTuple):
    """The name, HTTP status and exit code of a family of errors.

    Attributes:
        name: its name in /api/v1's problem types and in the command line's JSON.
        http_status: the status of a server's answer.
        exit_code: the exit code of a command.
    """

    name: str
    http_status: int
    exit_code: int


class KagentMemoryError(Exception):
    """Something in kagent_memory failed; the class says who must act, the message what to do."""

    family = ErrorFamily("error", 500, 5)


class ConfigurationError(KagentMemoryError):
    """A setting, URI or installed part is wrong; the operator must change it."""

    family = ErrorFamily("configuration", 501, 5)


class InvalidInput(KagentMemoryError, ValueError):
    """The input is invalid; the call wrote nothing."""

    family = ErrorFamily("invalid-input", 400, 2)


class NotFound(KagentMemoryError, LookupError):
    """No such memory or job in this scope."""

    family = ErrorFamily("not-found", 404, 3)


class Conflict(KagentMemoryError):
    """Somebody else changed it meanwhile; read it again and retry."""

    family = ErrorFamily("conflict", 409, 4)


class StoreError(KagentMemoryError):
    """The database is unavailable or refused the work; the call wrote nothing."""

    family = ErrorFamily("store", 503, 6)


class ModelError(KagentMemoryError):
    """The model or embedder is unavailable, or its answer is unusable."""

    family = ErrorFamily("model", 502, 7)


class ModelUnavailable(ModelError):
    """The model or embedder is unavailable for now (unreachable, overloaded, too slow); the same
    call may succeed later.
    """


class TruncatedAnswer(ModelError):
    """The model's answer was cut off; the same call would be cut off again, a smaller one
    may not.
    """


class UnusableAnswer(ModelError):
    """The answer of the embedder is unusable, and a retry would not help: NaN, zeros, or vectors of
    the wrong width or number.
    """


def error_class(family: str) -> type[KagentMemoryError]:
    """Return the class with this family name; StoreError for an unknown name."""
    return next(
        (kind for kind in KagentMemoryError.__subclasses__() if kind.family.name == family),
        StoreError,
    )


def needs_extra(feature: str, extra: str, error: ImportError | None = None) -> ConfigurationError:
    """Return the error for a part that is not installed or cannot be loaded."""
    reason = f" ({error})" if error else ""
    return ConfigurationError(
        f'{feature} needs an extra: pip install "kagent-memory[{extra}]"{reason}.'
    )
