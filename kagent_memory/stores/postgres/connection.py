"""Connections to PostgreSQL: how they are made and set up, and how long an answer is waited for.

A session runs one script on one of them, with values encoded, rows decoded, and a transaction's
statements sent together.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import AsyncConnection, AsyncCursor
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.sql import Composed
from psycopg.types import TypeInfo
from psycopg.types.datetime import TimestamptzBinaryLoader
from typing_extensions import override

from ...checks import json_text
from ...records import Scope
from ..codec import id_text
from ..encryption import KeyRing
from ..sql import queries, statement
from ..sql.session import Query, Row, Values

DIALECT = "postgres"
CONNECT_SECONDS = 3
NETWORK_SECONDS = 2.0  # beyond the server's own limit, whose answer leaves the connection usable
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
MAX_WAITING = 50  # statements; what they take on the event loop is short
SCOPE_IDS = frozenset({"scope_id", "scope_ids", "served"})
"""Values whose bytes are ids of scopes."""
T = TypeVar("T")
AnyConnection: TypeAlias = AsyncConnection[Any]
Statement: TypeAlias = tuple[LiteralString, Mapping[str, Any]]
"""A statement with its values, encoded."""
BEGIN: Statement = "BEGIN", {}
COMMIT: Statement = "COMMIT", {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Database to connect to, and how to set up its connections.

    Attributes:
        statement_seconds: the longest that the server works on one statement.
    """

    conninfo: str = field(repr=False)  # it may hold a password
    schema: str
    statement_seconds: float

    @property
    def answer_seconds(self) -> float:
        """Seconds to wait for an answer."""
        return self.statement_seconds + NETWORK_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of connections, found when one was set up.

    Attributes:
        target: what they are connected to.
        pooled: whether nothing may be set for longer than a transaction, since a pooler gives every
            transaction another server, or the connections are lent.
        lent: whether they belong to the caller's pool, and must stay as they are.
        row_security: whether the tables are guarded, so that each transaction says for whom it
            acts.
        path: the search path of the schema and of pgvector.
        halfvec: pgvector's type; None: the extension is not there yet.
        halfvec_array: the type of lists of it.
    """

    target: Target
    pooled: bool
    lent: bool
    row_security: bool
    path: str | None
    halfvec: int | None
    halfvec_array: int


async def connect(target: Target) -> AnyConnection:
    """Open a connection, not yet set up.

    Raises:
        psycopg.Error: the database cannot be reached, or refuses.
    """
    settings: dict[str, Any] = {
        **KEEPALIVES,
        "connect_timeout": CONNECT_SECONDS,
        **conninfo_to_dict(target.conninfo),
    }
    return await AsyncConnection.connect(**settings, autocommit=True)


async def set_up(
    connection: AnyConnection, target: Target, *, pooled: bool, lent: bool = False
) -> Traits:
    """Find out what stands behind a connection, and set its session up where the session is ours.

    Args:
        connection: outside of any transaction.
        target: what it is connected to.
        pooled: leave the session as it is, whatever stands there.
        lent: the connection is the caller's, and pooled.

    Raises:
        psycopg.Error: the database is away, or refuses.
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
        connection.prepared_max = MAX_PREPARED
        if traits.pooled:
            connection.prepare_threshold = None
    return traits


async def fetch(
    connection: AnyConnection,
    query: LiteralString | Composed,
    values: Mapping[str, Any] | None = None,
) -> Sequence[Row]:
    """Return all rows of a statement, without preparing it; leave no transaction behind that was
    not there.
    """
    async with nullcontext() if connection.autocommit else connection.transaction():
        cursor = connection.cursor(row_factory=dict_row, binary=True)
        await cursor.execute(query, values, prepare=False)
        return await cursor.fetchall()


async def within(connection: AnyConnection, seconds: float, work: Awaitable[T]) -> T:
    """Await `work` on a connection; close the connection if the database does not answer in time.

    A first cancellation has psycopg cancel the statement on the server; a second one, while that is
    not answered either, has it close the socket.

    Raises:
        psycopg.errors.ConnectionTimeout: the database did not answer.
    """
    cancelling = asyncio.timeout(seconds)
    try:
        async with asyncio.timeout(seconds + SETTLE_SECONDS), cancelling:
            return await work
    except Exception as error:
        # Interrupted while it sends, psycopg before 3.3.9 fails with a TypeError of its own.
        if not cancelling.expired() or isinstance(error, psycopg.Error):
            raise
        await connection.close()
        message = f"the database did not answer within {seconds:g} s"
        raise psycopg.errors.ConnectionTimeout(message) from None


def register_types(context: AdaptContext, traits: Traits) -> None:
    """Have a connection or cursor read and write values as they are everywhere in Python."""
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
        return id_text(bytes(data).hex())


class _UtcLoader(TimestamptzBinaryLoader):
    """Load times in UTC whatever the server's zone is, which no session sets behind a pooler."""

    @override
    def load(self, data: Buffer) -> datetime:
        return super().load(data).astimezone(UTC)


def encoded(name: str, value: Any) -> Any:
    """Return a statement's value of this name as the driver takes it."""
    if isinstance(value, bytes):
        return uuid.UUID(bytes=value) if name in SCOPE_IDS else value
    if isinstance(value, np.ndarray):
        return HalfVector(cast("Any", value))
    if isinstance(value, Mapping):
        return json_text(value, "The value")
    if not isinstance(value, list | tuple):
        return value
    return [encoded(name, element) for element in cast("Sequence[Any]", value)]


@dataclass(eq=False, repr=False)  # its statements hold what is remembered
class PostgresSession:
    """The `Session` of one connection.

    In a transaction, statements whose answer nobody reads wait for the next one that is read or for
    the end, and leave with it in one pipeline. Nothing is cancelled there but what the database
    does not answer in time, whose connection is closed.

    Args:
        connection: the connection.
        traits: what is known of it.
        scope: whose rows alone it sees under row level security; None: it acts for maintenance.
        ring: the keys that rows are encrypted with; None: they are not.
        writes: whether it may write.

    Attributes:
        moved: the ids of the scopes whose version it moved.
    """

    half = np.dtype(">f2")

    connection: AnyConnection
    traits: Traits
    scope: Scope | None = None
    ring: KeyRing | None = None
    writes: bool = False
    moved: set[bytes] = field(default_factory=set[bytes], init=False)
    _waiting: list[Statement] = field(default_factory=list[Statement], init=False)
    _in_transaction: bool = field(default=False, init=False)

    async def complete(self, script: Callable[[PostgresSession], Coroutine[Any, Any, T]]) -> T:
        """Run a script: in one transaction where it writes, or where settings hold for a
        transaction alone; else each of its statements stands for itself.
        """
        self._waiting += self._settings()
        if not self.writes and not self._waiting:
            return await script(self)
        self._in_transaction = True
        if self.connection.autocommit:  # otherwise psycopg begins one by itself
            self._waiting.insert(0, BEGIN)
        try:
            done = await script(self)
            await self._flush(COMMIT)
        except BaseException:
            self._waiting.clear()
            with suppress(psycopg.Error):  # a lost connection has nothing to take back
                await within(self.connection, CONNECT_SECONDS, self.connection.rollback())
            raise
        return done

    def _settings(self) -> Iterator[Statement]:
        """Yield the statements that every transaction begins with; what they set is gone with
        it.
        """
        traits = self.traits
        if traits.pooled:
            seconds = traits.target.statement_seconds
            yield self._statement(
                "set_locally", {"path": traits.path, "statement_seconds": seconds}
            )
        if traits.row_security and self.scope:
            yield self._statement("act_for_scope", {"scope": self.scope.id.hex()})
        elif traits.row_security:
            yield self._statement("act_for_all", {})

    async def execute(self, *queries: Query) -> Sequence[Sequence[Row]]:
        """See `Session`."""
        cursors = await self._flush(*(self._statement(*query) for query in queries))
        return [await cursor.fetchall() if cursor.description else () for cursor in cursors]

    async def send(self, *queries: Query) -> None:
        """See `Session`."""
        for query in queries:
            self._waiting.append(self._statement(*query))
            if len(self._waiting) >= MAX_WAITING:
                await self._flush()

    def _statement(self, query: str, values: Values) -> Statement:
        if "step" in values:
            self.moved.add(values["scope_id"])
        text, names = statement(DIALECT, query, values.get("space"), values.get("width"))
        return text, {name: encoded(name, values[name]) for name in names}

    async def _flush(self, *asked: Statement) -> Sequence[AsyncCursor[Row]]:
        """Execute what waits and these statements; return the cursors of the latter."""
        batch, self._waiting = [*self._waiting, *asked], []
        if not batch:
            return []
        sizes = [
            sum(len(value) for value in values.values() if isinstance(value, str | bytes))
            for _, values in batch
        ]
        seconds = self.traits.target.answer_seconds + sum(sizes) / MIN_BYTES_PER_SECOND
        # The server's clock runs from a statement's text on: what is large goes alone, when the
        # server knows that.
        is_large = max(sizes) > LARGE_BYTES
        executed = await within(self.connection, seconds, self._executed(batch, alone=is_large))
        return executed[len(batch) - len(asked) :]

    async def _executed(
        self, batch: Sequence[Statement], *, alone: bool
    ) -> Sequence[AsyncCursor[Row]]:
        # Psycopg ends a pipeline with a message that stops the server's clock for idle
        # transactions: where locks are held, a statement of its own starts it again.
        together = len(batch) - int(self.writes and batch[-1] is not COMMIT)
        if alone or not self._in_transaction:
            together = 0
        executed: list[AsyncCursor[Row]] = []
        async with self.connection.pipeline() if together > 1 else nullcontext():
            executed += [await self._execute(*statement) for statement in batch[:together]]
        return [*executed, *[await self._execute(*statement) for statement in batch[together:]]]

    async def _execute(self, text: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[Row]:
        cursor = self.connection.cursor(binary=True, row_factory=dict_row)
        if self.traits.lent:
            register_types(cursor, self.traits)
        return await cursor.execute(text, values or None, prepare=bool(values))
