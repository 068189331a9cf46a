"""Translate errors of the driver into the package's errors, by who must act."""

from __future__ import annotations

import psycopg
from psycopg import errors

from ...errors import ConfigurationError, Conflict, InvalidInput, KagentMemoryError, StoreError

# The error of a refused connection has no SQLSTATE, only a text.
_REFUSED = (
    "password",
    "authentication",
    "pg_hba.conf",
    'role "',
    'database "',
    "permission denied",
    "could not translate host name",
    "invalid",
)
_TRANSIENT = (
    "Connection refused",
    "starting up",
    "shutting down",
    "recovery mode",
    "too many",
    "not yet accepting",
    "remaining connection",
)


def translated(error: psycopg.Error) -> KagentMemoryError:
    """Return the package's error for an error of the driver."""
    words = " ".join(str(error).split())
    if isinstance(error, errors.RaiseException):  # raised by our SQL
        return ConfigurationError(str(error.diag.message_primary))
    if isinstance(error, errors.UndefinedTable) and "memory_vector_" in words:
        return InvalidInput(f"There is no such embedding space here: {words}.")
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigurationError(f"The database user lacks a privilege: {words}.")
    if isinstance(error, errors.QueryCanceled):
        return StoreError(
            f"memory unavailable: {words}; raise statement_timeout_seconds if it really needs "
            "that long."
        )
    if isinstance(error, psycopg.DataError | errors.ProgramLimitExceeded):
        return InvalidInput(f"The database cannot store this value: {words}.")
    if isinstance(
        error, errors.UniqueViolation | errors.SerializationFailure | errors.DeadlockDetected
    ):
        return Conflict(f"Another process wrote the same row at the same time; retry. ({words})")
    return StoreError(f"memory unavailable: {words or type(error).__name__}")


def translated_refusal(error: psycopg.Error) -> KagentMemoryError:
    """Return the package's error for a database that could not be opened."""
    if error.sqlstate is not None:
        return translated(error)
    words = " ".join(str(error).split())
    if isinstance(error, psycopg.ProgrammingError):
        return ConfigurationError(f"Invalid PostgreSQL URI: {words}.")
    if isinstance(error, psycopg.InterfaceError):  # on the usual event loop of Windows
        return ConfigurationError(words)
    reason = words.partition("FATAL:")[2] or words
    is_refused = any(sign in reason for sign in _REFUSED)
    if not is_refused or any(sign in words for sign in _TRANSIENT):
        return StoreError(f"memory unavailable: {words}")
    return ConfigurationError(
        f"PostgreSQL refused the connection: {reason.strip()}; check host, user, password and "
        "database in the URI, and let this host in (pg_hba.conf)."
    )
