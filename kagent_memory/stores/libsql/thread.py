"""The one thread that ever calls the driver, and how tasks of an event loop hand it work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from ...errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")


class DriverThread:
    """Runs actions one after another on its own thread."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="kagent-memory-libsql"
        )

    async def run(self, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The action's result. A cancelled caller either keeps it from starting, or waits for its
        end: an action is never left half done behind the caller's back.

        Raises:
            StoreError: the thread has ended.
        """
        try:
            work = self._executor.submit(action, *args, **kwargs)
        except RuntimeError as error:
            raise StoreError("The store is closed; open it again.") from error
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end(_: object) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(ended.set)

        work.add_done_callback(end)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            while not work.cancel() and not ended.is_set():
                with suppress(asyncio.CancelledError):
                    await ended.wait()
            raise
        return work.result()

    def end(self, *last: Callable[[], object]) -> None:
        """Takes no more work; what was handed over before still runs, and after it `last`, whoever
        waits no longer.
        """
        with suppress(RuntimeError):  # it has ended already
            for action in last:
                self._executor.submit(action)
        self._executor.shutdown(wait=False)
