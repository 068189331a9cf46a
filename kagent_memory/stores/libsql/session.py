"""One transaction of the libSQL file, as the shared scripts see it; and how their values are kept
as SQLite's types.

Times are fixed-width ISO text, lists and objects JSON text, truth 0 or 1, vectors raw float16, ids
text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import numpy as np

from ...checks import checked_text, json_text
from ..codec import MEMORY_LISTS, MEMORY_TIMES, to_iso
from ..encryption import KeyRing
from ..sql import statement
from ..sql.row_codec import Row
from ..sql.session import Answer, Query, Values
from .connection import DIALECT, Connection, Statement

CHUNK_ROWS = 200

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

_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TIMES, datetime.fromisoformat),
    **dict.fromkeys(MEMORY_LISTS, lambda text: tuple(json.loads(text))),
    **dict.fromkeys(_OBJECTS, json.loads),
    **dict.fromkeys(_TRUTHS, bool),
}


def decoded(row: Row) -> Row:
    """Return a row as scripts are promised it; a column's name tells the meaning of its text."""
    return {
        name: value if value is None or name not in _DECODERS else _DECODERS[name](value)
        for name, value in row.items()
    }


def encoded(value: object) -> Any:
    """Return a value as the driver keeps it.

    Raises:
        InvalidInput: text holds what none can, or a mapping or list what JSON cannot.
    """
    match value:
        case str():
            return checked_text(value, "The value")
        case bool():
            return int(value)
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


@dataclass(eq=False)
class LibSQLSession:
    """The `Session` of one transaction; nothing in it ever waits, so a script runs on the driver
    thread in one go.
    """

    half = np.dtype("<f2")

    connection: Connection
    ring: KeyRing | None = None

    async def execute(self, *queries: Query) -> Sequence[Answer]:
        """See `Session`."""
        answers: list[Answer] = []
        for query in queries:
            [answer] = self.connection.run(to_statement(*query))
            answers.append(answer._replace(rows=[decoded(row) for row in answer.rows]))
        return answers

    async def send(self, *queries: Query) -> None:
        """See `Session`."""
        for start in range(0, len(queries), CHUNK_ROWS):
            chunk = queries[start : start + CHUNK_ROWS]
            self.connection.run(*(to_statement(*query) for query in chunk))


def to_statement(query: str, values: Values) -> Statement:
    """Return a named query with the values that it takes, encoded; scripts may give more."""
    text, names = statement(DIALECT, query, values.get("space"))
    return text, {name: encoded(values[name]) for name in names}
