"""Transaction scripts as the methods of a part: each is run by a session of the part's database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from ...records import Scope
from ..values import Job
from .session import Database, Session

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


def reading(
    script: Callable[Concatenate[AnyPart, Session, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    """Make a method of a script that changes nothing, restricted to the scope that it is given."""

    @wraps(script)
    async def verb(part: AnyPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        database = _within_scope(part.reads, args, kwargs)
        return await database.read(lambda session: script(part, session, *args, **kwargs))

    return verb


def writing(
    script: Callable[Concatenate[AnyPart, Session, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[AnyPart, P], CoroutineType[Any, Any, T]]:
    """Make a method of a script that is one transaction, restricted to the scope that it is
    given.
    """

    @wraps(script)
    async def verb(part: AnyPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        database = _within_scope(part.database, args, kwargs)
        return await database.write(lambda session: script(part, session, *args, **kwargs))

    return verb


def restricted(database: Database, scopes: Iterable[Scope]) -> Database:
    """Return the database for scripts of these scopes, restricted where there is only one."""
    several = {*scopes}
    return database.within(*several) if len(several) == 1 else database


def _within_scope(database: Database, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Database:
    """Return the database for a script with these arguments, restricted to their scope."""
    given = args[0] if args else kwargs.get("scope")
    whose = given.scope if isinstance(given, Job) else given
    return database.within(whose) if isinstance(whose, Scope) else database
