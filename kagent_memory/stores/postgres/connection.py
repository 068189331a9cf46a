"""Connections to PostgreSQL: how they are made and set up, and how long an answer is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import AsyncConnection, AsyncCursor, Cursor
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import dict_row
from psycopg.sql import Composed
from psycopg.types import TypeInfo
from psycopg.types.datetime import TimestamptzBinaryLoader
from typing_extensions import override

from ..codec import id_text
from ..sql import queries
from ..sql.session import Row

DIALECT = "postgres"
CONNECT_SECONDS = 3
NETWORK_SECONDS = 2.0  # beyond the server's own limit, whose answer leaves the connection usable
SETTLE_SECONDS = 1.0
MIN_BYTES_PER_SECOND = 250_000
IDLE_TRANSACTION_SECONDS = 60.0  # a client that vanished lets go of its locks
KEEPALIVES = {
    "keepalives_idle": 30,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
MAX_PREPARED = 200
T = TypeVar("T")
AnyConnection: TypeAlias = AsyncConnection[Any]


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

    @property
    def limits(self) -> Mapping[str, float]:
        """The server's time-outs."""
        return {
            "statement_seconds": self.statement_seconds,
            "idle_seconds": IDLE_TRANSACTION_SECONDS,
        }


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
        **target.limits,
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


def named_rows(cursor: AsyncCursor[Any] | Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """Make rows by name, with lists as tuples; a row factory."""
    make = dict_row(cast("Any", cursor))
    return lambda values: make(
        [tuple(cast("list[Any]", value)) if type(value) is list else value for value in values]
    )


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
