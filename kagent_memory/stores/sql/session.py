"""Run transaction scripts: functions that run named statements with bound values and nothing else.

A session here is one of a database; sessions of agents appear as `session_id`.

Scripts are shared by all dialects. An adapter supplies a `Session` for one transaction and encodes
the values (lists, times, JSON) for its driver; scripts run their statements through a
`Transaction`, which adds the scope.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial, wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast

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
"""The name of a statement and its values."""
_STATES: Mapping[object, str | None] = {False: None, True: None, "only": "superseded"}


class Session(Protocol):
    """One transaction of one connection.

    Attributes:
        half: the type of the numbers in vectors that statements return as bytes.
        on_event_loop: True if scripts run on the event loop, and leave long work to a thread;
            False if a script runs in a thread of its own.
        ring: the keys that encrypt rows; None: rows are plain.
    """

    half: np.dtype[np.float16]
    on_event_loop: bool
    ring: KeyRing | None

    async def execute(self, *queries: Query) -> Sequence[Sequence[Row]]:
        """Run named queries in order, in as few round trips as the driver can; return their rows.

        Values are decoded: aware UTC datetimes, lists, dicts for JSON objects, str ids. The value
        `space` is the number of the embedding space whose vectors a statement accesses.
        """
        ...

    async def send(self, queries: Iterable[Query]) -> None:
        """Run named statements as fast as the driver can.

        Errors may be raised as late as the next answer or the end of the transaction.
        """
        ...


class Transaction:
    """The statements of one script, each with the id of its scope.

    Args:
        session: runs the statements.
        scope: the scope of the rows; None: the script crosses scopes.
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
        """Return the first row of the named query, or None."""
        return next(iter(await self.rows(query, **values)), None)

    async def ids(self, query: str, /, **values: Any) -> list[str]:
        """Return the memory ids in the rows of the named query."""
        return [row["id"] for row in await self.rows(query, **values)]

    async def memories(self, query: str, /, **values: Any) -> list[Memory]:
        """Return the memories of the named query."""
        return [self.codec.memory(row) for row in await self.rows(query, **values)]

    async def revisions(self, query: str, /, **values: Any) -> list[Revision]:
        """Return the revisions of the named query."""
        return [self.codec.revision(row) for row in await self.rows(query, **values)]

    async def jobs(self, query: str, /, **values: Any) -> list[Job]:
        """Return the jobs of the named query, in any scope."""
        rows = await self.rows(query, **values)
        return [self.of(to_scope(row)).codec.job(row) for row in rows]

    async def wholes(self, ids: Iterable[str]) -> dict[str, Whole]:
        """Return id → memory with its history, in the order of `ids`: see `MemoryStore.whole`."""
        if not (ids := known(ids)):
            return {}
        memories = await self.memories("stored_memories", ids=ids)
        histories = defaultdict[str, list[Revision]](list)
        for revision in await self.revisions("revisions_of_all", ids=ids):
            histories[revision.memory_id].append(revision)
        return {memory.id: Whole(memory, tuple(histories[memory.id])) for memory in memories}

    async def read_salt(self) -> bytes:
        """Return the scope's salt, the key of the codec's digests; empty for a new scope."""
        if not self.codec.key and (row := await self.row("scope_row")):
            self.codec.salt(row)
        return self.codec.key

    async def filter_values(
        self, filter: Filter, now: datetime, *, sources: bool = False
    ) -> dict[str, Any]:
        """Return the values of a statement with a filter: the time, and each condition or None.

        Args:
            filter: the filter.
            now: the time.
            sources: True to include kept turns.
        """
        conditions = asdict(filter)
        state = conditions.pop("superseded")
        values = {name: None if value in ((), {}) else value for name, value in conditions.items()}
        values["state"] = _STATES.get(state, state)
        compared = {name: values[name] for name in FILTERED}
        if any(value is not None for value in compared.values()):
            # without keys too: a sealed scope is refused rather than shown empty
            await self.read_salt()
        digests = self.codec.digests(compared)
        values |= {f"sealed_{name}": digests.get(name) for name in FILTERED}
        return {**values, "superseded": bool(filter.superseded), "sources": sources, "now": now}

    async def touch(self, step: int) -> None:
        """Lock the scope, creating its row if needed, and move its version by `step`."""
        await self.send("touch_scope", **self.touching(step))

    def touching(self, step: int) -> dict[str, Any]:
        """Return the values of `touch_scope`, whose one row is the scope's version and salt."""
        return {**asdict(self.scope), "step": step, "salt": self.codec.sealed_salt()}

    async def several(self, queries: Iterable[Query]) -> Sequence[Sequence[Row]]:
        """Return the rows of several named queries, in as few round trips as possible."""
        return await self.session.execute(
            *((query, {**self._own, **values}) for query, values in queries)
        )

    async def send(self, query: str, /, **values: Any) -> None:
        """Run the named statement without waiting for its answer if the driver can."""
        await self.run_many(query, [values])

    async def run_many(self, query: str, sets: Iterable[Values], /, **values: Any) -> None:
        """Run the named statement once for each set of values, as fast as the driver can.

        `values` are added to every set.
        """
        common = {**self._own, **values}
        await self.session.send((query, {**common, **values}) for values in sets)


Script: TypeAlias = Callable[[Session], Coroutine[Any, Any, T]]
"""The work of one transaction, with its own arguments bound."""


class Database(Protocol):
    """A database that runs scripts, which await their session and, on the event loop, work in
    threads.

    Attributes:
        has_nearest: True if statements can search vectors.
        ring: the keys that encrypt rows; None: rows are plain.
        trouble: the trouble of the preferred server while another one answers, else None.
    """

    has_nearest: bool
    ring: KeyRing | None
    trouble: str | None = None

    def run(self, script: Script[T], scope: Scope | None, *, write: bool) -> Coroutine[Any, Any, T]:
        """Run a script and return its result.

        A script that writes is one transaction, committed when it returns and rolled back when it
        raises. The script is run again if the database requires it.

        Args:
            script: the script.
            scope: the scope that the engine restricts it to, if it can; None: maintenance, which
                crosses scopes.
            write: True if the script may write.
        """
        ...

    async def erase(self) -> None:
        """Remove deleted data from the engine's log, if it keeps one."""

    async def close(self) -> None:
        """Release everything; closing twice is harmless."""
        ...


class Part:
    """A part of a store in one database, whose methods are transaction scripts.

    Attributes:
        database: the database for writes.
        reads: the database for reads; another one may be a little behind.
    """

    def __init__(self, database: Database, reads: Database | None = None) -> None:
        self.database, self.reads = database, reads or database


AnyPart = TypeVar("AnyPart", bound=Part)


async def run(
    database: Database,
    script: Callable[[Transaction], Coroutine[Any, Any, T]],
    scope: Scope | None = None,
    *,
    write: bool,
) -> T:
    """Run a script, restricted to a scope if there is one."""
    return await database.run(
        lambda session: script(Transaction(session, scope)), scope, write=write
    )


def _scope_of(first: object) -> Scope | None:
    """Return the scope of a method's first argument, or the only one of its elements."""
    values = cast("Sequence[object]", first) if isinstance(first, Sequence) else [first]
    match [*{getattr(value, "scope", value) for value in values}]:
        case [Scope() as scope]:
            return scope
        case _:
            return None


def _verb(
    script: Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]], *, write: bool
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    @wraps(script)
    async def method(part: AnyPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(
            part.database if write else part.reads,
            lambda transaction: script(part, transaction, *args, **kwargs),
            _scope_of(args[0] if args else kwargs.get("scope")),
            write=write,
        )

    return method


reading = partial(_verb, write=False)
"""Turn a read-only script into a method that runs it for the scope in its first argument."""
writing = partial(_verb, write=True)
"""Turn a script into a method that is one transaction, for the scope in its first argument."""
