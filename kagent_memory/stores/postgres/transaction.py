"""What is written on one connection, whole or not at all, in as few pieces as its answers allow."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn

from ..sql.session import Row
from .prepared import Asked, Command, Statements

T = TypeVar("T")


class Waiting(Protocol):
    """Whatever goes through the steps of a connection, within its bounds."""

    def __call__(self, gen: PQGen[T], /) -> Awaitable[T]:
        """What the steps come to."""
        ...


class Transaction:
    """A transaction whose beginning leaves with its first statements. Without `commit` it is taken back.

    Args:
        pgconn: the connection.
        statements: what is known of its statements.
        wait: goes through their steps.
    """

    def __init__(self, pgconn: PGconn, statements: Statements, wait: Waiting) -> None:
        self._pgconn = pgconn
        self._statements = statements
        self._wait = wait
        self._begun: list[Asked] = []  # what leaves with the next ones
        self.enqueue(b"BEGIN")

    def enqueue(self, text: bytes, values: Sequence[bytes] | None = None) -> None:
        """Has a statement without a name leave with the next ones; its answer is only checked."""
        self._begun.append(Asked(partial(self._pgconn.send_query_params, text, values)))

    def add(self, command: Command, values: Sequence[Any]) -> None:
        """Has a statement leave with the next ones; its answer is only checked."""
        self._begun += [one._replace(prepared=None) for one in self._statements.asked(command, values)]

    async def flush(self) -> None:
        """Has what was added leave now: the server works on it while more is made."""
        begun, self._begun = self._begun, []
        await self._wait(self._statements.flushed(begun))

    async def ask(self, asked: Sequence[tuple[Command, Sequence[Any]]] = ()) -> Sequence[Sequence[Row]]:
        """The rows of statements, which leave in one piece with what was added."""
        return await self._wait(self._statements.steps(self._with(asked)))

    async def count(self, command: Command, values: Sequence[Any]) -> int:
        """How many rows a statement changed."""
        *_, changed = await self._wait(self._statements.results(self._with([(command, values)])))
        return changed.command_tuples or 0

    async def commit(self, asked: Sequence[tuple[Command, Sequence[Any]]] = ()) -> Sequence[Sequence[Row]]:
        """Keeps what was written, and gives the rows of statements that are asked after that."""
        self.enqueue(b"COMMIT")
        for given in asked:  # without a name: that the server forgot it would be told after all was kept
            self._begun += self._statements.asked(*given, named=False)
        return await self.ask()

    async def end(self) -> None:
        """Takes back what was not kept."""
        self._statements.drop(self._begun)
        self._begun.clear()
        with suppress(psycopg.Error):  # what went wrong has been told
            if self._statements.is_behind:
                await self.ask()
        with suppress(psycopg.Error):  # a connection that is lost has nothing to take back
            if self._pgconn.transaction_status != TransactionStatus.IDLE:
                self.enqueue(b"ROLLBACK")
                await self.ask()

    def _with(self, asked: Sequence[tuple[Command, Sequence[Any]]]) -> Sequence[Asked]:
        more = self._statements.all_asked(asked)  # first: a value may be refused
        begun, self._begun = self._begun, []
        return [*begun, *more]
