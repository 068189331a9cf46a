"""A standby that readers are answered from, as long as it holds what this process wrote."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Set
from dataclasses import replace
from typing import TypeVar

import psycopg
from typing_extensions import override

from ... import telemetry
from ...errors import ConfigurationError, Conflict, StoreError
from ..sql.session import Row, Script, Session
from ..values import Behind
from .connection import Target, Traits
from .database import Pool, PostgresDatabase, node_of
from .errors import refused

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0
MAX_SCOPES = 10_000
T = TypeVar("T")


class Standby:
    """Health of a standby, and what it must hold to answer.

    Attributes:
        trouble: what is wrong with it; None while it answers, or is only on its way.

    Args:
        pool: the connections to it.
        primary: the primary's row of the statement `node`.
        traits: of the connections to the primary.
    """

    def __init__(self, pool: Pool, primary: Row, traits: Traits | None) -> None:
        self.pool = pool
        self.trouble: str | None = None
        self._cluster = primary["system"], primary["database"]
        self._row_security = traits is not None and traits.row_security
        self._loop = asyncio.get_running_loop()
        # up to where the log held the newest write; what was written before is beneath
        self._newest = self._floor = primary["position"]
        self._written: dict[bytes, float] = {}
        self._again_at = 0.0

    def is_asked(self) -> bool:
        """Return True if it answered last, or if its pause is over: one reader tries it again."""
        if not self._again_at:
            return True
        if (now := self._loop.time()) < self._again_at:
            telemetry.count("standby_reads", outcome="away")
            return False
        self._again_at = now + PAUSE_SECONDS
        return True

    def wrote(self, scopes: Set[bytes], position: int | None) -> None:
        """Note that this process moved these scopes, and that the log holds it up to there; None:
        it is not known where, and the primary answers until they are moved again.
        """
        if position is not None:
            self._newest = max(self._newest, position)
        if len(self._written) > MAX_SCOPES:
            self._floor = self._newest
            self._written.clear()
        self._written |= dict.fromkeys(scopes, math.inf if position is None else self._newest)

    def wrong_with(self, node: Row) -> str | None:
        """Return the reason why this server cannot stand by the primary, or None."""
        if (node["system"], node["database"]) != self._cluster:
            return "this is another database than the one that is written to"
        if not node["is_standby"]:
            return "this server is not a standby: it accepts writes itself"
        return None

    async def check(self, session: Session, scope_id: bytes | None) -> None:
        """Ask the server that a session is on whether it can answer; None: whatever it holds.

        Raises:
            StoreError: it is no standby of the primary.
            Behind: it has not replayed what this process wrote.
        """
        # each time, for one address may stand for several standbys
        [[node]] = await session.execute(("node", {}))
        if wrong := self.wrong_with(node):
            raise StoreError(wrong)
        if scope_id and node["position"] < self._written.get(scope_id, self._floor):
            raise Behind
        traits = self.pool.traits
        if traits and (traits.row_security != self._row_security or traits.halfvec is None):
            await self.pool.forget()  # they were looked at before it had replayed as much
            raise Behind

    def note(self, outcome: str, trouble: str | None = None) -> None:
        """Note that it "answered", is "behind", or "away": in trouble, and left alone for a while;
        say so once.
        """
        telemetry.count("standby_reads", outcome=outcome)
        if trouble and not self.trouble:
            told = "The standby of read_uri is not read from until it answers again: %s."
            logger.warning(told, trouble)
        elif self.trouble and not trouble:
            logger.info("The standby of read_uri answers again.")
        self.trouble = trouble and f"standby: {trouble}"
        self._again_at = self._loop.time() + PAUSE_SECONDS if trouble else 0.0


class StandbyReads(PostgresDatabase):
    """Reads that the standby answers where it can, and the primary where it cannot."""

    def __init__(self, standby: Standby, primary: PostgresDatabase) -> None:
        super().__init__(standby.pool, ring=primary.ring)
        self._standby = standby
        self._primary = primary

    @property
    @override
    def trouble(self) -> str | None:
        return self._standby.trouble

    @override
    async def read(self, script: Script[T]) -> T:
        standby = self._standby
        primary = self._primary.within(self.scope) if self.scope else self._primary
        scope_id = self.scope and self.scope.id

        async def checked(session: Session) -> T:
            await standby.check(session, scope_id)
            try:
                return await script(session)
            except Behind:
                # what was read before came from the primary: the rest of the search must hold it
                node = await primary.pool.use(node_of)
                standby.wrote({scope_id} if scope_id else set(), node["position"])
                raise

        if standby.is_asked():
            try:
                answer = await super().read(checked)
            except Behind:
                standby.note("behind")
            except (StoreError, Conflict) as error:
                if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                    standby.note("behind")  # of an embedding space, made by another
                else:
                    standby.note("away", _words(error))
            else:
                standby.note("answered")
                return answer
        return await primary.read(script)


async def open_standby(
    uri: str, target: Target, size: int, primary: PostgresDatabase
) -> StandbyReads:
    """Return a primary's reads by way of this standby; one that is away is tried again later.

    Args:
        uri: which server.
        target: how the primary's connections are set up.
        size: the most connections at a time.
        primary: is asked instead; it tells the standby of its writes from now on.

    Raises:
        ConfigurationError: the server is not a standby of this primary, or does not let us in.
    """
    conninfo = uri.removeprefix("kagent+")
    if not conninfo.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError("read_uri takes the URI of a standby, postgresql://host/database.")
    node = await primary.pool.use(node_of)
    pool = await Pool.open(replace(target, conninfo=conninfo), size=size)
    standby = Standby(pool, node, primary.pool.traits)
    try:
        wrong = standby.wrong_with(await pool.use(node_of))
    except psycopg.Error as error:
        problem = refused(error)
        wrong = problem if isinstance(problem, ConfigurationError) else None
        standby.note("away", _words(error))
    if wrong:
        await pool.close()
        raise ConfigurationError(
            f"read_uri: {_words(wrong)}; name a streaming standby of the database, or leave it out."
        )
    primary.wrote = standby.wrote
    return StandbyReads(standby, primary)


def _words(error: object) -> str:
    return " ".join(str(error).split()).rstrip(".")
