"""Call a service's verbs from outside its thread: awaited on any event loop, or blocking."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from typing_extensions import override

from ..memories.memories import Memories
from ..memories.verbs import Verb
from .loop_thread import LoopThread

Params = ParamSpec("Params")
Result = TypeVar("Result")
ReadLine: TypeAlias = Callable[[Memories], Coroutine[Any, Any, str]]


class ThreadsafeMemories(Memories):
    """`service.memories`: every verb, called from any event loop and run on the service's own."""

    def __init__(self, thread: LoopThread[Memories]) -> None:
        self._thread = thread

    @override
    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a verb on the service's event loop."""
        if verb.is_stream:
            return self._lines(_line_reader(verb, args, kwargs))
        return self._thread.run(
            lambda memories: memories.perform(verb, args, kwargs), finish=verb.durable
        )

    async def _lines(self, read: ReadLine) -> AsyncGenerator[str]:
        while line := await self._thread.run(read):
            yield line

    @override
    async def close(self) -> None:
        """Close the service: it drains within a limit, and the next call opens it again."""
        await self._thread.close()


def _line_reader(verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ReadLine:
    """Return a function that gets the next line of a verb, "" at the end.

    A generator that is not read to its end is closed by its loop when it is garbage collected.
    """
    streams = list[AsyncGenerator[str]]()

    async def read(memories: Memories) -> str:
        if not streams:
            streams.append(memories.perform(verb, args, kwargs))
        return await anext(streams[0], "")

    return read


def _blocking(
    method: Callable[Concatenate[Memories, Params], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncMemories, Params], Result]:
    """Return a verb as a blocking method, with its signature and docstring."""
    verb: Verb = vars(method)["verb"]

    @functools.wraps(method)
    def call(self: SyncMemories, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        return self.thread.run_blocking(lambda memories: memories.perform(verb, args, kwargs))

    return call


def _blocking_lines(
    method: Callable[Concatenate[Memories, Params], AsyncGenerator[str]],
) -> Callable[Concatenate[SyncMemories, Params], Iterator[str]]:
    """Return a verb that yields lines as a blocking generator."""
    verb: Verb = vars(method)["verb"]

    @functools.wraps(method)
    def call(self: SyncMemories, /, *args: Params.args, **kwargs: Params.kwargs) -> Iterator[str]:
        read = _line_reader(verb, args, kwargs)
        while line := self.thread.run_blocking(read):
            yield line

    return call


class SyncMemories:
    """`service.sync`: every verb of `Memories` with the same arguments, answers and errors, without
    `await`.

    A call runs on the service's own event loop while the calling thread waits, and is finished
    there even if it is interrupted (Ctrl-C). Any thread may call; an event loop that runs in it is
    blocked meanwhile, so async code should await `service.memories` instead. On the
    service's own loop, where a user's `embed` and `complete` run, a call raises RuntimeError.
    """

    def __init__(self, thread: LoopThread[Memories]) -> None:
        self.thread = thread

    remember = _blocking(Memories.remember)
    end_session = _blocking(Memories.end_session)
    add = _blocking(Memories.add)
    edit = _blocking(Memories.edit)
    pin = _blocking(Memories.pin)
    undo = _blocking(Memories.undo)
    confirm = _blocking(Memories.confirm)
    reject = _blocking(Memories.reject)
    feedback = _blocking(Memories.feedback)
    recall = _blocking(Memories.recall)
    get = _blocking(Memories.get)
    list = _blocking(Memories.list)
    facets = _blocking(Memories.facets)
    history = _blocking(Memories.history)
    stats = _blocking(Memories.stats)
    scopes = _blocking(Memories.scopes)
    forget = _blocking(Memories.forget)
    forget_tenant = _blocking(Memories.forget_tenant)
    receipts = _blocking(Memories.receipts)
    check_receipts = _blocking(Memories.check_receipts)
    jobs = _blocking(Memories.jobs)
    retry_job = _blocking(Memories.retry_job)
    drop_job = _blocking(Memories.drop_job)
    drain = _blocking(Memories.drain)
    work = _blocking(Memories.work)
    prune = _blocking(Memories.prune)
    consolidate = _blocking(Memories.consolidate)
    audit = _blocking(Memories.audit)
    export = _blocking_lines(Memories.export)
    import_ = _blocking(Memories.import_)
    reembed = _blocking(Memories.reembed)
    rotate_keys = _blocking(Memories.rotate_keys)
    check = _blocking(Memories.check)
