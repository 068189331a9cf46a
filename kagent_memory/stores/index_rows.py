"""The rows of a scope's index, as they lie in memory and in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .codec import ids_in
from .columns import NONE
from .values import RankFeatures

ID_BYTES = 16
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
COLUMNS = np.dtype(
    [
        ("high", ">u8"),
        ("low", ">u8"),
        ("expires", "<i8"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("position", "<i8"),
        ("importance", "<f8"),
        ("length", "<i4"),
        ("chars", "<i4"),
        ("session", "<i4"),
        ("author", "<i4"),
        ("type", "<i4"),
        ("origin", "<i4"),
        ("active", "?"),
        ("alive", "?"),
        ("asks", "?"),
        ("names_a_time", "?"),
    ]
)
_PLACED = (
    "session", "position", "author", "type", "origin", "importance", "created", "happened", "chars", "asks",
    "names_a_time",
)  # fmt: skip
NAMES = ("session_id", "author", "type", "origin")  # texts that many memories share
NAMED = ("session", "author", "type", "origin")  # their columns: numbers of those texts; -1: none

Columns: TypeAlias = npt.NDArray[np.void]
_ID = np.dtype({"names": ["id"], "formats": [f"S{ID_BYTES}"], "offsets": [0], "itemsize": COLUMNS.itemsize})
_DASHES = {0: 0, 8: 1, 12: 2, 16: 3, 20: 4}  # before the digits from there on

RawIds: TypeAlias = npt.NDArray[np.bytes_]
"""Ids of 16 bytes each: what is left of one without the zeros at its end is in the same order, and no other's."""


def features_of(ids: Sequence[str], columns: Columns, names: Sequence[str]) -> list[RankFeatures]:
    """What stands in these columns, one by one."""

    def text(number: int) -> str | None:
        return names[number] if number >= 0 else None

    rows = zip(ids, *(columns[column].tolist() for column in _PLACED), strict=True)
    return [
        RankFeatures(
            id=id,
            session_id=text(session),
            position=None if position == NONE else position,
            author=text(author),
            type=text(type) or "",
            origin=text(origin) or "",
            importance=importance,
            created_at=_EPOCH + created * _MICROSECOND,
            happened_at=None if happened == NONE else _EPOCH + happened * _MICROSECOND,
            chars=chars,
            asks=asks,
            names_a_time=names_a_time,
        )
        for (
            id,
            session,
            position,
            author,
            type,
            origin,
            importance,
            created,
            happened,
            chars,
            asks,
            names_a_time,
        ) in rows
    ]


def raw_ids(columns: Columns) -> RawIds:
    """The ids of these rows."""
    return np.ascontiguousarray(columns.view(_ID)["id"])


def each_id(raw: bytes) -> list[bytes]:
    """Ids whose bytes follow each other."""
    return [raw[start : start + ID_BYTES] for start in range(0, len(raw), ID_BYTES)]


def id_texts(raw: bytes) -> list[str]:
    """The same as texts."""
    digits = np.frombuffer(raw.hex().encode(), np.uint8).reshape(-1, 2 * ID_BYTES)
    texts = np.full((len(digits), 36), ord("-"), np.uint8)
    for begins, ends in pairwise((0, 8, 12, 16, 20, 32)):
        moved = _DASHES[begins]
        texts[:, begins + moved : ends + moved] = digits[:, begins:ends]
    return ids_in(texts.tobytes().decode())


def rising(columns: Columns) -> bool:
    """Whether later rows have later ids."""
    high, low = columns["high"].astype(np.uint64), columns["low"].astype(np.uint64)
    higher = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(higher.all())


def raw_id(*ids: str) -> bytes:
    """The bytes of ids, one after the other."""
    return bytes.fromhex("".join(ids).replace("-", ""))


def renamed(columns: Columns, names: Sequence[str]) -> tuple[Columns, list[str]]:
    """The rows with the texts that they name, and no others."""
    used = np.unique([columns[column] for column in NAMED])
    used = used[used >= 0]
    numbers = np.full(len(names) + 1, -1)  # the last stands for none, which is -1
    numbers[used] = np.arange(len(used))
    for column in NAMED:
        columns[column] = numbers[columns[column]]
    return columns, [names[int(number)] for number in used]


def ticks(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND
