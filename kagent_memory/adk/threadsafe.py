"""`service.memories`: the verbs of memory, callable from any event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from typing_extensions import override

from ..memories import MemoryApi, OpenedMemories
from ..memories.api import ForwardingMemories
from .loop_thread import LoopThread

Result = TypeVar("Result")


class ThreadsafeMemories(ForwardingMemories):
    """Every verb, with the same arguments, answers and errors; they run on the service's own event loop."""

    def __init__(self, thread: LoopThread[OpenedMemories]) -> None:
        self._thread = thread

    @override
    async def _forward(self, use: Callable[[MemoryApi], Awaitable[Result]], *, finish: bool = False) -> Result:
        return await self._thread.run(use, finish=finish)
