"""Sessions of transaction scripts: named statements with bound values, and nothing else.

The scripts are written once for all dialects. An adapter supplies a `Session` for the length of one
transaction, which encodes the values (lists, times, JSON) as its driver wants them; scripts run
their statements by a `Transaction`, which knows whose rows they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as np

from ...records import Filter, Memory, Revision, Scope
from ..codec import known
from ..encryption import KeyRing
from ..values import Job, Whole
from .row_codec import FILTERED, Row, RowCodec, to_scope

P = ParamSpec("P")
T = TypeVar("T")
Values: TypeAlias = Mapping[str, Any]
Query: TypeAlias = tuple[str, Values]
"""The name of a statement, and its values."""
_STATES: Mapping[object, str | None] = {False: None, True: None, "only": "superseded"}


class Session(Protocol):
    """One transaction of one connection.

    Attributes:
        half: the numbers of the vectors that statements give as bytes.
        ring: the keys that rows are encrypted with; None: they are not.
    """

    half: np.dtype[np.float16]
    ring: KeyRing | None

    async def execute(self, *queries: Query) -> Sequence[Sequence[Row]]:
        """Run named queries in this order, in as few round trips as the driver can, and return the
        rows of each. They are decoded: aware UTC datetimes, lists, dicts for JSON objects, str ids.
        The value `space` is the number of the embedding space whose vectors a statement is about.
        """
        ...

    async def send(self, *queries: Query) -> None:
        """Run named statements as fast as the driver can; their errors may show at the next
        answer, or at the transaction's end.
        """
        ...


class Transaction:
    """The statements of one script, each with the id of the scope that they are about.

    Args:
        session: runs them.
        scope: whose rows; None: the script crosses scopes.
    """

    def __init__(self, session: Session, scope: Scope | None = None) -> None:
        self.session = session
        self.scope = scope or Scope("", "", "")
        self.codec = RowCodec(session.ring, self.scope)
        self._own: Values = {"scope_id": scope.id} if scope else {}

    def of(self, scope: Scope) -> Transaction:
        """Return the same transaction for the rows of another scope."""
        return Transaction(self.session, scope)

    async def rows(self, query: str, /, **values: Any) -> Sequence[Row]:
        """Return all rows of the named query: see `Session.execute`."""
        [rows] = await self.several([(query, values)])
        return rows

    async def row(self, query: str, /, **values: Any) -> Row | None:
        """Return the first row of the named query; None where it has none."""
        return next(iter(await self.rows(query, **values)), None)

    async def ids(self, query: str, /, **values: Any) -> list[str]:
        """Return the ids of the memories that the named query finds."""
        return [row["id"] for row in await self.rows(query, **values)]

    async def memories(self, query: str, /, **values: Any) -> list[Memory]:
        """Return the memories that the named query finds."""
        return [self.codec.memory(row) for row in await self.rows(query, **values)]

    async def revisions(self, query: str, /, **values: Any) -> list[Revision]:
        """Return the revisions that the named query finds."""
        return [self.codec.revision(row) for row in await self.rows(query, **values)]

    async def jobs(self, query: str, /, **values: Any) -> list[Job]:
        """Return the jobs that the named query finds, of any scope."""
        rows = await self.rows(query, **values)
        return [RowCodec(self.session.ring, to_scope(row)).job(row) for row in rows]

    async def wholes(self, ids: Iterable[str]) -> dict[str, Whole]:
        """Return these memories by their ids, in the order of these: see `MemoryStore.whole`."""
        if not (ids := known(ids)):
            return {}
        memories = await self.memories("stored_memories", ids=ids)
        histories: dict[str, list[Revision]] = defaultdict(list)
        for revision in await self.revisions("revisions_of_all", ids=ids):
            histories[revision.memory_id].append(revision)
        return {memory.id: Whole(memory, tuple(histories[memory.id])) for memory in memories}

    async def read_salt(self) -> bytes:
        """Let the codec know the scope's salt, which digests are keyed by; empty: there is none
        yet.
        """
        if not self.codec.key and (row := await self.row("scope_row")):
            self.codec.salt(row)
        return self.codec.key

    async def filter_values(
        self, filter: Filter, now: datetime, *, sources: bool = False
    ) -> dict[str, Any]:
        """Return what every statement with a filter takes: the time, and each condition or None.

        `sources`: kept turns too.
        """
        given = asdict(filter)
        state = given.pop("superseded")
        values = {name: None if value in ((), {}) else value for name, value in given.items()}
        values["state"] = _STATES.get(state, state)
        compared = {name: values[name] for name in FILTERED}
        digests: Values = {}
        if any(value is not None for value in compared.values()):
            # without keys too: what cannot be seen must not be told as not there
            await self.read_salt()
            digests = self.codec.digests(compared)
        values |= {f"sealed_{name}": digests.get(name) for name in FILTERED}
        values |= {"superseded": bool(filter.superseded), "sources": sources}
        return {**values, "now": now}

    async def touch(self, step: int) -> None:
        """Take the scope's lock, make its row if there is none, and move its version by `step`."""
        await self.send("touch_scope", **self.touching(step))

    def touching(self, step: int) -> dict[str, Any]:
        """Return the values of `touch_scope`, whose one row is the scope's version and salt."""
        return {
            "scope_id": self.scope.id,
            **asdict(self.scope),
            "step": step,
            "salt": self.codec.sealed_salt(),
        }

    async def several(self, queries: Iterable[Query]) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries, asked in as few round trips as possible."""
        asked = [(query, {**self._own, **values}) for query, values in queries]
        return await self.session.execute(*asked)

    async def send(self, query: str, /, **values: Any) -> None:
        """Run the named statement, without waiting for an answer where the driver can."""
        await self.run_many(query, [values])

    async def run_many(self, query: str, sets: Iterable[Values], /, **values: Any) -> None:
        """Run the named statement once for each set of values, which come to those of all, as fast
        as the driver can.
        """
        own = {**self._own, **values}
        await self.session.send(*((query, {**own, **values}) for values in sets))


Script: TypeAlias = Callable[[Session], Coroutine[Any, Any, T]]
"""What a transaction does; arguments of its own are bound to it."""


class Database(Protocol):
    """Runs scripts, which wait for nothing but their session.

    Attributes:
        has_nearest: whether statements search vectors.
        ring: the keys that rows are encrypted with; None: they are not.
        trouble: what is wrong with the server that should answer, while another one does.
    """

    has_nearest: bool
    ring: KeyRing | None
    trouble: str | None = None

    def run(self, script: Script[T], scope: Scope | None, *, write: bool) -> Coroutine[Any, Any, T]:
        """Run a script: where it may write, in one transaction, committed when it returns and
        rolled back whole when it raises; again where the database asks for it.

        Args:
            script: what is run.
            scope: the one that the engine holds it to where it can; None: it is one of maintenance,
                which crosses scopes.
            write: whether it may write.
        """
        ...

    async def erase(self) -> None:
        """Leave nothing behind of what was deleted, where the engine keeps a log of it."""

    async def close(self) -> None:
        """Release everything; closing twice is harmless."""
        ...


class Part:
    """A part of a store that one database keeps, whose methods are transaction scripts.

    Attributes:
        database: takes writes.
        reads: answers reads.
    """

    def __init__(self, database: Database) -> None:
        self.database = self.reads = database


AnyPart = TypeVar("AnyPart", bound=Part)


async def run(
    database: Database,
    script: Callable[[Transaction], Coroutine[Any, Any, T]],
    *scopes: Scope,
    write: bool,
) -> T:
    """Run a script for the first of the scopes, restricted to it where it is the only one."""
    scope = scopes[0] if scopes else None
    only = scope if len({*scopes}) == 1 else None
    return await database.run(
        lambda session: script(Transaction(session, scope)), only, write=write
    )


def _verbs(
    *, write: bool
) -> Callable[
    [Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]]],
    Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]],
]:
    def verb(
        script: Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]],
    ) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
        @wraps(script)
        async def method(part: AnyPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
            first: object = args[0] if args else kwargs.get("scope")
            whose = first.scope if isinstance(first, Job) else first
            return await run(
                part.database if write else part.reads,
                lambda transaction: script(part, transaction, *args, **kwargs),
                *([whose] if isinstance(whose, Scope) else []),
                write=write,
            )

        return method

    return verb


reading = _verbs(write=False)
"""Make a method of a script that changes nothing, run for the scope that it is given."""
writing = _verbs(write=True)
"""Make a method of a script that is one transaction, run for the scope that it is given."""
