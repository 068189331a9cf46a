"""Read from a standby if it has replayed the writes of this process."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Set
from dataclasses import replace
from typing import TypeVar

import psycopg
from typing_extensions import override

from ... import telemetry
from ...errors import ConfigurationError, Conflict, InvalidInput, StoreError
from ...records import Scope
from ..sql.session import Row, Script, Session
from ..values import Behind
from .connection import Target, one_line, translated_refusal
from .database import Pool, PostgresDatabase, node_of

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0
MAX_SCOPES = 10_000
T = TypeVar("T")


class Standby(PostgresDatabase):
    """Run reading scripts on a standby if it can answer, otherwise on the primary.

    Args:
        pool: the connections to the standby.
        primary: the database for writes.
        node: the primary's row of the statement `node`.
    """

    def __init__(self, pool: Pool, primary: PostgresDatabase, node: Row) -> None:
        super().__init__(pool, ring=primary.ring)
        self._primary = primary
        self._cluster = node["system"], node["database"]
        # the log's position after the newest write, and the one for scopes not in `_written`
        self._newest = self._floor = node["position"]
        self._written: dict[bytes, float] = {}
        self._again_at = 0.0

    def is_asked(self) -> bool:
        """Return True if the standby answered last, or if its pause is over."""
        if not self._again_at:
            return True
        if (now := time.monotonic()) < self._again_at:
            telemetry.count("standby_reads", outcome="away")
            return False
        self._again_at = now + PAUSE_SECONDS  # only this reader tries it
        return True

    def note_write(self, scopes: Set[bytes], position: int | None) -> None:
        """Note that this process changed these scopes.

        Args:
            scopes: the ids of the scopes.
            position: the position of the log that includes the change. None: unknown, and the
                primary answers until the next change.
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
        """Check that the server of a session is a standby that can answer for a scope; for None,
        rows of any age will do.

        Raises:
            StoreError: it is not a standby of the primary.
            Behind: it has not replayed the writes of this process.
        """
        # each time, because one address may lead to several standbys
        [[node]] = await session.execute(("node", {}))
        if wrong := self.wrong_with(node):
            raise StoreError(wrong)
        if scope_id and node["position"] < self._written.get(scope_id, self._floor):
            raise Behind
        own, others = self.pool.traits, self._primary.pool.traits
        if own and others and (own.row_security != others.row_security or own.halfvec is None):
            await self.pool.forget()  # their traits were read before it had replayed as much
            raise Behind

    def note(self, outcome: str, trouble: str | None = None) -> None:
        """Note that the standby "answered", is "behind" or is "away", and log a change once. After
        trouble it is not asked for a while.
        """
        telemetry.count("standby_reads", outcome=outcome)
        if trouble and not self.trouble:
            logger.warning(
                "The standby of read_uri is not read from until it answers again: %s.", trouble
            )
        elif self.trouble and not trouble:
            logger.info("The standby of read_uri answers again.")
        self.trouble = trouble and f"standby: {trouble}"
        self._again_at = time.monotonic() + PAUSE_SECONDS if trouble else 0.0

    @override
    async def run(self, script: Script[T], scope: Scope | None, *, write: bool) -> T:
        primary, scope_id = self._primary, scope and scope.id

        async def checked(session: Session) -> T:
            await self.check(session, scope_id)
            try:
                return await script(session)
            except Behind:
                # earlier reads of this search came from the primary: the rest must be as new
                node = await primary.pool.use(node_of)
                self.note_write({scope_id} if scope_id else set(), node["position"])
                raise

        if self.is_asked():
            try:
                answer = await super().run(checked, scope, write=write)
            except (Behind, InvalidInput):  # an embedding space may be new
                self.note("behind")
            except (StoreError, Conflict) as error:
                self.note("away", one_line(error))
            else:
                self.note("answered")
                return answer
        return await primary.run(script, scope, write=write)


async def open_standby(uri: str, target: Target, size: int, primary: PostgresDatabase) -> Standby:
    """Open a standby. One that cannot be reached is tried again later.

    Args:
        uri: the URI of the standby.
        target: the set-up of the primary's connections.
        size: the limit of connections.
        primary: the primary, which reports its writes to the standby from now on.

    Raises:
        ConfigurationError: the server is not a standby of this primary, or refuses the connection.
    """
    conninfo = uri.removeprefix("kagent+")
    if not conninfo.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError("read_uri takes the URI of a standby, postgresql://host/database.")
    node = await primary.pool.use(node_of)
    pool = await Pool.open(replace(target, conninfo=conninfo), size=size)
    standby = Standby(pool, primary, node)
    try:
        wrong = standby.wrong_with(await pool.use(node_of))
    except psycopg.Error as error:
        problem = translated_refusal(error)
        wrong = problem if isinstance(problem, ConfigurationError) else None
        standby.note("away", one_line(error))
    if wrong:
        await pool.close()
        raise ConfigurationError(
            f"read_uri: {one_line(wrong)}; name a streaming standby of the database, or leave it "
            "out."
        )
    primary.wrote = standby.note_write
    return standby
