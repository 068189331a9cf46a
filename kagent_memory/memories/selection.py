"""What a call of `forget` is asked to erase, and what it erased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar, overload

from ..checks import checked_text, checked_time
from ..errors import InvalidInput
from ..records import Filter

T = TypeVar("T")
ONE_OF_THREE = (
    "Name exactly one: ids, conditions (session_id, tag, author, before, after, "
    "filter), or everything."
)


@dataclass(frozen=True, slots=True, eq=False)
class Forgotten(Sequence[str]):
    """The ids of the memories that a call of `forget` erased, or would erase; it equals their
    tuple.

    Attributes:
        ids: of those memories.
        linked: in a dry run, the ids of memories that say the same as one of them, and stay.
    """

    ids: tuple[str, ...] = ()
    linked: tuple[str, ...] = ()

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return self.ids[place]

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return self.ids == (other.ids if isinstance(other, Forgotten) else other)

    def __hash__(self) -> int:
        return hash(self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Some ids, all memories of a scope that meet every condition, or everything; `Memories.forget`
    says which.

    Raises:
        InvalidInput: more than one of the three is named, conditions contradict each other, or they
            let all through.
    """

    ids: tuple[str, ...] = ()
    session_id: str | None = None
    tag: str | None = None
    author: str | None = None
    before: datetime | None = None
    after: datetime | None = None
    filter: Filter | None = None
    everything: bool = False

    def __post_init__(self) -> None:
        for name in ("session_id", "tag", "author"):
            if (value := getattr(self, name)) is not None:
                checked_text(value, name)
        if sum((bool(self.ids), self.has_conditions, self.everything)) > 1:
            raise InvalidInput(ONE_OF_THREE)
        if self.has_conditions and self.condition() in (Filter(), Filter(superseded=True)):
            raise InvalidInput(
                "The filter lets every memory through; say everything=True to erase them all."
            )

    @property
    def is_empty(self) -> bool:
        """True if nothing is named."""
        return not (self.ids or self.has_conditions or self.everything)

    @property
    def has_conditions(self) -> bool:
        """True if any condition is named."""
        named = (self.session_id, self.tag, self.author, self.before, self.after, self.filter)
        return any(value is not None for value in named)

    def condition(self) -> Filter:
        """Return all conditions as one filter."""
        filter = self.filter or Filter()
        after, before = checked_time(self.after, "after"), checked_time(self.before, "before")
        return replace(
            filter,
            session_id=_agreed("session_id", filter.session_id, self.session_id),
            author=_agreed("author", filter.author, self.author),
            tags=filter.tags if self.tag is None else (*filter.tags, self.tag),
            created_after=max(
                (at for at in (filter.created_after, after) if at is not None), default=None
            ),
            created_before=min(
                (at for at in (filter.created_before, before) if at is not None), default=None
            ),
        )


def _agreed(name: str, first: T | None, second: T | None) -> T | None:
    if first is not None and second is not None and first != second:
        raise InvalidInput(f"The filter and {name} contradict each other; name it once.")
    return first if second is None else second
