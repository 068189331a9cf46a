"""One transaction of the libSQL file, as the shared scripts see it; and how their values are kept
as SQLite's types.

Times are fixed-width ISO text, lists and objects JSON text, truth 0 or 1, vectors raw float16, ids
text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

from ...checks import checked_text, json_text
from ..codec import MEMORY_LISTS, MEMORY_TIMES, to_iso
from ..encryption import KeyRing
from ..spaces import EmbeddingSpace
from ..sql import queries
from ..sql.row_codec import Row
from ..sql.session import Values
from .connection import CHUNK_ROWS, Connection, value_names

DIALECT = "libsql"
MAX_INTEGER = 2**31 - 1  # libsql cuts longer ones

_TIMES = (*MEMORY_TIMES, "last_delivered_at", "at", "run_after", "lease_until", "oldest")
_OBJECTS = ("metadata", "payload")
_TRUTHS = ("is_error", "pinned", "verbatim", "explicit", "asks", "active", "is_operator", "final")

_IDS = ("ids",)
SIDE_BY_SIDE: Mapping[str, Sequence[str]] = {
    "unlink_memories": _IDS,
    "erase_memories": _IDS,
    "erase_stats": _IDS,
    "end_decisions": _IDS,
    "erase_revisions": _IDS,
    "erase_vectors": _IDS,
    "extend_memories": _IDS,
    "reset_delivered": _IDS,
    "insert_tombstones": ("kinds", "keys"),
    "count_usage": ("ids", "retrieved", "delivered", "successes", "failures"),
    "insert_taken": ("session_ids", "event_ids"),
}
"""Statements that take lists of equal length; here they take one list, "rows", of what stands side
by side in them.
"""


ANSWERED_BY: Mapping[str, str] = {"touch_scope": "scope_row"}
"""Statements that write and give a row, where a dialect knows RETURNING; here another one reads
it.
"""


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TIMES, datetime.fromisoformat),
    **dict.fromkeys(MEMORY_LISTS, lambda text: tuple(json.loads(text)) if text != "[]" else ()),
    **dict.fromkeys(_OBJECTS, lambda text: json.loads(text) if text != "{}" else {}),
    **dict.fromkeys(_TRUTHS, bool),
    "embedding": lambda raw: np.frombuffer(raw, np.float16).astype(np.float32),
}


def decoded(row: Row) -> Row:
    """A row as the scripts are promised it; the column's name tells what its text means."""
    return {
        name: value if value is None or name not in _DECODERS else _DECODERS[name](value)
        for name, value in row.items()
    }


def _json(value: object) -> str:
    return json_text(value, "The value")


def _list(value: Sequence[Any]) -> str:
    return _json([_element(one) for one in value])


def _element(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value


# The rows of one batch have most of their times in common. Of UTC alone: elsewhere two times are
# equal an hour apart, where a clock is set back.
_utc_text = lru_cache(256)(to_iso)
_KEPT = frozenset({bytes, float, type(None)})
_ENCODERS: Mapping[type, Callable[[Any], Any]] = {
    bool: int,
    str: lambda value: checked_text(value, "The value"),
    int: lambda value: value if abs(value) <= MAX_INTEGER else str(value),
    datetime: lambda value: _utc_text(value) if value.tzinfo is UTC else to_iso(value),
    np.ndarray: lambda value: np.asarray(value, np.float16).tobytes(),
    dict: lambda value: _json(value) if value else "{}",
    list: lambda value: _list(value) if value else "[]",
    tuple: lambda value: _list(value) if value else "[]",
}


def encoded(value: object) -> Any:
    """A value as the driver keeps it. Integers over 31 bits go as digits, which the database takes
    for the number.

    Raises:
        InvalidInput: text holds what none can, or a mapping or list what JSON cannot.
    """
    if type(value) in _KEPT:
        return value
    if encoder := _ENCODERS.get(type(value)):
        return encoder(value)
    return _json(dict(cast("Mapping[str, Any]", value))) if isinstance(value, Mapping) else value


@cache
def sql(query: str, space_number: int | None = None) -> str:
    """The text of a named query."""
    return queries(DIALECT)[query].replace("{space}", str(space_number))


class LibSQLSession:
    """The `Session` of one transaction; nothing in it ever waits, so a script runs on the driver
    thread in one go.
    """

    half = np.dtype("<f2")

    def __init__(self, connection: Connection, ring: KeyRing | None = None) -> None:
        self.connection = connection
        self.ring = ring

    async def rows(
        self, query: str, values: Values, *, space_number: int | None = None
    ) -> Sequence[Row]:
        """All rows of the named query, decoded."""
        if query in ANSWERED_BY:
            text = sql(query, space_number)
            self.connection.run(text, bound(text, values))
        text = sql(ANSWERED_BY.get(query, query), space_number)
        return [decoded(row) for row in self.connection.rows(text, bound(text, values))]

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """The rows of several named queries, in their order."""
        return [await self.rows(query, values) for query, values in queries]

    async def run(self, query: str, values: Values, *, space_number: int | None = None) -> int:
        """Run the named statement and return the number of rows that it changed."""
        text = sql(query, space_number)
        return self.connection.run(text, bound(text, values))

    async def run_many(
        self, query: str, values: Sequence[Values], *, space_number: int | None = None
    ) -> None:
        """The named statement once for each set of values."""
        text = sql(query, space_number)
        if query in SIDE_BY_SIDE:
            for one in values:
                columns = ([_element(item) for item in one[name]] for name in SIDE_BY_SIDE[query])
                rows = list(zip(*columns, strict=True))
                for start in range(0, len(rows), CHUNK_ROWS):
                    self.connection.run(
                        text, bound(text, {**one, "rows": rows[start : start + CHUNK_ROWS]})
                    )
        else:
            self.connection.run_many(text, [bound(text, one) for one in values])

    async def about(self) -> Sequence[Row]:
        """See `Session`."""
        return await self.rows("about", {})

    async def make_vectors(self, space: EmbeddingSpace) -> None:
        """Make the table of a new embedding space's vectors."""
        await self.run("make_vectors", {}, space_number=space.number)

    async def drop_vectors(self, space_number: int) -> None:
        """Drop the table of an embedding space's vectors."""
        await self.run("drop_vectors", {}, space_number=space_number)


def bound(text: str, values: Values) -> dict[str, Any]:
    """The values that the statement names, encoded; scripts may give more."""
    return {name: encoded(values[name]) for name in value_names(text)}
