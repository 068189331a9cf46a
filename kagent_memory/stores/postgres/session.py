"""One script on one connection of PostgreSQL: values encoded, rows decoded, and a transaction's
statements sent together.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import AsyncCursor

from ...checks import json_text
from ...records import Scope
from ..encryption import KeyRing
from ..sql import statement
from ..sql.row_codec import Row
from ..sql.session import Answer, Query, Values
from .connection import (
    CONNECT_SECONDS,
    DIALECT,
    MIN_BYTES_PER_SECOND,
    AnyConnection,
    Traits,
    named_rows,
    register_types,
    within,
)

LARGE_BYTES = 2**19
MAX_WAITING = 50  # statements; what they take on the event loop is short
SCOPE_IDS = frozenset({"scope_id", "scope_ids", "served"})
"""Values whose bytes are ids of scopes."""
T = TypeVar("T")

Statement: TypeAlias = tuple[LiteralString, Mapping[str, Any]]
"""A statement with its values, encoded."""
BEGIN: Statement = "BEGIN", {}
COMMIT: Statement = "COMMIT", {}


def encoded(name: str, value: Any) -> Any:
    """Return a statement's value of this name as the driver takes it."""
    if isinstance(value, bytes):
        return uuid.UUID(bytes=value) if name in SCOPE_IDS else value
    if isinstance(value, np.ndarray):
        return HalfVector(cast("Any", value))
    if isinstance(value, Mapping):
        return json_text(value, "The value", compact=True)
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
            yield self._statement("set_locally", {"path": traits.path, **traits.target.limits})
        if traits.row_security and self.scope:
            yield self._statement("act_for_scope", {"scope": self.scope.id.hex()})
        elif traits.row_security:
            yield self._statement("act_for_all", {})

    async def execute(self, *queries: Query) -> Sequence[Answer]:
        """See `Session`."""
        cursors = await self._flush(*(self._statement(*query) for query in queries))
        return [
            Answer(await cursor.fetchall() if cursor.description else (), cursor.rowcount)
            for cursor in cursors
        ]

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
        sizes = [_size(values) for _, values in batch]
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
        cursor = self.connection.cursor(binary=True, row_factory=named_rows)
        if self.traits.lent:
            register_types(cursor, self.traits)
        return await cursor.execute(text, values or None, prepare=bool(values))


def _size(values: Mapping[str, Any]) -> int:
    """Return about how many bytes the values take on the line."""
    return sum(len(value) for value in values.values() if isinstance(value, str | bytes))
