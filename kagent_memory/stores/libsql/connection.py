"""One connection to a database, whatever its driver: sqlite3, libsql where the file has a key, or
Hrana for a server.

All of it runs on the store's one thread. libsql keeps Python's global lock during every call, a
wait for another process included; so nothing waits inside a driver, and long writes come in chunks.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from ...errors import ConfigurationError, Conflict, KagentMemoryError, StoreError, needs_extra
from .location import MEMORY, Server

CHUNK_ROWS = 200
OLDEST = (3, 35, 0)
PREPARED = 512  # all of our statements
_NAME = re.compile(r"--[^\n]*|:([A-Za-z_]\w*)")
Value: TypeAlias = str | bytes | int | float | None
Values: TypeAlias = Mapping[str, Value]


class Busy(StoreError):
    """Nothing was done, since another connection holds the lock or this one was lost; it may be
    tried again.
    """


_CAUSES: Sequence[tuple[tuple[str, ...], type[KagentMemoryError], str]] = (
    (
        ("is locked", "is busy", "SQLITE_BUSY"),
        Busy,
        "The database file is locked by another process; try again.",
    ),
    (("UNIQUE constraint",), Conflict, "The row exists already; read it again and retry."),
    (
        ("readonly database",),
        ConfigurationError,
        "The database file cannot be written; make the file and its directory writable for this "
        "user.",
    ),
    (
        ("not a database", "file is encrypted"),
        ConfigurationError,
        "The file is not an SQLite database, or it is encrypted with another "
        "file_encryption_key; set the right one, name another file, or move this one away.",
    ),
    (
        ("Unable to open", "unable to open"),
        ConfigurationError,
        "The database file cannot be opened; see that its directory exists and that this user "
        "may read and write both.",
    ),
    (
        ("disk is full",),
        StoreError,
        "The disk is full; free some space. Nothing of this call was written.",
    ),
    (("disk image is malformed",), StoreError, "The database file is damaged; restore a backup."),
)


def mapped(error: BaseException) -> KagentMemoryError:
    """Our error for one of a driver's; only the text tells libsql's apart."""
    message = str(error)
    for marks, kind, advice in _CAUSES:
        if any(mark in message for mark in marks):
            return kind(f"{advice} ({message})")
    return StoreError(f"The database refused: {message}")


@cache
def value_names(sql: str) -> Sequence[str]:
    """The names of the values that a statement takes, in the order in which it first names them."""
    return tuple(dict.fromkeys(filter(None, _NAME.findall(sql))))


class Cursor(Protocol):
    """Answer of a driver to a statement."""

    @property
    def description(self) -> Sequence[tuple[Any, ...]] | None:
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
    """Interface of the drivers. Values go by name; to libsql, which knows no names, by place."""

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        ...

    def execute(self, sql: str, values: Any, /) -> Cursor:
        """Run one statement."""
        ...

    def executemany(self, sql: str, rows: Any, /) -> Cursor:
        """Run one statement for each set of values."""
        ...

    def close(self) -> None:
        """Close; an open transaction is rolled back."""
        ...


@runtime_checkable
class BatchDriver(Protocol):
    """A driver that sends several statements in one request."""

    def execute_batch(self, statements: Sequence[str], /) -> None:
        """Run statements, each only when the one before it succeeded."""
        ...


class Connection:
    """One connection, used from one thread only. Statements name their values as `:name`.

    Raises:
        ConfigurationError: the file cannot be opened, written or understood, or the driver is not
            installed.
        Busy: another process is opening it at this moment.
    """

    def __init__(self, place: str | Server, key: str | None = None) -> None:
        self._by_place = key is not None
        with _driver_errors():
            self._driver = _connect(place, key)

    def rows(self, sql: str, values: Values) -> list[dict[str, Any]]:
        """All rows of a statement that reads."""
        with _driver_errors():
            cursor = self._driver.execute(sql, self._given(sql, values))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall() or ()]

    def tuples(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """The same as plain tuples, for many small rows."""
        with _driver_errors():
            return self._driver.execute(sql, self._given(sql, values)).fetchall() or []

    def run(self, sql: str, values: Values) -> int:
        """Run a statement and return the number of rows that it changed."""
        with _driver_errors():
            cursor = self._driver.execute(sql, self._given(sql, values))
            cursor.fetchall()  # an open cursor would keep its lock
            return cursor.rowcount

    def run_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run the statement for each set of values, in chunks that let other threads breathe."""
        given = [self._given(sql, values) for values in rows]
        for start in range(0, len(given), CHUNK_ROWS):
            with _driver_errors():
                self._driver.executemany(sql, given[start : start + CHUNK_ROWS])

    def run_script(self, script: str) -> None:
        """Run statements without values, each only when the one before it succeeded; within a
        transaction.
        """
        statements = split(script)
        with _driver_errors():
            if isinstance(self._driver, BatchDriver):
                self._driver.execute_batch(statements)
                return
            for statement in statements:
                self._driver.execute(statement, ())

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[None, None, None]:
        """Commit at the end, or roll back when anything at all is raised.

        A writer takes the lock at once: one that first reads could no longer get it.

        Raises:
            Busy: another connection is writing; nothing was done.
        """
        self.run("BEGIN IMMEDIATE" if write else "BEGIN", {})
        try:
            yield
            self.run("COMMIT", {})
        except BaseException:
            with _driver_errors():
                is_open = self._driver.in_transaction
            if is_open:  # a full disk has rolled back already
                self.run("ROLLBACK", {})
            raise

    def close(self) -> None:
        """Close; an open transaction is rolled back."""
        with _driver_errors():
            self._driver.close()

    def _given(self, sql: str, values: Values) -> Values | Sequence[Value]:
        return [values[name] for name in value_names(sql)] if self._by_place else values


def split(script: str) -> Sequence[str]:
    """The statements of a script, each of which ends with a semicolon."""
    statements = [""]
    for piece in script.split(";")[:-1]:
        statements[-1] += f"{piece};"
        if sqlite3.complete_statement(statements[-1]):
            statements.append("")
    return statements[:-1]


def _connect(place: str | Server, key: str | None) -> Driver:
    """A connection that waits for nobody's lock and begins no transaction by itself."""
    if isinstance(place, Server):
        if key is not None:
            raise ConfigurationError(
                "file_encryption_key is for a file here; a server encrypts its own."
            )
        from .hrana import Stream

        return Stream(place)
    # never one of the drivers' own "file:" URIs
    path = place if place == MEMORY else str(Path(place).absolute())
    return _plain(path) if key is None else _encrypted(path, key)


def _plain(path: str) -> Driver:
    if sqlite3.sqlite_version_info < OLDEST:
        raise ConfigurationError(
            f"This Python has SQLite {sqlite3.sqlite_version}, and a memory file needs 3.35 or "
            "newer: take a newer Python or system."
        )
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=PREPARED)
    if sqlite3.sqlite_version_info < (3, 41):
        connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
    return connection


def _encrypted(path: str, key: str) -> Driver:
    if path == MEMORY:
        raise ConfigurationError(
            "file_encryption_key encrypts a file, and :memory: has none; leave it out."
        )
    if not key or not key.isprintable():
        raise ConfigurationError("file_encryption_key must be printable text, and not empty.")
    try:
        import libsql
    except ImportError as error:
        raise needs_extra("file_encryption_key", "libsql", error) from error
    return libsql.connect(path, timeout=0, isolation_level=None, encryption_key=key)


@contextmanager
def _driver_errors() -> Generator[None, None, None]:
    """Raise our errors for those of a driver; all of libsql's are ValueError or a panic."""
    try:
        yield
    except BaseException as error:
        if (
            isinstance(error, sqlite3.Error | ValueError)
            or type(error).__name__ == "PanicException"
        ):
            raise mapped(error) from error
        raise
