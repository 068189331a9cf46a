"""The drivers (sqlite3 and libsql of a file, Hrana of a server) behind one wrapper, where their
traps are closed.

All of it runs on the store's driver thread (see `thread.py`). libsql keeps Python's global lock
during every call, a wait for another process included; so nothing here waits inside a driver, and
long writes come in chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...checks import checked_text
from ...errors import ConfigurationError, Conflict, InvalidInput, KagentMemoryError, StoreError
from .driver import Busy, Driver, Value, load
from .location import MEMORY, Server
from .statement import Statement, statement

CHUNK_ROWS = 200
MAX_INTEGER = 2**31 - 1


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
        (
            "The database file cannot be written; make the file and its directory writable for this "  # noqa: E501
            "user."
        ),
    ),
    (
        ("not a database", "file is encrypted"),
        ConfigurationError,
        "The file is not an SQLite database, or it is encrypted with another "
        "file_encryption_key; set the right one, "
        "name another file, or move this one away.",
    ),
    (
        ("Unable to open", "unable to open"),
        ConfigurationError,
        (
            "The database file cannot be opened; see that its directory exists and that this user "
            "may read and write both."
        ),
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


def checked_value(value: object, name: str) -> Value:
    """`value` itself, if the driver keeps it as it is.

    Raises:
        InvalidInput: a driver would cut it (NUL), change it (bool, integers over 31 bits) or refuse
            it.
    """
    if type(value) is str:
        return value if value.isascii() and "\0" not in value else checked_text(value, name)
    if value is None or type(value) is bytes:
        return value
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise InvalidInput(f"{name}={value!r} ({type(value).__name__}) cannot be stored as it is.")


def _bound(command: Statement, values: Mapping[str, object]) -> tuple[Value, ...]:
    if len(values) != len(command.names) or not all(name in values for name in command.names):
        raise StoreError(f"The statement takes {sorted(command.names)}, not {sorted(values)}.")
    return _row(command, [values[name] for name in command.names])


def _row(command: Statement, row: Sequence[object]) -> tuple[Value, ...]:
    if len(row) != len(command.names):
        raise StoreError(f"The statement takes {len(command.names)} values, not {len(row)}.")
    checked = tuple(map(checked_value, row, command.names))
    return (
        checked if command.places is None else tuple([checked[place] for place in command.places])
    )


class Connection:
    """One connection of a driver. Used from one thread only.

    Raises:
        ConfigurationError: the file cannot be opened, written or understood, or the driver is not
            installed.
        Busy: another process is opening it at this moment.
    """

    def __init__(self, place: str | Server, key: str | None = None) -> None:
        self._closed = False
        self._driver: Driver
        self._run_batch: Callable[[Sequence[str]], None] | None = None
        if isinstance(place, Server):
            if key is not None:
                raise ConfigurationError(
                    "file_encryption_key is for a file here; a server encrypts its own."
                )
            from . import hrana_driver

            self._is_failure = hrana_driver.is_failure
            self._driver = server = hrana_driver.connect(place)
            self._run_batch = server.execute_batch
            return
        if key is not None and place == MEMORY:
            raise ConfigurationError(
                "file_encryption_key encrypts a file, and :memory: has none; leave it out."
            )
        module = load(key)
        self._is_failure = module.is_failure
        # never one of the drivers' own "file:" URIs
        path = place if place == MEMORY else str(Path(place).absolute())
        with _mapped_errors(self._is_failure):
            self._driver = module.connect(path, key)

    def rows(self, sql: str, values: Mapping[str, object]) -> list[dict[str, Any]]:
        """All rows of a statement that reads; fetched once, since the driver would run it again at
        a second fetch.
        """
        command = statement(sql)
        bound = _bound(command, values)
        self._check_open()
        with _mapped_errors(self._is_failure):
            cursor = self._driver.execute(command.text, bound)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall() or ()]

    def tuples(self, sql: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """The same as plain tuples, for many small rows."""
        command = statement(sql)
        bound = _bound(command, values)
        self._check_open()
        with _mapped_errors(self._is_failure):
            return self._driver.execute(command.text, bound).fetchall() or []

    def run(self, sql: str, values: Mapping[str, object]) -> int:
        """Run a statement and return the number of rows that it changed."""
        command = statement(sql)
        bound = _bound(command, values)
        self._check_open()
        with _mapped_errors(self._is_failure):
            cursor = self._driver.execute(command.text, bound)
            cursor.fetchall()  # an open cursor would keep its lock
            return cursor.rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Runs the statement for each row of values, which stand in the order in which it first
        names them, in chunks that let other threads breathe.
        """
        command = statement(sql)
        bound = [_row(command, row) for row in rows]
        for start in range(0, len(bound), CHUNK_ROWS):
            self._check_open()
            with _mapped_errors(self._is_failure):
                self._driver.executemany(command.text, bound[start : start + CHUNK_ROWS])

    def run_script(self, statements: Sequence[str]) -> None:
        """Runs statements without values, each only when the one before it succeeded; within a
        transaction.
        """
        if self._run_batch is None:
            for one in statements:
                self.run(one, {})
            return
        self._check_open()
        with _mapped_errors(self._is_failure):
            self._run_batch(statements)

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[None, None, None]:
        """Commits at the end, or rolls back when anything at all is raised.

        A writer takes the lock at once: one that first reads could no longer get it.

        Raises:
            Busy: another connection is writing; nothing was done.
        """
        self.run("BEGIN IMMEDIATE" if write else "BEGIN", {})
        try:
            yield
            self.run("COMMIT", {})
        except BaseException:
            self._check_open()
            with _mapped_errors(self._is_failure):
                is_open = self._driver.in_transaction
            if is_open:  # a full disk has rolled back already
                self.run("ROLLBACK", {})
            raise

    def close(self) -> None:
        """Closes; an open transaction is rolled back. Closing twice is harmless."""
        if not self._closed:
            self._closed = True
            with _mapped_errors(self._is_failure):
                self._driver.close()

    def _check_open(self) -> None:
        if self._closed:  # the driver itself would panic
            raise StoreError("The store is closed; open it again.")


@contextmanager
def _mapped_errors(is_failure: Callable[[BaseException], bool]) -> Generator[None, None, None]:
    try:
        yield
    except BaseException as error:
        if is_failure(error):
            raise mapped(error) from error
        raise
