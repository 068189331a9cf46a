"""Where memories stand, in columns: ranking works on them as they are, without an object for each memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from .values import RankFeatures

NONE = np.iinfo(np.int64).min
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


class Places(Sequence[RankFeatures]):
    """Where some memories stand, read as a list of what each is.

    Args:
        ids: of the memories, in order.
        sessions: which session each stands in, by number; below 0: in none.
        positions: where it stands there; NONE: nowhere.
        authors: who said it, by its place among the names; below 0: nobody.
        names: texts that many memories share.
        chars: how long each is.
        asks: which end with a question.
        names_a_time: which name a time.
        made: makes what each is; called at most once, if ever.
    """

    def __init__(
        self,
        ids: Sequence[str],
        sessions: Rows,
        positions: Rows,
        authors: Rows,
        names: Sequence[str],
        chars: Rows,
        asks: Mask,
        names_a_time: Mask,
        made: Callable[[], Sequence[RankFeatures]],
    ) -> None:
        self.ids, self.sessions, self.positions = ids, sessions, positions
        self.authors, self.names = authors, names
        self.chars, self.asks, self.names_a_time = chars, asks, names_a_time
        self._make = made

    @classmethod
    def of(cls, features: Sequence[RankFeatures]) -> Self:
        """The same in columns."""
        sessions, authors = dict[str | None, int](), dict[str | None, int]()
        said_by = [authors.setdefault(one.author, len(authors)) if one.author else -1 for one in features]
        numbers = [sessions.setdefault(one.session_id, len(sessions)) if one.session_id else -1 for one in features]
        return cls(
            [one.id for one in features],
            np.array(numbers, np.int64),
            np.array([NONE if one.position is None else one.position for one in features], np.int64),
            np.array(said_by, np.int64),
            [author or "" for author in authors],
            np.array([one.chars for one in features], np.int64),
            np.array([one.asks for one in features], np.bool_),
            np.array([one.names_a_time for one in features], np.bool_),
            lambda: features,
        )

    @cached_property
    def _features(self) -> Sequence[RankFeatures]:
        return self._make()

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
