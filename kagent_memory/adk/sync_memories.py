"""The verbs of memories as plain methods, for programs without an event loop."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ..memories.api import MemoryApi, OpenedMemories
from ..memories.forwarding import Lines
from .loop_thread import LoopThread

Params = ParamSpec("Params")
Result = TypeVar("Result")


def _plain(
    verb: Callable[Concatenate[MemoryApi, Params], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[SyncMemories, Params], Result]:
    """The verb as a method that blocks; its arguments and its answer are the verb's own, so they cannot drift."""

    @functools.wraps(verb)
    def call(self: SyncMemories, /, *args: Params.args, **kwargs: Params.kwargs) -> Result:
        def use(memories: MemoryApi) -> Coroutine[Any, Any, Result]:
            return getattr(memories, verb.__name__)(*args, **kwargs)

        return self._thread.run_blocking(use)  # pyright: ignore[reportPrivateUsage] a method of the class below

    return call


def _plain_lines(
    verb: Callable[Concatenate[MemoryApi, Params], AsyncGenerator[str]],
) -> Callable[Concatenate[SyncMemories, Params], Iterator[str]]:
    """`_plain` for the verb that yields lines."""

    @functools.wraps(verb)
    def call(self: SyncMemories, /, *args: Params.args, **kwargs: Params.kwargs) -> Iterator[str]:
        lines, thread = Lines(cast("Any", kwargs)), self._thread  # pyright: ignore[reportPrivateUsage]
        try:
            while some := thread.run_blocking(lines.some):
                yield from some
        finally:
            thread.run_blocking(lines.close)

    return call


class SyncMemories:
    """`service.sync`: every verb of `MemoryApi`, with the same arguments, answers and errors, without `await`.

    A call runs on the service's own event loop while the calling thread waits; one that is interrupted (Ctrl-C) is
    finished there all the same. Any thread may call, also one whose event loop is running, which stands still
    meanwhile: async code awaits `service.memories` instead. On the service's own loop, where a user's `embed` and
    `complete` run, a call is a RuntimeError.
    """

    def __init__(self, thread: LoopThread[OpenedMemories]) -> None:
        self._thread = thread

    remember = _plain(MemoryApi.remember)
    end_session = _plain(MemoryApi.end_session)
    add = _plain(MemoryApi.add)
    edit = _plain(MemoryApi.edit)
    pin = _plain(MemoryApi.pin)
    forget = _plain(MemoryApi.forget)
    undo = _plain(MemoryApi.undo)
    confirm = _plain(MemoryApi.confirm)
    reject = _plain(MemoryApi.reject)
    feedback = _plain(MemoryApi.feedback)
    recall = _plain(MemoryApi.recall)
    get = _plain(MemoryApi.get)
    list = _plain(MemoryApi.list)
    history = _plain(MemoryApi.history)
    stats = _plain(MemoryApi.stats)
    scopes = _plain(MemoryApi.scopes)
    jobs = _plain(MemoryApi.jobs)
    retry_job = _plain(MemoryApi.retry_job)
    drop_job = _plain(MemoryApi.drop_job)
    prune = _plain(MemoryApi.prune)
    forget_tenant = _plain(MemoryApi.forget_tenant)
    export = _plain_lines(MemoryApi.export)
    import_ = _plain(MemoryApi.import_)
    receipts = _plain(MemoryApi.receipts)
    check_receipts = _plain(MemoryApi.check_receipts)
    audit = _plain(MemoryApi.audit)
    consolidate = _plain(MemoryApi.consolidate)
    check = _plain(MemoryApi.check)
    drain = _plain(MemoryApi.drain)
