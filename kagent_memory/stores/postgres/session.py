"""One transaction of PostgreSQL, as the shared scripts see it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, LiteralString, cast

import numpy as np
from pgvector import HalfVector
from psycopg import AsyncConnection, AsyncCursor, AsyncPipeline, Cursor
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format
from psycopg.types.json import Json

from ..sql import queries
from ..sql.decoding import id_text
from ..sql.session import Row, Values

DIALECT = "postgres"
_TEXT_ARRAY = 1009
RECORDS = frozenset({"insert_memory"})
"""Statements that take all their sets of values as one JSON text, "rows"."""
STACKED = frozenset({"put_vector"})
"""Statements that take each of their values as the list of all sets' values."""


@cache
def statement(query: str, generation: int | None = None, dimensions: int | None = None) -> LiteralString:
    """The text of a named query, for one vector table where it has to do with one."""
    text = queries(DIALECT)[query]
    return cast("LiteralString", text.replace("{generation}", str(generation)).replace("{dimensions}", str(dimensions)))


class IdLoader(Loader):
    """Ids as the text that they are everywhere in Python."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        """The canonical spelling."""
        return id_text(bytes(data).hex())


def decoded(cursor: AsyncCursor[Any] | Cursor[Any]) -> Callable[[Sequence[Any]], Row]:
    """A row factory: rows by name, lists as tuples."""
    result = cursor.pgresult  # the driver's own description of it makes an object a column
    named = [(result.fname(column) or b"", result.ftype(column)) for column in range(result.nfields)] if result else []
    names = [name.decode() for name, _ in named]
    lists = [name.decode() for name, kind in named if kind == _TEXT_ARRAY]

    def row(values: Sequence[Any]) -> Row:
        made = dict(zip(names, values, strict=True))
        for name in lists:
            made[name] = tuple(made[name])
        return made

    return row


def bound(values: Values) -> Mapping[str, Any]:
    """The values as the driver takes them."""
    return {name: _encoded(name, value) for name, value in values.items()}


def _encoded(name: str, value: Any) -> Any:
    if isinstance(value, bytes) and name == "scope_id":
        return uuid.UUID(bytes=value)
    if isinstance(value, np.ndarray):
        return HalfVector(cast("Any", value))
    if isinstance(value, list | tuple):
        return _list(name, cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return Json(value)
    return value


def _list(name: str, values: Sequence[Any]) -> Any:
    if values and isinstance(values[0], bytes) and name in ("scope_id", "scope_ids"):
        return [uuid.UUID(bytes=value) for value in values]
    if values and isinstance(values[0], np.ndarray):
        return [HalfVector(value) for value in values]
    if values and isinstance(values[0], bytes):
        return list(values)
    # An array's text is JSON's in braces, so long as nothing had to be escaped; the driver's own way is far slower.
    written = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return list(values) if "\\" in written else "{" + written[1:-1] + "}"


def _records(values: Sequence[Values]) -> str:
    rows = [{**one, "scope_id": one["scope_id"].hex()} for one in values]
    return json.dumps(rows, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> str | dict[str, Any]:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return value.isoformat() if isinstance(value, datetime) else dict(cast("Mapping[str, Any]", value))


class PostgresSession:
    """The `Session` of one connection. Inside a pipeline, statements whose answer nobody reads cost no round trip."""

    def __init__(self, connection: AsyncConnection[Row], pipeline: AsyncPipeline | None = None) -> None:
        self._connection = connection
        self._pipeline = pipeline

    async def rows(self, query: str, values: Values, *, generation: int | None = None) -> Sequence[Row]:
        """All rows of the named query, decoded."""
        cursor = await self._connection.execute(statement(query, generation), bound(values), binary=True, prepare=True)
        return await cursor.fetchall()

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """The rows of several named queries; in a pipeline all of them go out before the first answer is awaited."""
        cursors = [
            await self._connection.execute(statement(query), bound(values), binary=True, prepare=True)
            for query, values in queries
        ]
        return [await cursor.fetchall() for cursor in cursors]

    async def run(self, query: str, values: Values, *, generation: int | None = None) -> int:
        """How many rows the named statement changed."""
        cursor = await self._connection.execute(statement(query, generation), bound(values), prepare=True)
        if self._pipeline is not None:
            await self._pipeline.sync()
        return cursor.rowcount

    async def run_many(self, query: str, values: Sequence[Values], *, generation: int | None = None) -> None:
        """The named statement once for each set of values; its errors may show at the next read or the end."""
        if values and query in RECORDS:
            values = [{"rows": _records(values)}]
        if values and query in STACKED:
            values = [{name: [one[name] for one in values] for name in values[0]}]
        if len(values) == 1:
            await self._connection.execute(statement(query, generation), bound(values[0]), prepare=True)
        elif values:
            await self._connection.cursor().executemany(statement(query, generation), [bound(one) for one in values])

    async def define(self, query: str, generation: int, dimensions: int) -> None:
        """Runs a named statement that defines something of one vector table."""
        await self._connection.execute(statement(query, generation, dimensions))
        if self._pipeline is not None:
            # The driver forgets its prepared statements when it sees the answer, but tells the server only after the
            # next statement: that one must not be a prepared one, or the server would forget what the driver knows.
            await self._pipeline.sync()
            await self._connection.execute("SELECT 1", prepare=False)
