"""What a transaction script may ask of a database: named statements with bound values, and nothing
else.

The scripts are written once for all dialects. An adapter
supplies a `Session` for the length of one transaction; it encodes the values (lists, times, JSON)
as its driver wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from ...records import Scope
from ..spaces import EmbeddingSpace
from ..values import StandbyError
from .row_codec import Row, RowCodec

T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any]


class Session(Protocol):
    """One transaction of one connection.

    Attributes:
        is_standby: whether it reads what may be older than what another session has read before.
        half: the numbers of the vectors that statements give as bytes.
        codec: makes records of rows and back.
    """

    is_standby: bool
    half: np.dtype[np.float16]
    codec: RowCodec

    async def rows(
        self, query: str, values: Values, *, space_number: int | None = None
    ) -> Sequence[Row]:
        """Run the named query and return all its rows, decoded: aware UTC datetimes, tuples for
        lists, dicts for JSON objects, str ids. `space_number` picks the vector table of statements
        that hold `{space}`.
        """
        ...

    async def several(self, queries: Sequence[tuple[str, Values]]) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries, asked in this order and in as few round trips
        as the driver can.
        """
        ...

    async def run(self, query: str, values: Values, *, space_number: int | None = None) -> int:
        """Run the named statement and return how many rows it changed."""
        ...

    async def run_many(
        self, query: str, values: Sequence[Values], *, space_number: int | None = None
    ) -> None:
        """Run the named statement once for each set of values, as fast as the driver can."""
        ...

    async def about(self) -> Sequence[Row]:
        """Return what the database says about itself, by `part` and `text`."""
        ...

    async def make_vectors(self, space: EmbeddingSpace) -> None:
        """Make the table of a new embedding space's vectors.

        Raises:
            ConfigurationError: the database keeps none that are so wide.
        """
        ...

    async def drop_vectors(self, space_number: int) -> None:
        """Drop the table of an embedding space's vectors."""
        ...


Script: TypeAlias = Callable[[Session], Coroutine[Any, Any, T]]
"""What a transaction does; arguments of its own are bound to it."""


class Database(Protocol):
    """Runs scripts, which wait for nothing but their session."""

    has_nearest: bool
    """Whether statements search vectors."""

    def read(self, script: Script[T]) -> Coroutine[Any, Any, T]:
        """Run a script that changes nothing."""
        ...

    def write(self, script: Script[T]) -> Coroutine[Any, Any, T]:
        """Run a script in one transaction, committed when it returns and rolled back whole when it
        raises; again where the database asks for it.
        """
        ...

    def within(self, scope: Scope) -> Database:
        """Return the same database for scripts of one scope alone, which the engine holds them to
        where it can; without it a script is one of maintenance, which crosses scopes.
        """
        ...

    async def erase(self) -> None:
        """Leave nothing behind of what was deleted, where the engine keeps a log of it."""
        ...

    async def close(self) -> None:
        """Release everything; closing twice is harmless."""
        ...


class Replica(Protocol):
    """Another server that readers may be answered from."""

    def held_off(self) -> str | None:
        """Return what is wrong with it; None when it is to be asked."""
        ...

    def failed(self, error: StandbyError) -> str | None:
        """Note that it could not answer; return what the reader is told."""
        ...

    def database(self) -> Database:
        """Return its connections for one reader."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...
