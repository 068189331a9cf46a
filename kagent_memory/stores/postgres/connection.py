"""Open and set up connections to PostgreSQL, wait a limited time for their answers, and translate
errors of the driver into the package's, by who must act.

A session runs one script on one connection: it encodes values, decodes rows, and sends the
statements of a transaction together.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby, starmap
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import AsyncConnection, AsyncCursor, errors
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.sql import Composed
from psycopg.types import TypeInfo
from psycopg.types.datetime import TimestamptzBinaryLoader
from psycopg.types.json import set_json_loads
from pydantic_core import from_json
from typing_extensions import override

from ...checks import json_text
from ...errors import ConfigurationError, Conflict, InvalidInput, KagentMemoryError, StoreError
from ...records import Scope
from ..encryption import KeyRing
from ..sql import queries, statement
from ..sql.session import Query, Row, Values

DIALECT = "postgres"
CONNECT_SECONDS = 3
NETWORK_SECONDS = 2.0  # after the server's own limit, whose error leaves the connection usable
SETTLE_SECONDS = 1.0
MIN_BYTES_PER_SECOND = 250_000
KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
MAX_PREPARED = 200
LARGE_BYTES = 2**19
MAX_WAITING = 50  # statements or rows; sending more at once would hold up the event loop
SCOPE_IDS = frozenset({"scope_id", "scope_ids", "served"})
"""Parameters whose bytes are ids of scopes."""
T = TypeVar("T")
AnyConnection: TypeAlias = AsyncConnection[Any]
Statement: TypeAlias = tuple[LiteralString, Mapping[str, Any]]
"""A statement and its encoded values."""
BEGIN: Statement = "BEGIN", {}
COMMIT: Statement = "COMMIT", {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A database to connect to, and the set-up of its connections.

    Attributes:
        conninfo: the URI or connection string.
        schema: the schema of the tables.
        statement_seconds: the time limit of one statement on the server.
    """

    conninfo: str = field(repr=False)  # may contain a password
    schema: str
    statement_seconds: float

    @property
    def answer_seconds(self) -> float:
        """Seconds to wait for an answer."""
        return self.statement_seconds + NETWORK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of connections, read when one is set up.

    Attributes:
        target: the database.
        pooled: True if settings must not outlast a transaction: a pooler gives each transaction
            another server, or the connections are lent.
        lent: True if the connections belong to the caller's pool and must not be changed.
        row_security: True if row level security is on, so that each transaction names its scope.
        path: the search path, of the schema and of pgvector.
        halfvec: the oid of pgvector's type; None: the extension does not exist yet.
        halfvec_array: the oid of its array type.
    """

    target: Target
    pooled: bool
    lent: bool
    row_security: bool
    path: str | None
    halfvec: int | None
    halfvec_array: int


async def connect(target: Target) -> AnyConnection:
    """Open a connection without setting it up.

    Raises:
        psycopg.Error: the database cannot be reached or refuses.
    """
    settings: dict[str, Any] = {
        **KEEPALIVES,
        "connect_timeout": CONNECT_SECONDS,
        **conninfo_to_dict(target.conninfo),
    }
    return await AsyncConnection.connect(**settings, autocommit=True)


async def set_up(connection: AnyConnection, target: Target, *, pooled: bool, lent: bool) -> Traits:
    """Read the traits of a connection, and set up its session if nobody else uses that.

    Args:
        connection: the connection, outside of any transaction.
        target: the database.
        pooled: True to leave the session as it is; False to find out if a pooler is in between.
        lent: True if the connection is the caller's, so that its session stays as it is.

    Raises:
        psycopg.Error: the database cannot be reached or refuses.
    """
    values = {
        "schema": target.schema,
        "pooled": pooled or lent or None,
        "pid": connection.info.backend_pid,
        "statement_seconds": target.statement_seconds,
    }
    text = queries(DIALECT)["set_up"]
    [row] = await within(connection, CONNECT_SECONDS, fetch(connection, text, values))
    traits = Traits(target=target, lent=lent, **row)
    if not lent:
        register_types(connection, traits)
        set_json_loads(from_json, connection)
        connection.prepared_max = MAX_PREPARED
        if traits.pooled:
            connection.prepare_threshold = None
    return traits


async def fetch(
    connection: AnyConnection,
    query: LiteralString | Composed,
    values: Mapping[str, Any] | None = None,
) -> Sequence[Row]:
    """Execute a statement without preparing it, and return all rows. Leave no new transaction
    open.
    """
    async with nullcontext() if connection.autocommit else connection.transaction():
        cursor = connection.cursor(row_factory=dict_row, binary=True)
        await cursor.execute(query, values, prepare=False)
        return await cursor.fetchall()


async def within(connection: AnyConnection, seconds: float, work: Awaitable[T]) -> T:
    """Await `work` on a connection; close the connection if the database does not answer in time.

    The first cancellation makes psycopg cancel the statement on the server. If the server does not
    answer that either, the second makes psycopg close the socket.

    Raises:
        psycopg.errors.ConnectionTimeout: the database did not answer.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with asyncio.timeout(seconds + SETTLE_SECONDS), limit:
            return await work
    except Exception as error:
        # psycopg before 3.3.9 raises a TypeError if it is cancelled while it sends
        if not limit.expired() or isinstance(error, psycopg.Error):
            raise
        await connection.close()
        raise errors.ConnectionTimeout(
            f"the database did not answer within {seconds:g} s"
        ) from None


def register_types(context: AdaptContext, traits: Traits) -> None:
    """Register the loaders and dumpers of ids, times and vectors on a connection or cursor."""
    adapters = context.adapters
    adapters.register_loader("uuid", _IdLoader)
    if traits.pooled:  # else the session's zone is UTC, and psycopg's own loader is faster
        adapters.register_loader("timestamptz", _UtcLoader)
    if traits.halfvec is not None:
        halfvec = TypeInfo("halfvec", traits.halfvec, traits.halfvec_array)
        register_halfvec_info(cast("Any", context), halfvec)


class _IdLoader(Loader):
    """Load ids as text."""

    format = Format.BINARY

    @override
    def load(self, data: Buffer) -> str:
        digits = bytes(data).hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _UtcLoader(TimestamptzBinaryLoader):
    """Load times in UTC: behind a pooler, sessions keep the time zone of the server."""

    @override
    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


def encoded(name: str, value: Any) -> Any:
    """Return the value of a parameter as the driver needs it."""
    match value:
        case bytes():
            return uuid.UUID(bytes=value) if name in SCOPE_IDS else value
        case np.ndarray():
            return HalfVector(cast("Any", value))
        case {**items}:
            return json_text(items, "The value")
        case [str(), *_] if name == "ids":  # psycopg is slow to write a list
            return f"{{{','.join(value)}}}"
        case [*elements]:
            return [encoded(name, element) for element in elements]
        case _:
            return value


def _portions(queries: Iterable[Query]) -> Iterator[Sequence[Query]]:
    """Yield the statements in portions to send at once. The new memories or vectors of a portion
    are one statement: one for each would take three times as long.
    """
    weight = 0

    def portion_of(query: Query) -> tuple[str, object, int]:
        nonlocal weight
        name, values = query
        weight += max(_size(values), LARGE_BYTES // MAX_WAITING)
        return name, values.get("space"), weight // LARGE_BYTES

    for (name, *_), portion in groupby(queries, portion_of):
        rows = [values for _, values in portion]
        if name == "insert_memory":
            all_rows = json.dumps(
                [{**values, "scope_id": None} for values in rows],
                ensure_ascii=False,
                default=lambda value: (
                    rf"\x{value.hex()}" if isinstance(value, bytes) else str(value)
                ),
            )
            rows = [{**rows[0], "rows": all_rows}]
        elif name == "put_vector":
            columns = {column: [row[column] for row in rows] for column in ("id", "embedding")}
            rows = [{**rows[0], **columns}]
        yield [(name, row) for row in rows]


def _size(values: Values) -> int:
    """Return the total length of the texts and bytes among these values."""
    return sum(len(value) for value in values.values() if isinstance(value, (str, bytes)))


@dataclass(eq=False, repr=False)  # its statements contain memories
class PostgresSession:
    """The `Session` of one connection.

    In a transaction, statements without an answer are kept until the next one with an answer, or
    until the end, and sent with it in one pipeline. A pipeline is cancelled only if the database
    does not answer in time, and then its connection is closed.

    Args:
        connection: the connection.
        traits: its traits.
        scope: the only scope whose rows are visible under row level security; None: all, for
            maintenance.
        ring: the keys that encrypt rows; None: rows are plain.
        writes: True if the script may write.

    Attributes:
        written_scopes: the ids of the scopes that the script wrote to.
    """

    half = np.dtype(">f2")
    on_event_loop = True

    connection: AnyConnection
    traits: Traits
    scope: Scope | None
    ring: KeyRing | None
    writes: bool

    def __post_init__(self) -> None:
        self.written_scopes = set[bytes]()
        self._waiting: list[Statement] = []
        self._in_transaction = False

    async def complete(self, script: Callable[[PostgresSession], Coroutine[Any, Any, T]]) -> T:
        """Run a script: in one transaction if it writes or if settings end with the transaction,
        otherwise statement by statement.
        """
        self._waiting += self._settings()
        if not self.writes and not self._waiting:
            return await script(self)
        self._in_transaction = True
        if self.connection.autocommit:  # otherwise psycopg begins a transaction by itself
            self._waiting.insert(0, BEGIN)
        try:
            result = await script(self)
            await self._flush(COMMIT)
        except BaseException:
            self._waiting.clear()
            with suppress(psycopg.Error):  # a lost connection has nothing to roll back
                await within(self.connection, CONNECT_SECONDS, self.connection.rollback())
            raise
        return result

    def _settings(self) -> Iterator[Statement]:
        """Yield the statements that begin every transaction. Their settings end with it."""
        traits = self.traits
        if traits.pooled:
            seconds = traits.target.statement_seconds
            yield self._statement(
                "set_locally", {"path": traits.path, "statement_seconds": seconds}
            )
        if traits.row_security:
            yield self._statement("act_for", {"scope": self.scope and self.scope.id.hex()})

    async def execute(self, *queries: Query) -> Sequence[Sequence[Row]]:
        """See `Session`."""
        cursors = await self._flush(*(self._statement(*query) for query in queries))
        return [
            await cursor.fetchall() if cursor.rownumber is not None else () for cursor in cursors
        ]

    async def send(self, queries: Iterable[Query]) -> None:
        """See `Session`."""
        for number, portion in enumerate(_portions(queries)):
            if number or len(self._waiting) >= MAX_WAITING:
                await self._flush()
            self._waiting += starmap(self._statement, portion)

    def _statement(self, query: str, values: Values) -> Statement:
        if "step" in values:
            self.written_scopes.add(values["scope_id"])
        text, names = statement(DIALECT, query, values.get("space"), values.get("width"))
        return text, {name: encoded(name, values[name]) for name in names}

    async def _flush(self, *statements: Statement) -> Sequence[AsyncCursor[Row]]:
        """Execute the waiting statements and then these, and return the cursors of these."""
        batch, self._waiting = [*self._waiting, *statements], []
        if not batch:
            return []
        sizes = [_size(values) for _, values in batch]
        seconds = self.traits.target.answer_seconds + sum(sizes) / MIN_BYTES_PER_SECOND
        # The server measures its limit from the arrival of a statement's text: a large statement
        # is sent alone, so that its values count against no other one.
        is_large = max(sizes) > LARGE_BYTES
        cursors = await within(self.connection, seconds, self._run(batch, alone=is_large))
        return cursors[len(batch) - len(statements) :]

    async def _run(self, batch: Sequence[Statement], *, alone: bool) -> Sequence[AsyncCursor[Row]]:
        # The message with which psycopg ends a pipeline stops the server's limit of idle
        # transactions. While locks are held, the last statement is sent alone, to start it again.
        together = len(batch) - int(self.writes and batch[-1] is not COMMIT)
        if alone or not self._in_transaction:
            together = 0
        cursors: list[AsyncCursor[Row]] = []
        async with self.connection.pipeline() if together > 1 else nullcontext():
            cursors += [await self._execute(*statement) for statement in batch[:together]]
        return [*cursors, *[await self._execute(*statement) for statement in batch[together:]]]

    async def _execute(self, text: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[Row]:
        cursor = self.connection.cursor(binary=True, row_factory=dict_row)
        if self.traits.lent:
            register_types(cursor, self.traits)
        return await cursor.execute(text, values or None, prepare=bool(values))


# -- errors ---------------------------------------------------------------------------------------

# The error of a refused connection has no SQLSTATE, only a text.
_REFUSALS = re.compile(
    'password|authentication|pg_hba.conf|role "|database "|permission denied'
    "|could not translate host name|invalid"
)
_OUTAGES = re.compile(
    "Connection refused|starting up|shutting down|recovery mode|too many|not yet accepting"
    "|remaining connection"
)


def translated(error: psycopg.Error) -> KagentMemoryError:
    """Return the package's error for an error of the driver."""
    words = one_line(error)
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
    words = one_line(error)
    if isinstance(error, psycopg.ProgrammingError):
        return ConfigurationError(f"Invalid PostgreSQL URI: {words}.")
    if isinstance(error, psycopg.InterfaceError):  # on the usual event loop of Windows
        return ConfigurationError(words)
    reason = words.partition("FATAL:")[2] or words
    if not _REFUSALS.search(reason) or _OUTAGES.search(words):
        return StoreError(f"memory unavailable: {words}")
    return ConfigurationError(
        f"PostgreSQL refused the connection: {reason.strip()}; check host, user, password and "
        "database in the URI, and let this host in (pg_hba.conf)."
    )


def one_line(error: object) -> str:
    """Return the text of an error in one line, without a full stop."""
    return " ".join(str(error).split()).rstrip(".")
