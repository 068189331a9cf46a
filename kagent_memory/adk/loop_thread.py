"""One daemon thread whose event loop owns a resource that the event loops of many callers use.

ADK calls a memory service from many loops: the sync `Runner.run()` makes a new one for every call,
live mode runs tools on another. Pools and workers live here and survive them all.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ..concurrency import new_loop

Resource = TypeVar("Resource")
Result = TypeVar("Result")
Opener = Callable[[], Coroutine[Any, Any, Resource]]
Closer = Callable[[Resource], Awaitable[None]]
EXIT_SECONDS = 1.0
JOIN_SECONDS = 5.0


class _RunningLoop(Generic[Resource]):
    """One running thread with its event loop, and the resource that was opened on it."""

    def __init__(self, opener: Opener[Resource], closer: Closer[Resource]) -> None:
        self._opener = opener
        self._closer = closer
        self._opening: asyncio.Task[Resource] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        # which go on though their callers may be gone
        self.detached: set[asyncio.Task[Any]] = set()
        self.loop = new_loop()
        self.thread = threading.Thread(
            target=self._run_loop, name="kagent-memory-loop", daemon=True
        )
        self.thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            if tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            # when Python exits, its threads have ended, and none may start
            with contextlib.suppress(RuntimeError):
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    async def use(self, use: Callable[[Resource], Awaitable[Result]], finish: bool) -> Result:
        """Use the resource, opened once for all who wait; a failed opening is tried again by the
        next.
        """
        task = asyncio.create_task(self._used(use))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if finish:
            self.detached.add(task)
            task.add_done_callback(self.detached.discard)
            return await asyncio.shield(task)
        return await task

    async def _used(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            # the resource outlives the spans of the caller that came first
            outliving = contextvars.Context()
            self._opening = self.loop.create_task(self._opener(), context=outliving)
            # marks it as seen when every waiter is gone
            self._opening.add_done_callback(_has_failed)
        return await use(await asyncio.shield(self._opening))

    @property
    def is_open(self) -> bool:
        """True if the resource has been opened."""
        return self._opening is not None and self._opening.done() and not _has_failed(self._opening)

    async def settle(self, seconds: float) -> bool:
        """Wait for detached work; True if none is left."""
        return not self.detached or not (await asyncio.wait(self.detached, timeout=seconds))[1]

    async def close(self) -> None:
        """Close the resource once running work has ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=JOIN_SECONDS)
        if self._opening is not None:
            await asyncio.wait([self._opening])
            if not _has_failed(self._opening):
                await self._closer(self._opening.result())

    def stop(self) -> None:
        """End the thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed already
            self.loop.call_soon_threadsafe(self.loop.stop)


class LoopThread(Generic[Resource]):
    """Opens a resource at its first use, on a thread's event loop of its own, and runs callers'
    work there.

    After `close`, and in a forked child, the next use starts afresh.

    Args:
        opener: called on that loop.
        closer: called on that loop with what `opener` gave.
    """

    def __init__(self, opener: Opener[Resource], closer: Closer[Resource]) -> None:
        self._opener = opener
        self._closer = closer
        self._lock = threading.Lock()
        self._running: _RunningLoop[Resource] | None = None
        _loop_threads.add(self)

    def submit(
        self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool
    ) -> Future[Result]:
        """Start a piece of work on the loop, with the caller's context variables.

        Args:
            use: called with the resource.
            finish: the work goes on when the future is cancelled; otherwise it is cancelled too.
        """
        with self._lock:  # nothing is handed over behind what ends the loop
            if self._running is None or not self._running.thread.is_alive():
                self._running = _RunningLoop(self._opener, self._closer)
            return asyncio.run_coroutine_threadsafe(
                self._running.use(use, finish), self._running.loop
            )

    async def run(
        self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool = False
    ) -> Result:
        """Return what `use` makes of the resource; see `submit`. The caller's loop only waits."""
        return await asyncio.wrap_future(self.submit(use, finish=finish))

    def run_blocking(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        """As `run`, while the calling thread waits; the work goes on when that is interrupted.

        Raises:
            RuntimeError: the calling thread is the loop's own, which would wait for itself.
        """
        self._refuse_within(
            "A blocking call on the memory's own event loop would wait for itself for ever: "
            "code that runs there, such "
            "as `embed` or `complete`, awaits the verbs of service.memories."
        )
        return self.submit(use, finish=True).result()

    def start(self, use: Callable[[Resource], Awaitable[Result]]) -> Future[Result] | None:
        """Start a piece of work without waiting for it; None where the resource is not open."""
        running = self._running
        return self.submit(use, finish=False) if running is not None and running.is_open else None

    async def settled(self, seconds: float) -> bool:
        """Wait up to `seconds` for detached work; True if none is left."""
        with self._lock:
            running = self._running
            if running is None or not running.thread.is_alive():
                return True
            waiting = asyncio.run_coroutine_threadsafe(running.settle(seconds), running.loop)
        return await asyncio.wrap_future(waiting)

    async def close(self) -> None:
        """Let running work finish, close the resource and end the thread; harmless when nothing was
        opened.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        self._refuse_within("A loop thread cannot be closed from within.")
        await asyncio.to_thread(self.close_blocking)

    def close_blocking(self) -> None:
        """As `close`, while the calling thread waits.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        self._refuse_within("A loop thread cannot be closed from within.")
        if (running := self._take()) is not None:
            try:
                asyncio.run_coroutine_threadsafe(running.close(), running.loop).result()
            finally:
                running.stop()
                running.thread.join(JOIN_SECONDS)

    def abandon(self) -> threading.Thread | None:
        """Stop without waiting or closing the resource, whose work is durable; return the thread
        that is ending.
        """
        if (running := self._take()) is None:
            return None
        running.stop()
        return running.thread

    def _take(self) -> _RunningLoop[Resource] | None:
        """Return the running loop, which takes no more work."""
        with self._lock:
            running, self._running = self._running, None
            return running if running is not None and running.thread.is_alive() else None

    def _refuse_within(self, words: str) -> None:
        running = self._running
        if running is not None and running.thread is threading.current_thread():
            raise RuntimeError(words)

    def forget_parent(self) -> None:
        """In a forked child: the parent's thread does not exist here."""
        self._lock = threading.Lock()
        self._running = None

    def __del__(self) -> None:
        self.abandon()


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


_loop_threads: weakref.WeakSet[LoopThread[Any]] = weakref.WeakSet()


def _end_at_exit() -> None:
    """Daemon threads must not run into a dying interpreter."""
    for thread in [one.abandon() for one in list(_loop_threads)]:
        if thread is not None:
            thread.join(EXIT_SECONDS)


def _after_fork() -> None:
    for one in list(_loop_threads):
        one.forget_parent()


atexit.register(_end_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
