"""What a transaction script may ask of a database: named statements with bound values, and nothing else.

The scripts (`write_queries.py` and its neighbours) are written once for all dialects. An adapter supplies a `Session`
for the length of one transaction; it encodes the values (lists, times, JSON) as its driver wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from ...records import Scope

P = ParamSpec("P")
T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Mapping[str, Any]


class Session(Protocol):
    """One transaction of one connection.

    Attributes:
        is_standby: whether it reads what may be older than what another session has read before.
    """

    is_standby: bool

    async def rows(self, query: str, values: Values, *, space_number: int | None = None) -> Sequence[Row]:
        """Runs the named query and gives all its rows, decoded: aware UTC datetimes, tuples for lists, dicts for
        JSON objects, str ids. `space_number` picks the vector table of statements that hold `{space}`.
        """
        ...

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """The rows of several named queries, asked in this order and in as few round trips as the driver can."""
        ...

    async def run(self, query: str, values: Values, *, space_number: int | None = None) -> int:
        """Runs the named statement and gives how many rows it changed."""
        ...

    async def aside(self, size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What `work` returns, worked out where it holds up nobody; it takes as long as to read so many characters."""
        ...

    async def run_many(self, query: str, values: Sequence[Values], *, space_number: int | None = None) -> None:
        """Runs the named statement once for each set of values, as fast as the driver can."""
        ...


Of = TypeVar("Of", bound=Session, covariant=True)


class Database(Protocol[Of]):
    """Runs scripts: async functions that take a session first and wait for nothing else."""

    def read(
        self, script: Callable[Concatenate[Of, P], Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """What a script reads that changes nothing."""
        ...

    def write(
        self, script: Callable[Concatenate[Of, P], Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]:
        """What came of a script run in one transaction, committed when it returns and rolled back whole when it raises.

        Run again where the database asks for it.
        """
        ...

    def within(self, scope: Scope) -> Database[Of]:
        """The same database for scripts of one scope alone, which the engine holds them to where it can; without it a
        script is one of maintenance, which crosses scopes.
        """
        ...

    async def close(self) -> None:
        """Releases everything; closing twice is harmless."""
        ...
