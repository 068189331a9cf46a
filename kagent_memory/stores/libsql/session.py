"""One transaction of the libSQL file, as the shared scripts see it; and how their values are kept
as SQLite's types.

Times are fixed-width ISO text, lists and objects JSON text, truth 0 or 1, vectors raw float16, ids
text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, cast

import numpy as np

from ...checks import checked_text, json_text
from ..codec import MEMORY_LISTS, MEMORY_TIMES, to_iso
from ..encryption import KeyRing
from ..spaces import EmbeddingSpace
from ..sql import queries
from ..sql.row_codec import Row
from ..sql.session import Values
from .connection import DIALECT, Connection, value_names

CHUNK_ROWS = 200
MAX_INTEGER = 2**31 - 1  # libsql cuts longer ones

_TIMES = (
    *MEMORY_TIMES,
    "last_delivered_at",
    "at",
    "run_after",
    "lease_until",
    "oldest_at",
    "oldest_job_at",
)
_OBJECTS = ("metadata", "payload", "by_type", "jobs", "topic_counts", "tag_counts")
_TRUTHS = ("is_error", "pinned", "verbatim", "explicit", "asks", "active", "is_operator", "final")

ANSWERED_BY: Mapping[str, str] = {"touch_scope": "scope_row"}
"""Statements that write and give a row, where a dialect knows RETURNING; here another one reads
it.
"""


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TIMES, datetime.fromisoformat),
    **dict.fromkeys(MEMORY_LISTS, lambda text: tuple(json.loads(text))),
    **dict.fromkeys(_OBJECTS, json.loads),
    **dict.fromkeys(_TRUTHS, bool),
    "embedding": lambda raw: np.frombuffer(raw, np.float16).astype(np.float32),
}


def decoded(row: Row) -> Row:
    """Return a row as scripts are promised it; a column's name tells the meaning of its text."""
    return {
        name: value if value is None or name not in _DECODERS else _DECODERS[name](value)
        for name, value in row.items()
    }


def encoded(value: object) -> Any:
    """Return a value as the driver keeps it. Integers over 31 bits go as digits, which the
    database takes for the number.

    Raises:
        InvalidInput: text holds what none can, or a mapping or list what JSON cannot.
    """
    match value:
        case str():
            return checked_text(value, "The value")
        case bool():
            return int(value)
        case int():
            return value if abs(value) <= MAX_INTEGER else str(value)
        case datetime():
            return to_iso(value)
        case np.ndarray():
            return np.asarray(value, np.float16).tobytes()
        case list() | tuple():
            elements = cast("Sequence[object]", value)
            listed = [
                element.hex() if isinstance(element, bytes) else element for element in elements
            ]
            return json_text(listed, "The value")
        case Mapping():
            return json_text(dict(cast("Mapping[str, object]", value)), "The value")
        case _:
            return value


@cache
def sql(query: str, space_number: int | None = None) -> str:
    """Return the text of a named query."""
    return queries(DIALECT)[query].replace("{space}", str(space_number))


class LibSQLSession:
    """The `Session` of one transaction; nothing in it ever waits, so a script runs on the driver
    thread in one go.
    """

    half = np.dtype("<f2")

    def __init__(self, connection: Connection, ring: KeyRing | None = None) -> None:
        self.connection = connection
        self.ring = ring

    async def rows(self, query: str, values: Values) -> Sequence[Row]:
        """Return all rows of the named query, decoded."""
        if query in ANSWERED_BY:
            await self.run(query, values)
        text = sql(ANSWERED_BY.get(query, query), values.get("space"))
        return [decoded(row) for row in self.connection.rows(text, bound(text, values))]

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries, in their order."""
        return [await self.rows(query, values) for query, values in queries]

    async def run(self, query: str, values: Values) -> int:
        """Run the named statement and return the number of rows that it changed."""
        text = sql(query, values.get("space"))
        [answer] = self.connection.run((text, bound(text, values)))
        return answer.changed

    async def run_many(self, query: str, values: Sequence[Values]) -> None:
        """Run the named statement once for each set of values."""
        for start in range(0, len(values), CHUNK_ROWS):
            self.connection.run(
                *(
                    (text := sql(query, row.get("space")), bound(text, row))
                    for row in values[start : start + CHUNK_ROWS]
                )
            )

    async def about(self) -> Sequence[Row]:
        """See `Session`."""
        return await self.rows("about", {})

    async def make_vectors(self, space: EmbeddingSpace) -> None:
        """Make the table of a new embedding space's vectors."""
        await self.run("make_vectors", {"space": space.number})

    async def drop_vectors(self, space_number: int) -> None:
        """Drop the table of an embedding space's vectors."""
        await self.run("drop_vectors", {"space": space_number})


def bound(text: str, values: Values) -> dict[str, Any]:
    """Return the values that the statement names, encoded; scripts may give more."""
    return {name: encoded(values[name]) for name in value_names(text)}
