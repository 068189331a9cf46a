"""How a verb is passed on to memories that are reached another way: on a thread's event loop, or over a server."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

from typing_extensions import Unpack

if TYPE_CHECKING:
    from .api import MemoryApi
    from .options import ExportOptions

Params = ParamSpec("Params")
Result = TypeVar("Result")
Verb = TypeVar("Verb", bound=Callable[..., Any])
LINES = 100


class Route(NamedTuple):
    """Where a server answers a verb; the path names arguments in braces, the others are its query or body."""

    method: str
    path: str


def over_http(method: str, path: str) -> Callable[[Verb], Verb]:
    """Declares where a server answers a verb whose arguments and answer go there as they are."""

    def declared(verb: Verb) -> Verb:
        vars(verb)["route"] = Route(method, path)
        return verb

    return declared


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One call of a verb; calling it with some memories makes it there."""

    verb: Callable[..., CoroutineType[Any, Any, Result]]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    def __call__(self, memories: MemoryApi) -> CoroutineType[Any, Any, Result]:
        """Makes it there."""
        return getattr(memories, self.verb.__name__)(*self.args, **self.kwargs)

    @property
    def route(self) -> Route:
        """Where a server answers it."""
        return vars(self.verb)["route"]


class Forwards(Protocol):
    """What can make a call elsewhere."""

    async def _forward(self, call: Call[Result], *, finish: bool) -> Result:
        """The answer of a call; `finish`: what was begun is not undone when the caller goes away."""
        ...


def forwarded(
    verb: Callable[Concatenate[MemoryApi, Params], CoroutineType[Any, Any, Result]], *, finish: bool = False
) -> Callable[Concatenate[Forwards, Params], CoroutineType[Any, Any, Result]]:
    """The verb, made elsewhere; its arguments and its answer are the verb's own, so they cannot drift."""

    @functools.wraps(verb, updated=())
    async def call(self: Forwards, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return await self._forward(Call(verb, args, kwargs), finish=finish)  # pyright: ignore[reportPrivateUsage] a method of the class that has this one

    return call


class Blocks(Protocol):
    """What can make a call elsewhere while the calling thread waits."""

    def _wait_for(self, use: Callable[[MemoryApi], Awaitable[Result]]) -> Result:
        """What `use` makes of the memories there."""
        ...


def blocking(
    verb: Callable[Concatenate[MemoryApi, Params], CoroutineType[Any, Any, Result]],
) -> Callable[Concatenate[Blocks, Params], Result]:
    """The verb as a method that blocks; its arguments and its answer are the verb's own, so they cannot drift."""

    @functools.wraps(verb, updated=())
    def call(self: Blocks, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return self._wait_for(Call(verb, args, kwargs))  # pyright: ignore[reportPrivateUsage] a method of the class that has this one

    return call


class Lines:
    """The lines of an export, taken some at a time where its memories are."""

    def __init__(self, **options: Unpack[ExportOptions]) -> None:
        self._options = options
        self._lines: AsyncGenerator[str] | None = None

    async def some(self, memories: MemoryApi) -> Sequence[str]:
        """The next ones; none at the end."""
        if self._lines is None:
            self._lines = memories.export(**self._options)
        some: list[str] = []
        async for line in self._lines:
            some.append(line)
            if len(some) == LINES:
                break
        return some

    async def close(self, _: MemoryApi) -> None:
        """No more are wanted."""
        if self._lines is not None:
            await self._lines.aclose()
