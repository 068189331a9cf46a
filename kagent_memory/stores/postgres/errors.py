"""The one place that turns what the driver raises into our errors, by who must act."""

from __future__ import annotations

import asyncio

import psycopg
from psycopg import errors

from ...errors import ConfigurationError, Conflict, InvalidInput, KagentMemoryError, StoreError

# A refused connection carries no SQLSTATE, only the server's words.
_REFUSED = {
    "password": "check the user and the password in the URI",
    "authentication": "check the user and the password in the URI",
    "pg_hba.conf": "let this host in (pg_hba.conf), or check the URI",
    'role "': "check the user in the URI",
    'database "': "create that database, or check its name in the URI",
    "permission denied": "grant the user the right to connect",
    "could not translate host name": "check the host in the URI",
    "invalid": "check the URI",
}
_PASSING = (
    "starting up",
    "shutting down",
    "recovery mode",
    "too many",
    "not yet accepting",
    "remaining connection",
)


def check_loop() -> None:
    """Look before the driver does, which would give up for a reason that sounds like an outage.

    Raises:
        ConfigurationError: the running event loop is the usual one of Windows, on which psycopg
            does not work.
    """
    proactor = getattr(asyncio, "ProactorEventLoop", None)  # on Windows alone
    if proactor is not None and isinstance(asyncio.get_running_loop(), proactor):
        raise ConfigurationError(
            "Postgres needs a selector event loop, and this is Windows' proactor loop: run with "
            "asyncio.Runner(loop_factory=asyncio.SelectorEventLoop), or use "
            "KagentMemoryService, whose loop is its own."
        )


def ours(error: psycopg.Error) -> KagentMemoryError:
    """Return our error that says the same as the driver's."""
    words = " ".join(str(error).split())
    if isinstance(error, errors.RaiseException):  # by our own scripts
        return ConfigurationError(str(error.diag.message_primary))
    if isinstance(error, errors.InsufficientPrivilege):
        return ConfigurationError(f"The database user lacks a privilege: {words}.")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreError(
            f"memory unavailable: {words}; the database is read-only: use its primary, or allow "
            "writes."
        )
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


def refused(error: psycopg.Error) -> KagentMemoryError:
    """Return our error for a database that could not be opened."""
    if error.sqlstate is not None:
        return ours(error)
    words = " ".join(str(error).split())
    if isinstance(error, psycopg.ProgrammingError):
        return ConfigurationError(f"Invalid PostgreSQL URI: {words}.")
    if isinstance(error, errors.ConnectionTimeout) or any(sign in words for sign in _PASSING):
        return StoreError(f"memory unavailable: {words}")
    reason = words.partition("FATAL:")[2] or words
    hint = next((hint for sign, hint in _REFUSED.items() if sign in reason), None)
    if "Connection refused" in words or hint is None:
        return StoreError(f"memory unavailable: {words}")
    return ConfigurationError(f"PostgreSQL refused the connection: {reason.strip()}; {hint}.")
