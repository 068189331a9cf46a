"""Connections to an SQLite file, the base of connections to a server, the session of a transaction
on either, and migration.

Everything runs on the store's one thread, and nothing waits inside the driver. Times are stored as
ISO text of fixed width, lists and objects as JSON text, booleans as 0 or 1, vectors as raw float16,
ids as text.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
from pydantic_core import from_json
from typing_extensions import override

from ...checks import checked_text, json_text
from ...concurrency import batched
from ...errors import ConfigurationError, Conflict, InvalidInput, KagentMemoryError, StoreError
from ...records import Memory, Revision, Usage
from ..codec import to_iso
from ..encryption import KeyRing
from ..receipts import Receipt
from ..sql import Migration, statement, upgrade
from ..sql.row_codec import Row
from ..sql.session import Query, Values
from ..values import Facets, Job, PendingJobs, ScopeStats, Token

DIALECT = "libsql"
MEMORY = ":memory:"
COMMIT, ROLLBACK = "COMMIT", "ROLLBACK"
OLDEST = (3, 35, 0)
_FILES = (".db", ".sqlite", ".sqlite3")  # no host's name ends like this
_SERVER = re.compile(
    r"(libsql(?:\+https?)?)://([\w-]+(?:\.[\w-]+)*|\[[\da-f:.]+\])(:\d{1,5})?(/[^?#\s]*)?"
    r"(?:\?authToken=([^&#]+))?",
    re.IGNORECASE,
)
_TOKEN = re.compile("[!-~]*")  # no white space, which no header takes
Value: TypeAlias = str | bytes | int | float | None
Statement: TypeAlias = tuple[str, Mapping[str, Value]]
"""A statement with its values by name (`:name`), in order of first appearance."""


class Busy(StoreError):
    """Raised if nothing was done because another connection holds the lock or this one was lost;
    retry.
    """


_CAUSES = {
    "is locked|is busy|SQLITE_BUSY": (
        Busy,
        "The database file is locked by another process; try again.",
    ),
    "UNIQUE constraint": (Conflict, "The row exists already; read it again and retry."),
    "no such table: memory_vector": (InvalidInput, "There is no such embedding space here."),
    "readonly database|nable to open": (
        ConfigurationError,
        "The database file cannot be opened or cannot be written: name a file, not a directory, in "
        "a directory that exists, and make both readable and writable for this user.",
    ),
    "not a database|file is encrypted": (
        ConfigurationError,
        "The file is not an SQLite database, or it is encrypted as a whole; name another file, or "
        "move this one away.",
    ),
}


def mapped(message: str) -> KagentMemoryError:
    """Return our error for the message of a driver or server."""
    for pattern, (kind, advice) in _CAUSES.items():
        if re.search(pattern, message):
            return kind(f"{advice} ({message})")
    return StoreError(f"The database refused: {message}")


@dataclass(frozen=True, slots=True)
class Server:
    """A libSQL server: Turso, or sqld.

    Attributes:
        url: its address, to which `/v2/pipeline` is added.
        token: the token of authentication; "" for a server without one.
    """

    url: str
    token: str = field(repr=False)


def to_place(uri: str) -> str | Server:
    """Return the path of `libsql:///relative.db` or `libsql:////absolute.db`, ":memory:", or the
    server of `libsql://host`.

    Raises:
        ConfigurationError: the URI is invalid.
    """
    parts = urlsplit(uri)
    if parts.netloc or parts.scheme != "libsql":
        return _to_server(uri)
    path = unquote(parts.path.removeprefix("/"))
    if parts.query or parts.fragment or not path or "\0" in path:
        raise ConfigurationError(
            f"{uri!r} names no file; write, for example, libsql:///memory.db, with ? as %3F and # "
            "as %23 in its name."
        )
    return path


def _to_server(uri: str) -> Server:
    # errors never repeat the URI, which may hold the token
    server = _SERVER.fullmatch(uri)
    token = unquote(server[5] or "") if server else ""
    if server is None or not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            "A libSQL server is libsql://host?authToken=…, or libsql+http://host:port without TLS; "
            "it must not contain a user, a password or anything else."
        )
    kind, host, port, path, _ = server.groups("")
    if not port and host.endswith(_FILES):
        raise ConfigurationError(
            f"libsql://{host} names a server; a file has one more slash: libsql:///{host}, "
            f"or libsql:////var/{host}."
        )
    scheme = "http" if kind.lower() == "libsql+http" else "https"
    return Server(f"{scheme}://{host}{port}{path.rstrip('/')}", token)


class Connection(ABC):
    """One connection, used from one thread only."""

    @abstractmethod
    def run(self, *statements: Statement) -> Sequence[Sequence[Row]]:
        """Run statements in order until one fails; return the rows of each."""

    @abstractmethod
    def close(self) -> None:
        """Close; an open transaction is rolled back."""

    def begin(self, sql: str) -> None:
        """Begin a transaction."""
        self.rows(sql)

    def end(self, sql: str) -> None:
        """End the transaction."""
        self.rows(sql)

    @contextmanager
    def transaction(self, *, write: bool) -> Generator[None, None, None]:
        """Commit writes at the end, or roll back on any exception.

        Raises:
            Busy: another connection is writing; nothing was done.
        """
        # a writer takes the lock at once: after a read it could be refused
        self.begin("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            yield
            self.end(COMMIT if write else ROLLBACK)
        except BaseException:
            with suppress(KagentMemoryError):  # it may be rolled back already
                self.end(ROLLBACK)
            raise

    def rows(self, sql: str, values: Mapping[str, Value] | None = None) -> Sequence[Row]:
        """Return all rows of a statement, as column → value."""
        [rows] = self.run((sql, values or {}))
        return rows


class FileConnection(Connection):
    """Connection to a file or to memory that never waits for a lock.

    Raises:
        ConfigurationError: the file cannot be opened, written or understood.
        Busy: another process is opening it at this moment.
    """

    def __init__(self, path: str) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise ConfigurationError(
                f"This Python has SQLite {sqlite3.sqlite_version}, and a memory file needs 3.35 or "
                "newer: take a newer Python or system."
            )
        with _driver_errors():
            self._driver = sqlite3.connect(
                # absolute, so that the driver takes no "file:" URI
                path if path == MEMORY else str(Path(path).absolute()),
                timeout=0,
                isolation_level=None,
            )
        if sqlite3.sqlite_version_info < (3, 41):
            self._driver.create_function("unhex", 1, bytes.fromhex, deterministic=True)

    @override
    def run(self, *statements: Statement) -> Sequence[Sequence[Row]]:
        with _driver_errors():
            return [self._answer(statement) for statement in statements]

    def _answer(self, statement: Statement) -> Sequence[Row]:
        cursor = self._driver.execute(*statement)
        columns = [column[0] for column in cursor.description or ()]
        # all rows: an open cursor would hold its lock
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    @override
    def close(self) -> None:
        with _driver_errors():
            self._driver.close()


def connect(place: str | Server) -> Connection:
    """Connect to a file or server; see `FileConnection`."""
    if isinstance(place, str):
        return FileConnection(place)
    from .hrana import ServerConnection

    return ServerConnection(place)


@contextmanager
def _driver_errors() -> Generator[None, None, None]:
    """Raise our errors for those of the driver."""
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        raise mapped(str(error)) from error


# -- the session ---------------------------------------------------------------------------------

CHUNK_ROWS = 200

_RECORDS = (Facets, ScopeStats, PendingJobs, Receipt, Token, Job, Revision, Usage, Memory)
_BY_TYPE = {
    ("Time", "datetime"): datetime.fromisoformat,
    ("bool",): bool,
    ("tuple", "Mapping", "Metadata"): from_json,
}
_DECODERS = {
    column.name: decode
    for record in _RECORDS
    for column in fields(record)
    for kinds, decode in _BY_TYPE.items()
    if str(column.type).removeprefix("Sealed[").startswith(kinds)
}


def decoded(row: Row) -> Row:
    """Return a row with decoded values; the name of a column tells its type."""
    return {
        name: value if value is None or name not in _DECODERS else _DECODERS[name](value)
        for name, value in row.items()
    }


def encoded(value: Any) -> Any:
    """Return a value as the driver stores it.

    Raises:
        InvalidInput: a text is invalid, or JSON cannot represent a mapping or list.
    """
    match value:  # common values first, since a row has forty
        case None:
            return value
        case str():
            return checked_text(value, "The value")
        case datetime():
            return to_iso(value)
        case []:
            return "[]"
        case np.ndarray():
            return np.asarray(value, np.float16).tobytes()
        case [*elements]:
            return json_text(
                [element.hex() if isinstance(element, bytes) else element for element in elements],
                "The value",
            )
        case {**items}:
            return json_text(items, "The value")
        case _:
            return value


@dataclass(eq=False)
class LibSQLSession:
    """The `Session` of one transaction. It never waits, so a script runs on the driver's thread
    without an event loop.
    """

    half = np.dtype("<f2")
    on_event_loop = False

    connection: Connection
    ring: KeyRing | None

    async def execute(self, *queries: Query) -> Sequence[Sequence[Row]]:
        """See `Session`."""
        answers = self.connection.run(*(to_statement(*query) for query in queries))
        return [[decoded(row) for row in rows] for rows in answers]

    async def send(self, queries: Iterable[Query]) -> None:
        """See `Session`."""
        for batch in batched([*queries], CHUNK_ROWS):
            await self.execute(*batch)


def to_statement(query: str, values: Values) -> Statement:
    """Return the text of a named query with its encoded values; other values are left out."""
    text, names = statement(DIALECT, query, values.get("space"))
    return text, {name: encoded(values[name]) for name in names}


# -- the schema ---------------------------------------------------------------------------------

_LEDGER = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migration'"
_NOTE = (
    "INSERT INTO schema_migration (number, name, applied_at) "
    "VALUES (:number, :name, strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))"
)


def migrate(connection: Connection) -> None:
    """Bring the database to the newest schema in one transaction; safe if several processes do so
    at once.

    Raises:
        ConfigurationError: a build from before the first release created it.
        Busy: another connection is writing.
    """
    with connection.transaction(write=False):
        if not _missing_steps(connection):
            return
    with connection.transaction(write=True):
        steps = _missing_steps(connection)
        statements: list[Statement] = [(command, {}) for step in steps for command in step.commands]
        notes = ((_NOTE, {"number": step.number, "name": step.name}) for step in steps)
        connection.run(*statements, *notes)


def is_migrated(connection: Connection) -> bool:
    """Return True if the database was ever migrated. Call it in a transaction."""
    return bool(connection.rows(_LEDGER))


def _missing_steps(connection: Connection) -> Sequence[Migration]:
    return upgrade(
        DIALECT,
        connection.rows("SELECT number, name FROM schema_migration")
        if is_migrated(connection)
        else None,
    )
