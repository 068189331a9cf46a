"""Transaction scripts, run by a database, and as the methods of a part."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ...records import Scope
from ..values import Job
from .session import Database, Transaction

P = ParamSpec("P")
T = TypeVar("T")


class Part(Protocol):
    """Part of a store that one database keeps."""

    @property
    def database(self) -> Database:
        """Return the database that takes writes."""
        ...

    @property
    def reads(self) -> Database:
        """Return the database that answers reads."""
        ...


AnyPart = TypeVar("AnyPart", bound=Part)


async def run(
    database: Database,
    script: Callable[[Transaction], Coroutine[Any, Any, T]],
    *scopes: Scope,
    write: bool,
) -> T:
    """Run a script for the first of the scopes, restricted to it where it is the only one."""
    several = {*scopes}
    restricted = database.within(*several) if len(several) == 1 else database
    scope = scopes[0] if scopes else None
    start = restricted.write if write else restricted.read
    return await start(lambda session: script(Transaction(session, scope)))


def reading(
    script: Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    """Make a method of a script that changes nothing, run for the scope that it is given."""
    return _verb(script, write=False)


def writing(
    script: Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    """Make a method of a script that is one transaction, run for the scope that it is given."""
    return _verb(script, write=True)


def _verb(
    script: Callable[Concatenate[AnyPart, Transaction, P], Coroutine[Any, Any, T]], *, write: bool
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    @wraps(script)
    async def verb(part: AnyPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        first: object = args[0] if args else kwargs.get("scope")
        whose = first.scope if isinstance(first, Job) else first
        return await run(
            part.database if write else part.reads,
            lambda transaction: script(part, transaction, *args, **kwargs),
            *([whose] if isinstance(whose, Scope) else []),
            write=write,
        )

    return verb
