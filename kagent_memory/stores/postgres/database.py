"""One PostgreSQL database, open: scripts on connections of its pool, each that writes in one
transaction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Set
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors

from ...records import Scope
from ..encryption import KeyRing
from ..sql import queries
from ..sql.session import Script
from .connection import CONNECT_SECONDS, DIALECT, AnyConnection, Traits, fetch, within
from .errors import ours
from .pool import Pool
from .session import PostgresSession

OUTDATED = (errors.InvalidSqlStatementName, errors.FeatureNotSupported)
"""The server knows a prepared statement no more, or another process changed what it reads."""
T = TypeVar("T")


class PostgresDatabase:
    """The connections of one store. It belongs to the event loop that opened it.

    Args:
        pool: of connections to the database.
        ring: the keys that rows are encrypted with; None: they are not.

    Attributes:
        scope: whose rows alone its scripts see under row level security; None: it acts for
            maintenance.
        wrote: is told which scopes a transaction moved, and up to where the log holds it, None if
            that could not be learnt; None: nobody asks.
    """

    has_nearest = True

    def __init__(self, pool: Pool, *, ring: KeyRing | None = None) -> None:
        self.pool = pool
        self.ring = ring
        self.scope: Scope | None = None
        self.wrote: Callable[[Set[bytes], int | None], None] | None = None

    @property
    def trouble(self) -> str | None:
        """See `Database`."""
        return None

    def within(self, scope: Scope) -> Self:
        """Return the same connections for scripts of one scope alone."""
        restricted = copy.copy(self)
        restricted.scope = scope
        return restricted

    async def read(self, script: Script[T]) -> T:
        """Run a script that changes nothing."""
        return await self._run(script, writes=False)

    async def write(self, script: Script[T]) -> T:
        """Run a script in one transaction, which runs to its end even if the caller is
        cancelled.
        """
        return await self._run(script, writes=True)

    async def erase(self) -> None:
        """Do nothing: what the server's log holds is its own affair."""

    async def close(self) -> None:
        """Close the connections. Closing twice is harmless."""
        await self.pool.close()

    async def _run(self, script: Script[T], *, writes: bool) -> T:
        async def work(connection: AnyConnection, traits: Traits) -> T:
            session = PostgresSession(
                connection, traits, scope=self.scope, ring=self.ring, writes=writes
            )
            done = await session.complete(script)
            if self.wrote is not None and session.moved:
                self.wrote(session.moved, await _position_of(connection))
            return done

        try:
            try:
                return await self.pool.use(work)
            except OUTDATED:  # nothing came of it
                await self.pool.forget()
                return await self.pool.use(work)
        except psycopg.Error as error:
            raise ours(error) from error


async def node_of(connection: AnyConnection, _: Traits | None = None) -> Mapping[str, Any]:
    """Return which server answers, and up to where it holds the log."""
    [node] = await within(connection, CONNECT_SECONDS, fetch(connection, queries(DIALECT)["node"]))
    return node


async def _position_of(connection: AnyConnection) -> int | None:
    try:
        return (await node_of(connection))["position"]
    except psycopg.Error:
        return None  # what was written is kept all the same
