"""Errors, one family for each person who must act.

KagentMemoryError
├── ConfigurationError   the operator: a setting, a URI, a missing extra or extension
├── InvalidInput         the caller: content, vector or filter that cannot be stored or searched
├── NotFound             the caller: no such memory or job in this scope
├── Conflict             the caller: somebody else changed it first; read again and retry
├── StoreError           the database: unreachable, read-only, refused
└── ModelError           the model or embedder: unreachable, refused
    ├── ModelUnavailable the model or embedder is away for now; the same call may succeed later
    ├── TruncatedAnswer  the model: its answer ends too early; asked for less at once, it may not
    └── UnusableAnswer   the embedder: there, and answering nonsense
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class KagentMemoryError(Exception):
    """Something in kagent_memory failed; the class says who must act, the text says what to do."""


class ConfigurationError(KagentMemoryError):
    """A setting, URI or installed part does not fit; the operator must change it."""


class InvalidInput(KagentMemoryError, ValueError):
    """The input cannot be stored or searched; the call wrote nothing."""


class NotFound(KagentMemoryError, LookupError):
    """No such memory or job in this scope."""


class Conflict(KagentMemoryError):
    """It was changed by somebody else in between; read it again and retry."""


class StoreError(KagentMemoryError):
    """The database is unavailable or refused the work; nothing of that call was written."""


class ModelError(KagentMemoryError):
    """The model or embedder is unavailable, or answered what cannot be used."""


class ModelUnavailable(ModelError):
    """The model or embedder is away for now (unreachable, overloaded, too slow); the same call may
    succeed later.
    """


class TruncatedAnswer(ModelError):
    """The model's answer was cut off before its end; the same call would be cut again, one for less
    may not.
    """


class UnusableAnswer(ModelError):
    """The embedder is there and answered what no retry makes usable: NaN, zeros, another width or
    number of vectors.
    """


class ErrorFamily(NamedTuple):
    """Name, HTTP status, gRPC code and exit code of a family of errors.

    Attributes:
        name: in /api/v1's problem types and in the command line's JSON.
        http_status: of an answer of the server.
        exit_code: of a command.
    """

    name: str
    http_status: int
    exit_code: int


FAMILIES: Mapping[type[KagentMemoryError], ErrorFamily] = {
    InvalidInput: ErrorFamily("invalid-input", 400, 2),
    NotFound: ErrorFamily("not-found", 404, 3),
    Conflict: ErrorFamily("conflict", 409, 4),
    ConfigurationError: ErrorFamily("configuration", 501, 5),
    StoreError: ErrorFamily("store", 503, 6),
    ModelError: ErrorFamily("model", 502, 7),
}
_ANY = ErrorFamily("error", 500, 5)


def family_of(error: KagentMemoryError) -> ErrorFamily:
    """Return the family of an error."""
    return next((FAMILIES[kind] for kind in type(error).__mro__ if kind in FAMILIES), _ANY)


def error_class(family: str) -> type[KagentMemoryError]:
    """Return the class that a family's name stands for; StoreError for a name that this version
    does not know.
    """
    return next((kind for kind, known in FAMILIES.items() if known.name == family), StoreError)


def needs_extra(what: str, extra: str, error: ImportError | None = None) -> ConfigurationError:
    """Return the error for a part that is not installed, or cannot be loaded."""
    reason = f" ({error})" if error else ""
    return ConfigurationError(
        f'{what} needs an extra: pip install "kagent-memory[{extra}]"{reason}.'
    )
