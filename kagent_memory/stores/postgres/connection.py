"""One connection to PostgreSQL: made, set up and waited for within bounds, and left in step by whoever is cancelled."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import numpy as np
import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg import AsyncConnection, AsyncCursor, Cursor
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import Dumper, Loader, Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, PipelineStatus, TransactionStatus
from psycopg.types import TypeInfo
from psycopg.types.json import set_json_loads
from typing_extensions import override

from ...errors import ConfigurationError
from ...records import Vector
from ..codec import id_text
from ..sql import queries
from ..sql.session import Row
from .arrays import Wire, WireDumper, head
from .line import Late, Line
from .prepared import OUTDATED, Command, RowMaker, Statements, row_maker
from .transaction import Transaction

DIALECT = "postgres"
CONNECT_SECONDS = 3
DIAL_SECONDS = 15.0
SETTLE_SECONDS = 1.0
NETWORK_SECONDS = 2.0  # beyond the server's own limit, whose answer leaves the connection usable
IDLE_TRANSACTION_SECONDS = 60.0  # a client that vanished lets go of its locks
CROSSING_SECONDS = 300.0  # the longest that one statement and its answer may be under way on a slow line
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which database, and how its connections are set up.

    Attributes:
        statement_seconds: the longest that the server works on one statement.
        pooled: whether a pooler hands its servers around; None: each connection finds out.
    """

    conninfo: str
    schema: str
    statement_seconds: float
    pooled: bool | None = None

    @property
    def limits(self) -> Mapping[str, str]:
        """The server's time-outs, in its own unit."""
        seconds = {"milliseconds": self.statement_seconds, "idle_milliseconds": IDLE_TRANSACTION_SECONDS}
        return {name: str(max(1, round(value * 1000))) for name, value in seconds.items()}


class IdLoader(Loader):
    """Ids as the text that they are everywhere in Python."""

    format = Format.BINARY

    @override
    def load(self, data: Buffer) -> str:
        return id_text(bytes(data).hex())


class UtcLoader(Loader):
    """Times in UTC whatever the server's zone is: behind a pooler no session sets it."""

    format = Format.BINARY
    _unpack = struct.Struct("!q").unpack

    @override
    def load(self, data: Buffer) -> datetime:
        return _EPOCH + timedelta(microseconds=self._unpack(data)[0])


class VectorLoader(Loader):
    """Vectors as the float32 arrays that they are everywhere in Python."""

    format = Format.BINARY

    @override
    def load(self, data: Buffer) -> Vector:
        return np.frombuffer(bytes(data)[4:], ">f2").astype(np.float32)  # after its width


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of one width as one value, an array of halfvec."""

    rows: Sequence[Vector]


class VectorsDumper(Dumper):
    """All vectors at once, as PostgreSQL has arrays on the line."""

    format = Format.BINARY
    element: int

    @override
    def dump(self, obj: Vectors) -> bytes:
        rows = np.array(obj.rows, ">f2")
        count, width = rows.shape
        made = np.zeros(count, [("size", ">i4"), ("width", ">i2"), ("unused", ">i2"), ("numbers", ">f2", (width,))])
        made["size"], made["width"], made["numbers"] = 4 + 2 * width, width, rows
        return head(self.element, count) + made.tobytes()


def decoded(cursor: AsyncCursor[Any] | Cursor[Any]) -> RowMaker:
    """A row factory: rows by name, lists as tuples."""
    return row_maker(cursor.pgresult)


class Connection(AsyncConnection[Row]):
    """A connection whose every answer is awaited within a bound.

    Attributes:
        answer_seconds: how long the line may be silent while an answer is awaited; then the connection is given up.
        patience: the same for now, less while it is only tried out or a caller who left is cleaned up after.
        pooled: whether a pooler stands in between that may give every transaction another server; then nothing is set
            for longer than a transaction, and no statement has a name.
        row_security: whether the tables are guarded, so that each transaction says for whom it acts.
        settings: what `set_locally` takes.
        has_vectors: whether pgvector's types are known.
        made_at, answered_at: when it was made, and when the server last answered, on the event loop's clock.
        is_lent: whether it is another face of one that belongs to the caller, who waits for it too.
    """

    answer_seconds: float = CONNECT_SECONDS
    patience: float = CONNECT_SECONDS
    pooled: bool = False
    row_security: bool = False
    settings: Mapping[str, str]
    has_vectors: bool = False
    made_at: float = 0.0
    answered_at: float = 0.0
    is_lent: bool = False
    _line: Line | None = None
    _statements: Statements | None = None

    @override
    async def wait(self, gen: PQGen[T], interval: float = 0.0, timeout: float | None = None) -> T:
        line = self._line = self._line or Line(self.pgconn.socket, is_lent=self.is_lent)
        seconds = self.patience if timeout is None else timeout
        try:
            return await line.done(gen, silence=seconds, whole=max(seconds, CROSSING_SECONDS))
        except Late:
            self.end()
            raise psycopg.OperationalError(f"the database did not answer within {seconds:g} s") from None
        except asyncio.CancelledError:
            # The driver's own way is to cancel the statement and to drop what it was doing; a pipeline then waits for
            # answers that were never asked for. So the step that was begun comes to its end, soon, or the connection
            # does.
            self.hurry()
            try:
                async with asyncio.timeout(SETTLE_SECONDS):
                    await line.done(gen, silence=SETTLE_SECONDS, whole=SETTLE_SECONDS, begun=True)
            except psycopg.Error:
                pass  # what the caller who left would have been told
            except (Late, TimeoutError, asyncio.CancelledError):
                self.end()
            raise

    def end(self) -> None:
        """Closes it at once."""
        if self._line is not None:
            self._line.leave()
        self.pgconn.finish()

    @override
    async def close(self) -> None:
        if self._line is not None:
            self._line.leave()
        await super().close()

    @property
    def statements(self) -> Statements:
        """What is known of the statements that it was asked."""
        if self._statements is None:
            self._statements = Statements(self.pgconn, partial(Transformer, self), named=not self.pooled)
        return self._statements

    async def ask(self, asked: Sequence[tuple[Command, Sequence[Any]]]) -> Sequence[Sequence[Row]]:
        """The rows of statements that change nothing, each with its values; they leave in one piece and are one
        transaction.
        """
        known = self.statements
        try:
            return await self.wait(known.steps(known.all_asked(asked)))
        except OUTDATED:  # the driver, too, has the server forget all names with a rollback of its own
            known.forget()
            return await self.wait(known.steps(known.all_asked(asked)))

    @asynccontextmanager
    async def begun(self) -> AsyncGenerator[Transaction]:
        """A transaction, which is taken back unless it is committed."""
        transaction = Transaction(self.pgconn, self.statements, self.wait)
        try:
            yield transaction
        except asyncio.CancelledError:
            self.hurry()
            raise
        finally:
            await transaction.end()

    def belongs_to_another(self) -> None:
        """It is the caller's to close: the driver then does not warn when this face of it is dropped."""
        self._pool = None
        self.is_lent = True

    def hurry(self) -> None:
        """Whoever uses it was cancelled: what is left to do, a rollback, must come to its end soon."""
        self.patience = min(self.patience, SETTLE_SECONDS)

    @property
    def reusable(self) -> bool:
        """Whether the next caller may have it: open, outside of any transaction and pipeline."""
        return (
            not self.closed
            and self.pgconn.transaction_status == TransactionStatus.IDLE
            and self.pgconn.pipeline_status == PipelineStatus.OFF
        )


async def dial(target: Target) -> Connection:
    """A new connection, set up.

    Raises:
        psycopg.Error: the database cannot be reached, or refuses.
    """
    given = conninfo_to_dict(target.conninfo)
    each = int(given.get("connect_timeout") or CONNECT_SECONDS)
    longest = max(DIAL_SECONDS, 2.0 * each * str(given.get("host", "")).count(",") + 2.0 * each)
    try:
        async with asyncio.timeout(longest):  # the driver bounds each address, not the look-up of names
            connection = await Connection.connect(
                target.conninfo, autocommit=True, row_factory=decoded, connect_timeout=each
            )
    except TimeoutError:
        raise psycopg.errors.ConnectionTimeout(f"no connection within {longest:g} s") from None
    try:
        await _set_up(connection, target)
    except BaseException:
        connection.end()
        raise
    return connection


async def lent(theirs: AsyncConnection[Any], target: Target) -> Connection:
    """Another face of a connection that belongs to the caller: its own settings, nothing kept in the session.

    Raises:
        psycopg.Error: the database is away, or refuses.
        ConfigurationError: it is not a connection of psycopg's.
    """
    if not isinstance(theirs, AsyncConnection):  # pyright: ignore[reportUnnecessaryIsInstance] callers are untyped
        raise ConfigurationError(f"pool= must give connections of psycopg, not {type(theirs).__name__}.")
    handlers = theirs.pgconn.notice_handler, theirs.pgconn.notify_handler
    face = Connection(theirs.pgconn, row_factory=decoded)
    theirs.pgconn.notice_handler, theirs.pgconn.notify_handler = handlers
    face.belongs_to_another()
    await face.set_autocommit(True)
    await _set_up(face, replace(target, pooled=True))
    return face


def _json(written: str | bytes) -> Any:
    return {} if written == b"{}" else json.loads(str(written, "utf-8") if isinstance(written, bytes) else written)


async def _set_up(connection: Connection, target: Target) -> None:
    greeted = connection.info.backend_pid
    values = {"schema": target.schema, "pooled": target.pooled, "pid": greeted, **target.limits}
    cursor = await connection.execute(queries(DIALECT)["set_up"], values, prepare=False)
    [found] = await cursor.fetchall()
    connection.made_at = connection.answered_at = asyncio.get_running_loop().time()
    connection.answer_seconds = connection.patience = target.statement_seconds + NETWORK_SECONDS
    connection.pooled = found["pooled"]
    connection.row_security = found["row_security"]
    connection.settings = {"path": found["path"], **target.limits}
    connection.adapters.register_loader("uuid", IdLoader)
    connection.adapters.register_dumper(Wire, WireDumper)
    set_json_loads(_json, connection)
    if found["halfvec"] is not None:
        register_halfvec_info(connection, TypeInfo("halfvec", found["halfvec"], found["halfvecs"]))
        connection.adapters.register_loader(found["halfvec"], VectorLoader)
        oids = {"oid": found["halfvecs"], "element": found["halfvec"]}
        connection.adapters.register_dumper(Vectors, type("VectorsDumper", (VectorsDumper,), oids))
        connection.has_vectors = True
    if connection.pooled:
        connection.prepare_threshold = None
        connection.adapters.register_loader("timestamptz", UtcLoader)
