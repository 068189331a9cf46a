"""One script on one connection of PostgreSQL: values encoded, rows decoded, and much of it in bounded pieces."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, LiteralString, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
from pgvector import HalfVector
from psycopg.types.json import Json

from ...concurrency import run_in_thread, uninterrupted
from ..encryption import KeyRing
from ..sql import queries
from ..sql.sealing import Sealing
from ..sql.session import Row, Values
from . import arrays
from .arrays import Wire
from .connection import DIALECT, Connection, Vectors
from .prepared import Command, command
from .transaction import Transaction

PIECE_BYTES = 2**18
PIECE_ROWS = 50
P = ParamSpec("P")
T = TypeVar("T")
Preamble: TypeAlias = Sequence[tuple[LiteralString, Mapping[str, str]]]
"""Statements that a transaction begins with, each with its values."""
MOVING = frozenset({"touch_scope", "advance_version"})
"""Statements that every change of what readers see begins with: of memories, or of their vectors alone."""
EVERY_SCOPE = b""
"""Stands for all scopes' ids: tables were made or dropped."""
RECORDS = frozenset({"insert_memory"})
"""Statements that take all their sets of values, which are of one scope, at once: as arrays what each row has of its
own, and what rows share as one JSON text, "rows", with the number of its record for each of them, "place".
"""
STACKED = frozenset({"put_vector"})
"""Statements that take each value but the scope, which is one, as the list of all sets' values."""


@cache
def statement(query: str, space_number: int | None = None, dimensions: int | None = None) -> LiteralString:
    """The text of a named query, for one vector table where it has to do with one."""
    text = queries(DIALECT)[query]
    return cast("LiteralString", text.replace("{space}", str(space_number)).replace("{dimensions}", str(dimensions)))


_ARRAY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encoded(name: str, value: Any) -> Any:
    """A statement's value of this name as the driver takes it."""
    if isinstance(value, bytes) and name == "scope_id":
        return uuid.UUID(bytes=value)
    if isinstance(value, np.ndarray):
        return HalfVector(cast("Any", value))
    if isinstance(value, Mapping):
        return Json(value)
    if not isinstance(value, list | tuple):
        return value
    values = cast("Sequence[Any]", value)
    if values and isinstance(values[0], np.ndarray):
        return Vectors(values)
    if values and isinstance(values[0], bytes):
        is_ids = name in ("scope_id", "scope_ids", "served")
        if is_ids:
            return [uuid.UUID(bytes=one) for one in values]
        return "{" + ",".join([f'"\\\\x{one.hex()}"' for one in values]) + "}"
    # The driver's own ways are far slower. An array's text is JSON's in braces, so long as nothing had to be escaped.
    written = _ARRAY.encode(values)
    return list(values) if "\\" in written else "{" + written[1:-1] + "}"


_RECORD = json.JSONEncoder(default=datetime.isoformat, ensure_ascii=False, separators=(",", ":"))  # of other times
# The rows of one batch have most of their times in common. Of UTC alone: elsewhere two times are equal an hour apart,
# where a clock is set back.
_utc_text = lru_cache(256)(datetime.isoformat)


_SHARED = (bool, int, float, str, bytes, tuple)
OWN: Mapping[str, Callable[[Sequence[Any]], Wire]] = {
    "id": arrays.ids,
    "content": arrays.texts,
    "content_hash": arrays.blobs,
    "postings": arrays.blobs,
    "sealed": arrays.blobs,
}


def _record(values: Values) -> str:
    """What a row does not have of its own, and is not null, as JSON."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        if value is None or name in OWN or name == "scope_id":
            continue
        row[name] = _utc_text(value) if type(value) is datetime and value.tzinfo is UTC else value
    return _RECORD.encode(row)


def _is_alike(row: Values, other: Values) -> bool:
    """Whether two rows of one scope have the same record for certain."""
    for name, value in row.items():
        if value is not other[name] and name not in OWN and not _is_same(value, other[name]):
            return False
    return True


def _is_same(value: object, other: object) -> bool:
    if type(value) is not type(other):
        return False
    if isinstance(value, datetime) and isinstance(other, datetime):
        return value.tzinfo is UTC is other.tzinfo and value == other
    return value == other if isinstance(value, _SHARED) else not value and not other


def _recorded(values: Sequence[Values]) -> Iterator[tuple[int, tuple[Values, str]]]:
    """Each row with its record, and how much there is of both."""
    former, record = None, ""
    for row in values:
        if former is None or not _is_alike(row, former):
            former, record = row, _record(row)
        yield len(record) + sum(len(row[name] or b"") for name in OWN), (row, record)


def _joined(rows: Sequence[tuple[Values, str]]) -> Values:
    numbers = {record: number for number, record in enumerate(dict.fromkeys(record for _, record in rows), 1)}
    own = {name: array([row[name] for row, _ in rows]) for name, array in OWN.items()}
    place = arrays.integers([numbers[record] for _, record in rows])
    return {"scope_id": rows[0][0]["scope_id"], "rows": f"[{','.join(numbers)}]", "place": place, **own}


def pieces(query: str, values: Sequence[Values]) -> Iterator[Sequence[Values]]:
    """The sets of values as the statement takes them, in pieces of a bounded size: each is sent before the next is
    made, so that neither side holds much, and the event loop goes on in between.
    """
    if query in RECORDS:
        for some in _portions(_recorded(values)):
            yield [_joined(some)]
    elif query in STACKED:
        sizes = (sum(kept.nbytes for kept in one.values() if isinstance(kept, np.ndarray)) for one in values)
        for some in _portions(zip(sizes, values, strict=True)):
            ids, vectors = arrays.ids([one["id"] for one in some]), Vectors([one["embedding"] for one in some])
            yield [{"scope_id": some[0]["scope_id"], "id": ids, "embedding": vectors}]
    else:
        for start in range(0, len(values), PIECE_ROWS):
            yield values[start : start + PIECE_ROWS]


def _portions(items: Iterable[tuple[int, T]]) -> Iterator[list[T]]:
    """Items in portions of a bounded size; each item comes with its own size."""
    portion: list[T] = []
    held = 0
    for size, item in items:
        if portion and held + size > PIECE_BYTES:
            yield portion
            portion, held = [], 0
        portion.append(item)
        held += size
    if portion:
        yield portion


def _asked(text: str, values: Values) -> tuple[Command, Sequence[Any]]:
    asked = command(text)
    return asked, [encoded(name, values[name]) for name in asked.names]


def begin_with(transaction: Transaction, preamble: Preamble) -> None:
    """Sends these statements together with the one that comes next, which costs no round trip; answers are checked."""
    for text, values in preamble:
        sent = command(text)
        transaction.enqueue(sent.text, [values[name].encode() for name in sent.names])


class PostgresSession:
    """The `Session` of one connection. In a transaction, statements whose answer nobody reads cost no round trip.

    Args:
        connection: the connection.
        preamble: statements that each transaction begins with, where the session makes its own.
        ring: the keys that rows are encrypted with; None: they are not.
        check: is given the row of the statement `node`, asked in one round trip with whatever is read; None: it is not.
        transaction: that the session is in; None: it only reads, and what it asks at once is a transaction of its own.
    """

    def __init__(
        self,
        connection: Connection,
        preamble: Preamble = (),
        *,
        ring: KeyRing | None = None,
        check: Callable[[Row], None] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        self.is_standby = check is not None
        self.moved = set[bytes]()  # the ids of the scopes that it changed
        self._check = check
        self._connection = connection
        self._sealing = Sealing(ring)
        self._preamble = preamble
        self._transaction = transaction

    @property
    def row_security(self) -> bool:
        """Whether the tables here are guarded, so that new ones must be."""
        return self._connection.row_security

    async def rows(self, query: str, values: Values, *, space_number: int | None = None) -> Sequence[Row]:
        """All rows of the named query, decoded."""
        self._note(query, values)
        [found] = await self._asked([(statement(query, space_number), await self._sent(query, values))])
        return self._sealing.given(query, values, found)

    async def several(
        self, queries: Sequence[tuple[str, Values]], *, space_number: int | None = None
    ) -> Sequence[Sequence[Row]]:
        """The rows of several named queries; all of them go out before the first answer is awaited."""
        ahead = sum(query == "touch_scope" for query, _ in queries)
        if 0 < ahead < len(queries) and self._sealing.ring is not None:  # they come first, and tell the scopes' salts
            return [*await self.several(queries[:ahead]), *await self.several(queries[ahead:])]
        sent: list[tuple[LiteralString, Values]] = []
        for query, values in queries:
            self._note(query, values)
            sent.append((statement(query, space_number), await self._sent(query, values)))
        found = zip(queries, await self._asked(sent), strict=True)
        return [self._sealing.given(query, values, rows) for (query, values), rows in found]

    async def _sent(self, query: str, values: Values) -> Values:
        if self._sealing.lacks_salt(query, values):
            await self.rows("scope_row", {"scope_id": values["scope_id"]})
        return self._sealing.sent(query, values)

    async def _asked(self, queries: Sequence[tuple[LiteralString, Values]]) -> Sequence[Sequence[Row]]:
        if self._transaction is not None:
            return await self._transaction.ask([_asked(text, values) for text, values in queries])
        before: list[tuple[LiteralString, Values]] = [*self._preamble]
        if self._check is not None:
            before.append((statement("node"), {}))
        answers = await self._connection.ask([_asked(text, values) for text, values in (*before, *queries)])
        if self._check is not None:
            [node] = answers[len(before) - 1]
            self._check(node)
        return answers[len(before) :]

    def _note(self, query: str, *values: Values) -> None:
        if query in MOVING:
            ids = (one["scope_id"] for one in values)
            self.moved.update(id if isinstance(id, bytes) else uuid.UUID(id).bytes for id in ids)

    @property
    def _writing(self) -> Transaction:
        if self._transaction is None:
            raise RuntimeError("what only reads writes nothing")
        return self._transaction

    async def run(self, query: str, values: Values, *, space_number: int | None = None) -> int:
        """How many rows the named statement changed."""
        self._note(query, values)
        sent = await self._sent(query, values)
        return await self._writing.count(*_asked(statement(query, space_number), sent))

    async def pause(self) -> None:
        """Lets other tasks of the event loop have their turn."""
        await asyncio.sleep(0)

    async def aside(self, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns, in a thread where it may take long."""
        aside = run_in_thread(size, work, *args, **kwargs)
        return await uninterrupted(aside)  # what goes on in a thread must not meet what the next one does there

    async def run_many(self, query: str, values: Sequence[Values], *, space_number: int | None = None) -> None:
        """The named statement once for each set of values; its errors may show at the next read or the end."""
        self._note(query, *values)
        text = statement(query, space_number)
        sent = values if self._sealing.ring is None else [await self._sent(query, one) for one in values]
        for piece in pieces(query, sent):
            for one in piece:
                self._writing.add(*_asked(text, one))
            if len(values) > 1:
                await self._writing.flush()

    async def define(self, query: str, space_number: int, dimensions: int) -> None:
        """Runs a named statement that defines something of one vector table."""
        self.moved.add(EVERY_SCOPE)
        self._writing.enqueue(statement(query, space_number, dimensions).encode())
        await self._writing.ask()
