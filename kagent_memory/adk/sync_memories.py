"""The verbs of memories as plain methods, for programs without an event loop."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from typing_extensions import Unpack

from ..memories.api import BlockingVerbs, MemoryApi
from ..memories.forwarding import Lines
from ..memories.opened import OpenedMemories
from ..memories.options import ExportOptions
from .loop_thread import LoopThread

Result = TypeVar("Result")


class SyncMemories(BlockingVerbs):
    """`service.sync`: every verb of `MemoryApi`, with the same arguments, answers and errors, without `await`.

    A call runs on the service's own event loop while the calling thread waits; one that is interrupted (Ctrl-C) is
    finished there all the same. Any thread may call, also one whose event loop is running, which stands still
    meanwhile: async code awaits `service.memories` instead. On the service's own loop, where a user's `embed` and
    `complete` run, a call is a RuntimeError.
    """

    def __init__(self, thread: LoopThread[OpenedMemories]) -> None:
        self._thread = thread

    def _wait_for(self, use: Callable[[MemoryApi], Awaitable[Result]]) -> Result:
        return self._thread.run_blocking(use)

    @functools.wraps(MemoryApi.export)
    def export(  # noqa: D102 the verb's own words
        self, **options: Unpack[ExportOptions]
    ) -> Iterator[str]:
        lines = Lines(**options)
        try:
            while some := self._thread.run_blocking(lines.some):
                yield from some
        finally:
            self._thread.run_blocking(lines.close)
