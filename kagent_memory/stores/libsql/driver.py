"""What all drivers have alike, and which of the two that open files is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from ...errors import ConfigurationError, StoreError, needs_extra

Value: TypeAlias = str | bytes | int | float | None


class Busy(StoreError):
    """Nothing was done, since another connection holds the lock or this one was lost; it may be
    tried again.
    """


class Cursor(Protocol):
    """Answer of a driver to a statement."""

    @property
    def description(self) -> Sequence[tuple[str, None, None, None, None, None, None]] | None:
        """The columns, their names first."""
        ...

    @property
    def rowcount(self) -> int:
        """Rows changed; -1 or 0 for what changes none."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]] | None:
        """All rows."""
        ...


class Driver(Protocol):
    """A driver's own connection: what all of them have alike."""

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        ...

    def execute(self, sql: str, parameters: Sequence[Value], /) -> Cursor:
        """Runs one statement."""
        ...

    def executemany(self, sql: str, parameters: Sequence[Sequence[Value]], /) -> Cursor:
        """Runs one statement for each row of values."""
        ...

    def close(self) -> None:
        """Closes; an open transaction is rolled back."""
        ...


class DriverModule(Protocol):
    """`sqlite3_driver` or `libsql_driver`."""

    def connect(self, path: str, key: str | None) -> Driver:
        """A connection that waits for nobody's lock and begins no transaction by itself."""
        ...

    def is_failure(self, error: BaseException) -> bool:
        """Return True if an error is the driver's."""
        ...


def load(key: str | None = None) -> DriverModule:
    """Return the driver of a file: sqlite3, which needs nothing but Python, or libsql where the
    file has a key.

    Raises:
        ConfigurationError: it is not installed, or does not take this key.
    """
    if key is None:
        try:
            from . import sqlite3_driver
        except ImportError as error:  # a Python built without it
            raise ConfigurationError(
                f"This Python has no sqlite3 ({error}): use one that has it."
            ) from error
        return sqlite3_driver
    if not key or not key.isprintable():
        raise ConfigurationError("file_encryption_key must be printable text, and not empty.")
    try:
        from . import libsql_driver
    except ImportError as error:
        raise needs_extra("file_encryption_key", "libsql", error) from error
    return libsql_driver
