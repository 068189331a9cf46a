"""One script on one connection of PostgreSQL: values encoded, rows decoded, and a transaction's
statements sent together.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import AsyncCursor

from ...checks import json_text
from ...errors import ConfigurationError
from ...records import Scope
from ..encryption import KeyRing
from ..spaces import EmbeddingSpace
from ..sql import queries
from ..sql.row_codec import Row
from ..sql.session import Values
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

MAX_DIMENSIONS = 16_000  # of pgvector's halfvec
LARGE_BYTES = 2**19
MAX_WAITING = 50  # statements; what they take on the event loop is short
SCOPE_IDS = frozenset({"scope_id", "scope_ids", "served"})
"""Values whose bytes are ids of scopes."""
EVERY_SCOPE = b""
"""Stands for all scopes' ids: tables were made or dropped."""
_VALUE = re.compile(r"%\((\w+)\)[sb]")
T = TypeVar("T")


Statement: TypeAlias = tuple[LiteralString, Mapping[str, Any]]
"""A statement with its values, encoded."""
BEGIN: Statement = "BEGIN", {}
COMMIT: Statement = "COMMIT", {}


@cache
def statement(query: str, space: int | None = None, width: int | None = None) -> LiteralString:
    """Return the text of a named query, for one vector table where it has to do with one."""
    text = queries(DIALECT)[query].replace("{space}", str(space))
    return cast("LiteralString", text.replace("{width}", str(width)))


@cache
def value_names(text: str) -> Collection[str]:
    """Return the names of the values that a statement takes."""
    return frozenset(_VALUE.findall(text))


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

    def __init__(
        self,
        connection: AnyConnection,
        traits: Traits,
        *,
        scope: Scope | None = None,
        ring: KeyRing | None = None,
        writes: bool = False,
    ) -> None:
        self.ring = ring
        self.moved = set[bytes]()
        self._connection = connection
        self._traits = traits
        self._scope = scope
        self._writes = writes
        self._waiting: list[Statement] = []
        self._in_transaction = False

    async def complete(self, script: Callable[[PostgresSession], Coroutine[Any, Any, T]]) -> T:
        """Run a script: in one transaction where it writes, or where settings hold for a
        transaction alone; else each of its statements stands for itself.
        """
        self._waiting += self._settings()
        if not self._writes and not self._waiting:
            return await script(self)
        self._in_transaction = True
        if self._connection.autocommit:  # otherwise psycopg begins one by itself
            self._waiting.insert(0, BEGIN)
        try:
            done = await script(self)
            await self._flush(COMMIT)
        except BaseException:
            self._waiting.clear()
            with suppress(psycopg.Error):  # a lost connection has nothing to take back
                await within(self._connection, CONNECT_SECONDS, self._connection.rollback())
            raise
        return done

    def _settings(self) -> Iterator[Statement]:
        """Yield the statements that every transaction begins with; what they set is gone with
        it.
        """
        traits = self._traits
        if traits.pooled:
            yield self._statement("set_locally", {"path": traits.path, **traits.target.limits})
        if traits.row_security and self._scope:
            yield self._statement("act_for_scope", {"scope": self._scope.id.hex()})
        elif traits.row_security:
            yield self._statement("act_for_all", {})

    # -- the statements of scripts --------------------------------------------------------------

    async def rows(self, query: str, values: Values) -> Sequence[Row]:
        """Return all rows of the named query, decoded."""
        [rows] = await self.several([(query, values)])
        return rows

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries."""
        statements = [self._statement(query, values) for query, values in queries]
        return [await cursor.fetchall() for cursor in await self._flush(*statements)]

    async def run(self, query: str, values: Values) -> int:
        """Return how many rows the named statement changed."""
        [cursor] = await self._flush(self._statement(query, values))
        return cursor.rowcount

    async def run_many(self, query: str, values: Sequence[Values]) -> None:
        """Run the named statement once for each set of values; its errors may show at the next read
        or the end.
        """
        for row in values:
            self._waiting.append(self._statement(query, row))
            if len(self._waiting) >= MAX_WAITING:
                await self._flush()

    async def make_vectors(self, space: EmbeddingSpace) -> None:
        """Make the table of a new embedding space's vectors; where tables are guarded or
        distributed, it is too.

        Raises:
            ConfigurationError: pgvector keeps none that are so wide.
        """
        width = space.dimensions
        if width > MAX_DIMENSIONS:
            raise ConfigurationError(
                f"PostgreSQL keeps vectors of up to {MAX_DIMENSIONS:,} dimensions, and "
                f"{space.name!r} has {width:,}; set dimensions={MAX_DIMENSIONS} or less, choose "
                "another model, or use libSQL."
            )
        self.moved.add(EVERY_SCOPE)
        await self.run("make_vectors", {"space": space.number, "width": width})
        if self._traits.row_security:
            await self.run("guard_tables", {})
        if await self.is_distributed():
            await self.rows("distribute_table", {"name": f"memory_vector_{space.number}"})

    async def drop_vectors(self, space_number: int) -> None:
        """Drop the table of an embedding space's vectors."""
        self.moved.add(EVERY_SCOPE)
        # the table may be older than the guard, and then another's than maintenance's
        if self._traits.row_security:
            await self.rows("act_for_self", {})
        await self.run("drop_vectors", {"space": space_number})

    async def about(self) -> Sequence[Row]:
        """See `Session`; of a Citus cluster also its nodes, and tables that are not distributed."""
        about = await self.rows("about", {})
        [row] = await self.rows("has_citus", {})
        return [*about, *(await self.rows("about_cluster", {}) if row["citus"] else ())]

    async def is_distributed(self) -> bool:
        """Return True if the schema's tables are spread, so that new ones must be."""
        [row] = await self.rows("has_citus", {})
        return row["citus"] and (await self.rows("is_distributed", {}))[0]["spread"]

    # -- sending --------------------------------------------------------------------------------

    def _statement(self, query: str, values: Values) -> Statement:
        if "step" in values:
            self.moved.add(values["scope_id"])
        text = statement(query, values.get("space"), values.get("width"))
        return text, {name: encoded(name, values[name]) for name in value_names(text)}

    async def _flush(self, *asked: Statement) -> Sequence[AsyncCursor[Row]]:
        """Execute what waits and these statements; return the cursors of the latter."""
        batch, self._waiting = [*self._waiting, *asked], []
        if not batch:
            return []
        sizes = [_size(values) for _, values in batch]
        seconds = self._traits.target.answer_seconds + sum(sizes) / MIN_BYTES_PER_SECOND
        # The server's clock runs from a statement's text on: what is large goes alone, when the
        # server knows that.
        is_large = max(sizes) > LARGE_BYTES
        executed = await within(self._connection, seconds, self._executed(batch, alone=is_large))
        return executed[len(batch) - len(asked) :]

    async def _executed(
        self, batch: Sequence[Statement], *, alone: bool
    ) -> Sequence[AsyncCursor[Row]]:
        # Psycopg ends a pipeline with a message that stops the server's clock for idle
        # transactions: where locks are held, a statement of its own starts it again.
        together = len(batch) - int(self._writes and batch[-1] is not COMMIT)
        if alone or not self._in_transaction:
            together = 0
        executed: list[AsyncCursor[Row]] = []
        async with self._connection.pipeline() if together > 1 else nullcontext():
            executed += [await self._execute(*statement) for statement in batch[:together]]
        return [*executed, *[await self._execute(*statement) for statement in batch[together:]]]

    async def _execute(self, text: LiteralString, values: Mapping[str, Any]) -> AsyncCursor[Row]:
        cursor = self._connection.cursor(binary=True, row_factory=named_rows)
        if self._traits.lent:
            register_types(cursor, self._traits)
        return await cursor.execute(text, values or None, prepare=bool(values))


def _size(values: Mapping[str, Any]) -> int:
    """Return about how many bytes the values take on the line."""
    return sum(len(value) for value in values.values() if isinstance(value, str | bytes))
