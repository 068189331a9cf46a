"""What a transaction script may ask of a database: named statements with bound values, and nothing else.

The scripts (`sql/writing.py` and its neighbours) are written once for all dialects. An adapter supplies a `Session`
for the length of one transaction; it encodes the values (lists, times, JSON) as its driver wants them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Row: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Mapping[str, Any]


class Session(Protocol):
    """One transaction of one connection."""

    async def rows(self, query: str, values: Values, *, generation: int | None = None) -> Sequence[Row]:
        """Runs the named query and gives all its rows, decoded: aware UTC datetimes, tuples for lists, dicts for
        JSON objects, str ids. `generation` picks the vector table of statements that hold `{generation}`.
        """
        ...

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """The rows of several named queries, asked in this order and in as few round trips as the driver can."""
        ...

    async def run(self, query: str, values: Values, *, generation: int | None = None) -> int:
        """Runs the named statement and gives how many rows it changed."""
        ...

    async def pause(self) -> None:
        """Lets others have their turn in the middle of long work, where a script would hold them up."""
        ...

    async def run_many(self, query: str, values: Sequence[Values], *, generation: int | None = None) -> None:
        """Runs the named statement once for each set of values, as fast as the driver can."""
        ...
