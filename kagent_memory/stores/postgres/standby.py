"""A standby that readers are answered from, as long as it holds what this process wrote."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeVar

import psycopg
from typing_extensions import override

from ... import telemetry
from ...errors import ConfigurationError, Conflict, StoreError
from ...records import Scope
from ..encryption import KeyRing
from ..sql import queries
from ..sql.session import Row, Script
from ..values import OpenOptions, StandbyBehind, StandbyError
from .connection import (
    CONNECT_SECONDS,
    DIALECT,
    AnyConnection,
    Target,
    Traits,
    connect,
    fetch,
    within,
)
from .database import PostgresDatabase
from .errors import refused
from .pool import Pool
from .session import EVERY_SCOPE

logger = logging.getLogger(__name__)

SHORTEST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
LAG_SECONDS = 5.0  # behind for longer than this, it is no longer only on its way
MOST_SCOPES = 10_000
T = TypeVar("T")


class Standby:
    """Standby that answers reads when it holds what they need. It belongs to the event loop that
    opened it.

    Args:
        target: which server, and how its connections are set up.
        cluster: what the primary's row of the statement `cluster` says.
        position: up to where the primary's log was written when the store was opened.
        row_security: whether the primary's tables are guarded.
        options: those of the store.
    """

    @classmethod
    async def of(cls, uri: str, target: Target, primary: Pool, options: OpenOptions) -> Self:
        """The standby of this URI, looked at; one that is merely away is tried again later.

        Args:
            uri: which server.
            target: how connections are set up; the primary's.
            primary: the connections to the primary.
            options: those of the store.

        Raises:
            ConfigurationError: the server is not a standby of this primary, or does not let us in.
            StoreError: the primary is away.
        """
        conninfo = uri.removeprefix("kagent+")
        if not conninfo.startswith(("postgresql://", "postgres://")):
            raise ConfigurationError(
                "read_uri takes the URI of a standby, postgresql://host/database."
            )

        async def look(connection: AnyConnection, traits: Traits) -> Self:
            cluster, node = await _row(connection, "cluster"), await _row(connection, "node")
            there = replace(target, conninfo=conninfo)
            return cls(there, cluster, node["position"], traits.row_security, options)

        try:
            standby = await primary.use(look)
        except psycopg.Error as error:
            raise ConfigurationError(
                f"read_uri: the primary does not report where its log ends: {_words(error)}."
            ) from error
        await standby.pool.open()
        try:
            async with await connect(standby.target) as there:
                wrong = await standby.wrong_with(there)
        except psycopg.Error as error:
            if isinstance(told := refused(error), ConfigurationError):
                raise ConfigurationError(f"read_uri: {told}") from error
            standby.failed(StandbyError(_words(error)))
            return standby
        if wrong is not None:
            raise ConfigurationError(
                f"read_uri: {wrong}; name a streaming standby of the database, or leave it out."
            )
        return standby

    def __init__(
        self, target: Target, cluster: Row, position: int, row_security: bool, options: OpenOptions
    ) -> None:
        self.target = target
        self.pool = Pool(target, size=options.get("pool_size", 10), verify=self._verify)
        self._ring = KeyRing.parse(options.get("encryption_keys"))
        self._cluster = cluster
        self._row_security = row_security
        self._loop = asyncio.get_running_loop()
        self._floor = position, self._loop.time()  # what was written before, whatever the scope
        self._written: dict[bytes, tuple[int, float]] = {}
        self._pause = SHORTEST_PAUSE_SECONDS
        self._again_at = 0.0
        self._trouble: str | None = None
        self._lags = False

    def held_off(self) -> str | None:
        """Return the reason not to ask it; None when it may be asked, as a rule or by one
        reader, who tries it again.
        """
        if self._trouble is None:
            return None
        if (now := self._loop.time()) >= self._again_at:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
            self._again_at = now + self._pause
            return None
        telemetry.standby_asked("away")
        return self._trouble

    def database(self) -> PostgresDatabase:
        """The standby's connections for one reader, who is answered by one server alone."""
        return StandbyDatabase(self.pool, self._ring, self)

    def wrote(self, scopes: Set[bytes], position: int) -> None:
        """This process moved these scopes, and the log holds it up to there."""
        place = position, self._loop.time()
        if EVERY_SCOPE in scopes:
            self._floor = max(self._floor, place)
        if len(self._written) + len(scopes) > MOST_SCOPES:
            self._floor = max(self._floor, *self._written.values())
            self._written.clear()
        self._written |= {scope: max(self._written.get(scope, place), place) for scope in scopes}

    def check(self, scope: Scope | None, node: Row) -> None:
        """Look at what the server said of itself, in the round trip in which it answered.

        Raises:
            StandbyError: it was promoted.
            StandbyBehind: it has not replayed what this process wrote.
        """
        if not node["is_standby"]:
            raise StandbyError("it is no longer a standby")
        written = self._written.get(scope.id if scope else b"", self._floor)
        position, at = max(self._floor, written)
        if node["position"] >= position:
            return
        if (seconds := self._loop.time() - at) >= LAG_SECONDS:
            raise StandbyBehind(f"it has not replayed yet what was written {seconds:.0f} s ago")
        raise StandbyBehind

    def answered(self, *, first: bool) -> None:
        """It answered a reader, for the first time or again."""
        if first:
            telemetry.standby_asked("answered")
        if self._trouble is not None or self._lags:
            logger.info("The standby of read_uri answers again.")
        self._trouble, self._lags, self._pause = None, False, SHORTEST_PAUSE_SECONDS

    def failed(self, error: StandbyError) -> str | None:
        """It could not answer; gives what the reader is told, nothing where it is only on its
        way.
        """
        reason = str(error)
        if isinstance(error, StandbyBehind):
            telemetry.standby_asked("behind")
            if reason and not self._lags:
                logger.warning(
                    "The standby of read_uri lags, and the primary answers meanwhile: %s.", reason
                )
            self._lags |= bool(reason)
            return f"standby: {reason}" if reason else None
        telemetry.standby_asked("away")
        if self._trouble is None:
            logger.warning(
                "The standby of read_uri is not read from until it answers again: %s.", reason
            )
            self._again_at = self._loop.time() + self._pause
        self._trouble = f"standby: {reason}"
        return self._trouble

    async def close(self) -> None:
        """Close its connections."""
        await self.pool.close()

    async def _verify(self, connection: AnyConnection, traits: Traits) -> None:
        if wrong := await self.wrong_with(connection):
            raise psycopg.OperationalError(wrong)
        self.check(None, await _row(connection, "node"))
        if traits.row_security != self._row_security or traits.halfvec is None:
            raise StandbyBehind(
                "its tables are not guarded as the primary's were when the store was opened"
            )

    async def wrong_with(self, connection: AnyConnection) -> str | None:
        """Return the reason why this server cannot stand by the primary, or None."""
        if await _row(connection, "cluster") != self._cluster:
            return "this is another database than the one that is written to"
        if not (await _row(connection, "node"))["is_standby"]:
            return "this server is not a standby: it accepts writes itself"
        return None


class StandbyDatabase(PostgresDatabase):
    """The standby's connections for one reader: every answer comes from the same server, and holds
    what it must.
    """

    def __init__(self, pool: Pool, ring: KeyRing | None, standby: Standby) -> None:
        super().__init__(pool, ring=ring, check=self._check_node)
        self._standby = standby
        # what all scripts of the reader have in common: the start of the server that answered
        self._started: set[datetime] = set()
        self._counted: set[bool] = set()

    @override
    async def read(self, script: Script[T]) -> T:
        try:
            found = await super().read(script)
        except StandbyError:
            raise
        except (StoreError, Conflict) as error:
            # of an embedding space, made by another
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                raise StandbyBehind from error
            raise StandbyError(
                str(error).removeprefix("memory unavailable: ").rstrip(".")
            ) from error
        self._standby.answered(first=not self._counted)
        self._counted.add(True)
        return found

    def _check_node(self, scope: Scope | None, node: Row) -> None:
        self._standby.check(scope, node)
        self._started.add(node["started_at"])
        if len(self._started) > 1:
            # another standby behind the same name: what the first one held, this one may not
            raise StandbyBehind


async def _row(connection: AnyConnection, query: str) -> Row:
    [row] = await within(connection, CONNECT_SECONDS, fetch(connection, queries(DIALECT)[query]))
    return row


def _words(error: psycopg.Error) -> str:
    return " ".join(str(error).split()).rstrip(".")
