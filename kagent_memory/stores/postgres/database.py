"""One PostgreSQL database, open: scripts on connections of the pool, each writing one in a
transaction.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors

from ...records import Scope
from ..encryption import KeyRing
from ..sql.session import Script
from . import embedded_server
from .connection import CONNECT_SECONDS, AnyConnection, Traits, within
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
        directory: of the private server that ends with the store; None: the server is somebody
            else's.
        ring: the keys that rows are encrypted with; None: they are not.

    Attributes:
        wrote: is told which scopes a transaction moved, and up to where the log holds it; None:
            nobody asks.
    """

    has_nearest = True

    def __init__(
        self,
        pool: Pool,
        directory: Path | None = None,
        *,
        ring: KeyRing | None = None,
    ) -> None:
        self.pool = pool
        self.ring = ring
        self.wrote: Callable[[Set[bytes], int], None] | None = None
        self._directory = directory
        # whose rows alone its scripts see under row level security; None: it acts for maintenance
        self.scope: Scope | None = None

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
        """Run a script that changes nothing; each of its statements stands for itself, but where
        settings hold for a transaction alone.
        """

        async def work(connection: AnyConnection, traits: Traits) -> T:
            session = self._session(connection, traits)
            return await (
                _in_transaction(session, script) if self._settings(traits) else script(session)
            )

        return await self._run(work)

    async def write(self, script: Script[T]) -> T:
        """Run a script in one transaction, which runs to its end even if the caller is
        cancelled.
        """

        async def work(connection: AnyConnection, traits: Traits) -> T:
            session = self._session(connection, traits, writes=True)
            done = await _in_transaction(session, script)
            if self.wrote is not None and session.moved:
                [node] = await session.rows("node", {})
                self.wrote(session.moved, node["position"])
            return done

        return await self._run(work)

    async def erase(self) -> None:
        """Do nothing: what the server's log holds is its own affair."""

    async def close(self) -> None:
        """Close the connections, and end the private server if there is one. Closing twice is
        harmless.
        """
        await self.pool.close()
        if self._directory is not None:
            directory, self._directory = self._directory, None
            await asyncio.to_thread(embedded_server.stop, directory)

    def _session(
        self, connection: AnyConnection, traits: Traits, *, writes: bool = False
    ) -> PostgresSession:
        return PostgresSession(
            connection,
            traits,
            settings=self._settings(traits),
            ring=self.ring,
            lent=self.pool.is_lent,
            writes=writes,
        )

    def _settings(self, traits: Traits) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Return the statements that every transaction begins with; what they set is gone with
        it.
        """
        settings: list[tuple[str, Mapping[str, Any]]] = []
        if traits.pooled:
            settings.append(("set_locally", {"path": traits.path, **traits.target.limits}))
        if traits.row_security and self.scope is not None:
            settings.append(("act_for_scope", {"scope": self.scope.id.hex()}))
        elif traits.row_security:
            settings.append(("act_for_all", {}))
        return settings

    async def _run(self, work: Callable[[AnyConnection, Traits], Coroutine[Any, Any, T]]) -> T:
        async def run(connection: AnyConnection, traits: Traits) -> T:
            try:
                return await work(connection, traits)
            except OUTDATED:  # nothing came of it
                await within(connection, CONNECT_SECONDS, _forget_prepared(connection))
                return await work(connection, traits)

        try:
            return await self.pool.use(run)
        except psycopg.Error as error:
            raise ours(error) from error


async def _in_transaction(session: PostgresSession, script: Script[T]) -> T:
    session.begin()
    try:
        done = await script(session)
        await session.commit()
    except BaseException:
        await session.rollback()
        raise
    return done


async def _forget_prepared(connection: AnyConnection) -> None:
    async with connection.transaction(force_rollback=True):
        pass  # psycopg lets go of all prepared statements with a rollback
