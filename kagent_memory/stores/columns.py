"""The columns of a scope's index, and where memories stand as ranking reads it: in columns, without
an object each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from .codec import ids_in
from .values import RankFeatures

NONE = np.iinfo(np.int64).min
NEVER = np.iinfo(np.int64).max
ID_BYTES = 16
COLUMNS = np.dtype(
    [
        ("high", "<u8"),
        ("low", "<u8"),
        ("expires", "<i8"),
        ("created", "<i8"),
        ("happened", "<i8"),
        ("position", "<i8"),
        ("importance", "<f8"),
        ("length", "<i4"),
        ("chars", "<i4"),
        ("session", "<i4"),
        ("author", "<i4"),
        ("active", "?"),
        ("alive", "?"),
        ("asks", "?"),
        ("names_a_time", "?"),
    ]
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DASHES = {0: 0, 8: 1, 12: 2, 16: 3, 20: 4}  # before the digits from there on

Columns: TypeAlias = npt.NDArray[np.void]
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Places(Sequence[RankFeatures]):
    """Positions of memories, in columns; as a sequence, the features of each.

    Attributes:
        ids: of the memories, in order.
        sessions: the number of each one's session; below 0: none.
        positions: where it stands there; NONE: nowhere.
        authors: who said it, as an index of `names`; below 0: nobody.
        chars: how long it is.
        asks: whether it ends with a question.
        names_a_time: whether it names a time.
        importance: from 0 to 1.
        created: when it was stored, in microseconds since 1970.
        happened: when it happened, likewise; NONE: unknown.
        names: texts that authors and sessions are indexes of.
    """

    ids: Sequence[str]
    sessions: Rows
    positions: Rows
    authors: Rows
    chars: Rows
    asks: Mask
    names_a_time: Mask
    importance: npt.NDArray[np.float64]
    created: Rows
    happened: Rows
    names: Sequence[str]

    @classmethod
    def of(cls, features: Sequence[RankFeatures]) -> Self:
        """Return the same in columns."""
        names: dict[str, int] = {}

        def number(name: str | None) -> int:
            return names.setdefault(name, len(names)) if name else -1

        happened = (one.happened_at for one in features)
        return cls(
            ids=[one.id for one in features],
            sessions=np.array([number(one.session_id) for one in features], np.int64),
            positions=np.array(
                [NONE if one.position is None else one.position for one in features], np.int64
            ),
            authors=np.array([number(one.author) for one in features], np.int64),
            chars=np.array([one.chars for one in features], np.int64),
            asks=np.array([one.asks for one in features], np.bool_),
            names_a_time=np.array([one.names_a_time for one in features], np.bool_),
            importance=np.array([one.importance for one in features], np.float64),
            created=np.array([ticks(one.created_at) for one in features], np.int64),
            happened=np.array([NONE if at is None else ticks(at) for at in happened], np.int64),
            names=[*names],
        )

    @classmethod
    def joined(cls, parts: Sequence[Self], keys: Sequence[Sequence[str]]) -> Self:
        """Return several as one, in the order of their ids; each part's sessions are its own.

        Args:
            parts: of different scopes.
            keys: of each part, what stands for its ids.
        """
        columns: dict[str, Any] = {
            one.name: [getattr(part, one.name) for part in parts] for one in fields(cls)
        }
        starts = np.cumsum([0, *(len(part.names) for part in parts)]).tolist()
        for column in ("sessions", "authors"):
            numbers = zip(columns[column], starts, strict=False)
            columns[column] = [np.where(one < 0, -1, one + start) for one, start in numbers]
        named = [key for some in keys for key in some]
        if not named:
            return cls.of(())
        owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        order = np.lexsort(
            (owners, np.array([id for ids in columns.pop("ids") for id in ids], np.str_))
        )
        names = [name for some in columns.pop("names") for name in some]
        joined = {name: np.concatenate(some)[order] for name, some in columns.items()}
        return cls(ids=[*map(named.__getitem__, order.tolist())], names=names, **joined)

    @cached_property
    def _features(self) -> Sequence[RankFeatures]:
        def text(number: int) -> str | None:
            return self.names[number] if number >= 0 else None

        columns = (
            self.sessions, self.positions, self.authors, self.importance, self.created,
            self.happened, self.chars,
            self.asks, self.names_a_time,
        )  # fmt: skip
        rows = zip(self.ids, *(column.tolist() for column in columns), strict=True)
        return [
            RankFeatures(
                id=id,
                session_id=text(session),
                position=None if position == NONE else position,
                author=text(author),
                importance=importance,
                created_at=_EPOCH + created * _MICROSECOND,
                happened_at=None if happened == NONE else _EPOCH + happened * _MICROSECOND,
                chars=chars,
                asks=asks,
                names_a_time=names_a_time,
            )
            for id, session, position, author, importance, created, happened, chars, asks, names_a_time in rows  # noqa: E501
        ]

    @overload
    def __getitem__(self, index: int) -> RankFeatures: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RankFeatures]: ...
    @override
    def __getitem__(self, index: int | slice) -> RankFeatures | Sequence[RankFeatures]:
        return self._features[index]

    @override
    def __len__(self) -> int:
        return len(self.ids)

    @override
    def __eq__(self, other: object) -> bool:
        return self._features == (other._features if isinstance(other, Places) else other)


def raw_ids(ids: str) -> bytes:
    """Return the bytes of ids that follow each other."""
    return bytes.fromhex(ids.replace("-", ""))


def ids_of(columns: Columns) -> list[str]:
    """Return the ids of these rows as texts."""
    halves = np.empty((len(columns), 2), ">u8")
    halves[:, 0], halves[:, 1] = columns["high"], columns["low"]
    digits = np.frombuffer(halves.tobytes().hex().encode(), np.uint8).reshape(-1, 2 * ID_BYTES)
    texts = np.full((len(digits), 36), ord("-"), np.uint8)
    for begins, ends in pairwise((0, 8, 12, 16, 20, 32)):
        moved = _DASHES[begins]
        texts[:, begins + moved : ends + moved] = digits[:, begins:ends]
    return ids_in(texts.tobytes().decode())


def is_rising(columns: Columns) -> bool:
    """Return True if later rows have later ids."""
    high, low = columns["high"], columns["low"]
    higher = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    return bool(higher.all())


def ticks(at: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (at - _EPOCH) // _MICROSECOND
