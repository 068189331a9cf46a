"""One PostgreSQL database, open: scripts on connections of the pool, each writing one in a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Set
from pathlib import Path
from typing import Any, Concatenate, LiteralString, ParamSpec, Self, TypeVar

import psycopg

from ...records import Scope
from ..encryption import KeyRing
from ..sql.session import Row
from . import embedded_server
from .connection import Connection
from .errors import ours
from .lent_pool import LentPool
from .pool import Pool
from .prepared import OUTDATED, command
from .session import PostgresSession, Preamble, begin_with, statement

P = ParamSpec("P")
T = TypeVar("T")


class PostgresDatabase:
    """The connections of one store. It belongs to the event loop that opened it.

    Args:
        pool: of connections to the database.
        directory: of the private server that ends with the store; None: the server is somebody else's.
        scope: whose rows alone its scripts see where row level security is on; None: it acts for maintenance.
        ring: the keys that rows are encrypted with; None: they are not.
        wrote: is told which scopes a transaction moved, and up to where the log holds it; None: nobody asks.
        check: is given the server's row of the statement `node` with whatever is read; None: it is not asked.
    """

    def __init__(
        self,
        pool: Pool | LentPool,
        directory: Path | None,
        scope: Scope | None = None,
        *,
        ring: KeyRing | None = None,
        wrote: Callable[[Set[bytes], int], None] | None = None,
        check: Callable[[Row], None] | None = None,
    ) -> None:
        self.pool = pool
        self._check = check
        self._wrote = wrote
        self._ring = ring
        self._directory = directory
        self._scope = scope

    def within(self, scope: Scope) -> Self:
        """The same connections for scripts of one scope alone."""
        return type(self)(self.pool, None, scope, ring=self._ring, wrote=self._wrote)

    def _preamble(self, connection: Connection) -> Preamble:
        """What every transaction on this connection begins with; gone with the transaction."""
        begun: list[tuple[LiteralString, Mapping[str, str]]] = []
        if connection.pooled:
            begun.append((statement("set_locally"), connection.settings))
        if connection.row_security and self._scope is not None:
            begun.append((statement("act_for_scope"), {"scope": self._scope.id.hex()}))
        elif connection.row_security:
            begun.append((statement("act_for_all"), {}))
        return begun

    async def read(
        self,
        script: Callable[Concatenate[PostgresSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a script reads, each statement for itself."""
        connection = await self.pool.take()
        try:
            session = PostgresSession(connection, self._preamble(connection), ring=self._ring, check=self._check)
            return await script(session, *args, **kwargs)
        except psycopg.Error as error:
            raise ours(error) from error
        finally:
            self.pool.give_back(connection)

    async def write(
        self,
        script: Callable[Concatenate[PostgresSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What came of a script in one transaction, with what it sets for itself alone."""
        connection = await self.pool.take()
        try:
            try:
                return await self._written(connection, script, *args, **kwargs)
            except OUTDATED:  # nothing came of it
                connection.statements.forget()
                return await self._written(connection, script, *args, **kwargs)
        except psycopg.Error as error:
            raise ours(error) from error
        finally:
            self.pool.give_back(connection)

    async def _written(
        self,
        connection: Connection,
        script: Callable[Concatenate[PostgresSession, P], Coroutine[Any, Any, T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        async with connection.begun() as transaction:
            session = PostgresSession(connection, ring=self._ring, transaction=transaction)
            begin_with(transaction, self._preamble(connection))
            done = await script(session, *args, **kwargs)
            if self._wrote is None or not session.moved:
                await transaction.commit()
                return done
            [[node]] = await transaction.commit([(command(statement("node")), ())])
        self._wrote(session.moved, node["position"])
        return done

    async def close(self) -> None:
        """Closes the connections, and ends the private server if there is one. Closing twice is harmless."""
        self.pool.close()
        if isinstance(self.pool, LentPool):
            await self.pool.settled()
        if self._directory is not None:
            directory, self._directory = self._directory, None
            await asyncio.to_thread(embedded_server.stop, directory)
