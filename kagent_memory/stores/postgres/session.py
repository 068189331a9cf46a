"""One script on one connection of PostgreSQL: values encoded, rows decoded, and much of it in
bounded pieces.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, LiteralString, NamedTuple, cast

import numpy as np
import psycopg
from pgvector import HalfVector
from psycopg import AsyncCursor

from ...errors import ConfigurationError
from ..encryption import KeyRing
from ..spaces import EmbeddingSpace
from ..sql import queries
from ..sql.row_codec import Row
from ..sql.session import Values
from .connection import (
    CONNECT_SECONDS,
    DIALECT,
    SLOWEST_BYTES_PER_SECOND,
    AnyConnection,
    Traits,
    named_rows,
    register_types,
    within,
)

COVERED_DIMENSIONS = 1300  # what fits into an index row of 2,704 bytes
INLINE_DIMENSIONS = 4000  # what fits into a row of one page
MAX_DIMENSIONS = 16_000  # of pgvector's halfvec
PIECE_BYTES = 2**18
PIECE_ROWS = 50
SCOPE_IDS = frozenset({"scope_id", "scope_ids", "served"})
"""Values whose bytes are ids of scopes."""
EVERY_SCOPE = b""
"""Stands for all scopes' ids: tables were made or dropped."""
BEGIN, COMMIT = "BEGIN", "COMMIT"
_VALUE = re.compile(r"%\((\w+)\)[sb]")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Statement(NamedTuple):
    """A statement with its sets of values, encoded; an empty set: it takes none."""

    text: LiteralString
    values: Sequence[Mapping[str, Any]]


@cache
def statement(
    query: str, space_number: int | None = None, dimensions: int | None = None
) -> LiteralString:
    """Return the text of a named query, for one vector table where it has to do with one."""
    text = queries(DIALECT)[query].replace("{space}", str(space_number))
    return cast("LiteralString", text.replace("{dimensions}", str(dimensions)))


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
        return _JSON.encode(value)
    if not isinstance(value, list | tuple):
        return value
    return [encoded(name, one) for one in cast("Sequence[Any]", value)]


def size_of(values: Mapping[str, Any]) -> int:
    """Return about how many bytes a set of encoded values takes on the line."""
    size = 0
    for value in values.values():
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, HalfVector):
            size += 2 * value.dimensions()
    return size


def pieces(sets: Iterable[Mapping[str, Any]]) -> Iterator[tuple[int, Sequence[Mapping[str, Any]]]]:
    """Divide sets of values into pieces of a bounded size, each with its size."""
    piece: list[Mapping[str, Any]] = []
    total = 0
    for values in sets:
        piece.append(values)
        total += size_of(values)
        if total >= PIECE_BYTES or len(piece) >= PIECE_ROWS:
            yield total, piece
            piece, total = [], 0
    if piece:
        yield total, piece


class PostgresSession:
    """The `Session` of one connection.

    In a transaction, statements whose answer nobody reads wait for the next one that is read or for
    the end, and leave with it in one pipeline. Nothing is cancelled there but what the database
    does not answer in time, whose connection is closed.

    Args:
        connection: the connection.
        traits: what is known of it.
        settings: statements that its transaction begins with.
        ring: the keys that rows are encrypted with; None: they are not.
        lent: whether the connection is the caller's, and must stay as it is.
        writes: whether it may write.
    """

    half = np.dtype(">f2")

    def __init__(
        self,
        connection: AnyConnection,
        traits: Traits,
        *,
        settings: Iterable[tuple[str, Values]] = (),
        ring: KeyRing | None = None,
        lent: bool = False,
        writes: bool = False,
    ) -> None:
        self.row_security = traits.row_security
        self.moved = set[bytes]()  # the ids of the scopes whose version it moved
        self._connection = connection
        self._traits = traits
        self._seconds = traits.target.answer_seconds
        self._lent = lent
        self._writes = writes
        self.ring = ring
        self._settings = [self._statement(query, [values]) for query, values in settings]
        self._waiting: list[Statement] = []
        self._waiting_bytes = 0
        self._in_transaction = False

    # -- transactions ---------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a transaction with the next statement."""
        self._in_transaction = True
        if self._connection.autocommit:  # otherwise psycopg begins one by itself
            self._waiting.append(Statement(BEGIN, ()))
        self._waiting += self._settings

    async def commit(self) -> None:
        """Keep what was written."""
        self._waiting.append(Statement(COMMIT, ()))
        await self._flush()
        self._in_transaction = False

    async def rollback(self) -> None:
        """Take back what was written; a connection that is lost has nothing to take back."""
        self._waiting.clear()
        with suppress(psycopg.Error):
            await within(self._connection, CONNECT_SECONDS, self._connection.rollback())

    # -- reading --------------------------------------------------------------------------------

    async def rows(
        self, query: str, values: Values, *, space_number: int | None = None
    ) -> Sequence[Row]:
        """Return all rows of the named query, decoded."""
        [found] = await self.several([(query, values)], space_number=space_number)
        return found

    async def several(
        self, queries: Sequence[tuple[str, Values]], *, space_number: int | None = None
    ) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries."""
        asked: list[Statement] = []
        for query, values in queries:
            self._note(values)
            asked.append(self._statement(query, [values], space_number))
        return [await cursor.fetchall() for cursor in await self._flush(*asked)]

    # -- writing --------------------------------------------------------------------------------

    async def run(self, query: str, values: Values, *, space_number: int | None = None) -> int:
        """Return how many rows the named statement changed."""
        self._check_writes()
        self._note(values)
        [cursor] = await self._flush(self._statement(query, [values], space_number))
        return cursor.rowcount

    async def run_many(
        self, query: str, values: Sequence[Values], *, space_number: int | None = None
    ) -> None:
        """Run the named statement once for each set of values; its errors may show at the next read
        or the end.
        """
        self._check_writes()
        self._note(*values)
        text = statement(query, space_number)
        for size, piece in pieces(_encoded(text, one) for one in values):
            self._waiting.append(Statement(text, piece))
            self._waiting_bytes += size
            if self._waiting_bytes >= PIECE_BYTES or len(piece) >= PIECE_ROWS:
                await self._flush()

    async def define(self, query: str, space_number: int, dimensions: int) -> None:
        """Run a named statement that defines something of one vector table."""
        self._check_writes()
        self.moved.add(EVERY_SCOPE)
        await self._flush(Statement(statement(query, space_number, dimensions), ()))

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
        made = "make_vectors" if width <= COVERED_DIMENSIONS else "make_wide_vectors"
        tuned = "tune_vectors" if width <= INLINE_DIMENSIONS else "tune_long_vectors"
        guarded = ("guard_tables",) if self.row_security else ()
        for query in (made, tuned, *guarded):
            await self.define(query, space.number, width)
        if await self.is_distributed():
            await self.rows("distribute_table", {"name": f"memory_vector_{space.number}"})

    async def about(self) -> Sequence[Row]:
        """See `Session`; of a Citus cluster also its nodes, and tables that are not distributed."""
        about = await self.rows("about", {})
        [found] = await self.rows("has_citus", {})
        return [*about, *(await self.rows("about_cluster", {}) if found["citus"] else ())]

    async def is_distributed(self) -> bool:
        """Return True if the schema's tables are spread, so that new ones must be."""
        [found] = await self.rows("has_citus", {})
        return found["citus"] and any(
            row["name"] == "scope" for row in await self.rows("distributed", {})
        )

    async def drop_vectors(self, space_number: int) -> None:
        """Drop the table of an embedding space's vectors."""
        # the table may be older than the guard, and then another's than maintenance's
        if self.row_security:
            await self.rows("act_for_self", {})
        await self.define("drop_vectors", space_number, 0)

    # -- others ---------------------------------------------------------------------------------

    def _statement(
        self, query: str, sets: Sequence[Values], space_number: int | None = None
    ) -> Statement:
        text = statement(query, space_number)
        return Statement(text, [_encoded(text, values) for values in sets])

    def _check_writes(self) -> None:
        if not self._writes:
            raise RuntimeError("what only reads writes nothing")

    def _note(self, *sets: Values) -> None:
        for values in sets:
            if "step" in values:
                id = values["scope_id"]
                self.moved.add(id if isinstance(id, bytes) else uuid.UUID(id).bytes)

    async def _flush(self, *asked: Statement) -> Sequence[AsyncCursor[Row]]:
        """Execute what waits and these statements; return the cursors of the latter."""
        batch, self._waiting, self._waiting_bytes = [*self._waiting, *asked], [], 0
        size = sum(size_of(values) for one in batch for values in one.values)
        seconds = self._seconds + size / SLOWEST_BYTES_PER_SECOND
        is_large = size > 2 * PIECE_BYTES
        executed = await within(self._connection, seconds, self._executed(batch, is_large=is_large))
        return executed[len(batch) - len(asked) :]

    async def _executed(
        self, batch: Sequence[Statement], *, is_large: bool
    ) -> Sequence[AsyncCursor[Row]]:
        # Psycopg ends a pipeline with a message that stops the server's clock for idle
        # transactions: where locks are held, a statement of its own starts it again.
        together = len(batch) - int(self._writes and bool(batch) and batch[-1].text != COMMIT)
        if is_large or not self._in_transaction or together < 2:
            return [await self._execute(one, is_large=is_large) for one in batch]
        async with self._connection.pipeline():
            executed = [await self._execute(one) for one in batch[:together]]
        return [*executed, *[await self._execute(one) for one in batch[together:]]]

    async def _execute(self, asked: Statement, *, is_large: bool = False) -> AsyncCursor[Row]:
        cursor = self._connection.cursor(binary=True, row_factory=named_rows)
        if self._lent:
            register_types(cursor, self._traits)
        if len(asked.values) > 1:
            await cursor.executemany(asked.text, asked.values)
        elif asked.values and asked.values[0]:
            # The server's clock runs from a statement's text on: what is large follows when it
            # knows that.
            await cursor.execute(asked.text, asked.values[0], prepare=is_large or None)
        else:
            await cursor.execute(asked.text, prepare=False)
        return cursor


def _encoded(text: str, values: Values) -> Mapping[str, Any]:
    return {name: encoded(name, values[name]) for name in value_names(text)}
