"""One daemon thread whose event loop owns a resource that the event loops of many callers use.

ADK calls a memory service from many loops: the sync `Runner.run()` makes a new one for every call, live mode runs
tools on another. Pools and workers live here and survive them all.
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


class _EndedError(Exception):
    """The loop ended before this work began."""


class _RunningLoop(Generic[Resource]):
    """One running thread with its event loop, and the resource that was opened on it."""

    def __init__(self, opener: Opener[Resource], closer: Closer[Resource]) -> None:
        self._opener = opener
        self._closer = closer
        self._opening: asyncio.Task[Resource] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._outliving: set[asyncio.Task[Any]] = set()  # which go on though their callers may be gone
        self._ending = False
        self._closed = False
        self._lock = threading.Lock()
        self.loop = new_loop()
        self.thread = threading.Thread(target=self._run_loop, name="kagent-memory-loop", daemon=True)
        self.thread.start()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            with self._lock:
                self._closed = True
            self.loop.run_until_complete(asyncio.sleep(0))  # what was submitted last begins here, and is refused
            if tasks := asyncio.all_tasks(self.loop):
                for task in tasks:
                    task.cancel()
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            with contextlib.suppress(RuntimeError):  # when Python exits, its threads have ended, and none may start
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def submit(self, work: Callable[..., Coroutine[Any, Any, Result]], *args: object) -> Future[Result]:
        """From any thread: starts a coroutine on the loop, with the caller's context variables.

        Raises:
            _EndedError: the loop will run nothing more.
        """
        with self._lock:
            if self._closed:
                raise _EndedError
            return asyncio.run_coroutine_threadsafe(work(*args), self.loop)

    async def use(self, use: Callable[[Resource], Awaitable[Result]], finish: bool) -> Result:
        """On the loop: a piece of work with the resource; `finish`: it goes on when this is cancelled."""
        if self._ending:
            raise _EndedError
        if (current := asyncio.current_task()) is not None:
            self._hold(current)
        if finish:
            task = self._hold(self.loop.create_task(self.use(use, finish=False)))
            self._outliving.add(task)
            task.add_done_callback(self._outliving.discard)
            return await asyncio.shield(task)
        # opened once for all who wait; a failed opening is tried again by the next
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            outliving = contextvars.Context()  # the resource outlives the spans of the caller that came first
            self._opening = self.loop.create_task(self._opener(), context=outliving)
            self._opening.add_done_callback(_has_failed)  # marks it as seen when every waiter is gone
        return await use(await asyncio.shield(self._opening))

    async def settle(self, seconds: float) -> bool:
        """On the loop: waits for what goes on without its callers; whether all of it ended in time."""
        return not self._outliving or not (await asyncio.wait(self._outliving, timeout=seconds))[1]

    def _hold(self, task: asyncio.Task[Result]) -> asyncio.Task[Result]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """On the loop: lets running work finish, closes the resource, and ends the loop and with it the thread."""
        self._ending = True
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=JOIN_SECONDS)
            if self._opening is not None:
                await asyncio.wait([self._opening])
                if not _has_failed(self._opening):
                    await self._closer(self._opening.result())
        finally:
            self.loop.stop()

    async def abandon(self) -> None:
        """On the loop: cancels what runs and stops, without closing the resource (whose work is durable)."""
        self._ending = True
        self.loop.stop()


class LoopThread(Generic[Resource]):
    """Opens a resource at its first use, on a thread's event loop of its own, and runs callers' work there.

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

    async def run(self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool = False) -> Result:
        """What `use` makes of the resource, on its loop; the caller's loop only waits.

        Args:
            use: called on the resource's loop; sees the caller's context variables.
            finish: the work goes on when the caller is cancelled or its loop dies; otherwise it is cancelled too.
        """
        here = asyncio.get_running_loop()
        while True:
            running = self._current()
            try:
                if running.loop is here:
                    return await running.use(use, finish)
                return await asyncio.wrap_future(running.submit(running.use, use, finish))
            except _EndedError:
                self._let_go(running)

    async def settled(self, seconds: float) -> bool:
        """Waits so long for the work whose callers wait no more; whether all that was begun before has ended."""
        with self._lock:
            running = self._running
        if running is None or not running.thread.is_alive():
            return True
        try:
            if running.loop is asyncio.get_running_loop():
                return await running.settle(seconds)
            return await asyncio.wrap_future(running.submit(running.settle, seconds))
        except _EndedError:
            return True

    def run_blocking(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        """What `use` makes of the resource, on its loop, while the calling thread waits; goes on when that is
        interrupted.

        Args:
            use: called on the resource's loop; sees the caller's context variables.

        Raises:
            RuntimeError: the calling thread is the loop's own, which would wait for itself.
        """
        while True:
            running = self._current()
            if running.thread is threading.current_thread():
                raise RuntimeError(
                    "A blocking call on the memory's own event loop would wait for itself for ever: code that runs "
                    "there, such as `embed` or `complete`, awaits the verbs of service.memories."
                )
            try:
                return running.submit(running.use, use, True).result()
            except _EndedError:
                self._let_go(running)

    def _current(self) -> _RunningLoop[Resource]:
        with self._lock:
            if self._running is None or not self._running.thread.is_alive():
                self._running = _RunningLoop(self._opener, self._closer)
            return self._running

    def _let_go(self, ended: _RunningLoop[Resource]) -> None:
        with self._lock:
            if self._running is ended:
                self._running = None

    async def close(self) -> None:
        """Lets running work finish, closes the resource and ends the thread; harmless when nothing was opened.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        if (running := self._taken()) is None:
            return
        try:
            with contextlib.suppress(_EndedError):
                await asyncio.shield(asyncio.wrap_future(running.submit(running.end)))
        finally:
            await asyncio.to_thread(running.thread.join, JOIN_SECONDS)

    def close_blocking(self) -> None:
        """As `close`, while the calling thread waits.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        if (running := self._taken()) is None:
            return
        try:
            with contextlib.suppress(_EndedError):
                running.submit(running.end).result()
        finally:
            running.thread.join(JOIN_SECONDS)

    def _taken(self) -> _RunningLoop[Resource] | None:
        """The running loop, for one who ends it; the next use starts another."""
        with self._lock:
            running = self._running
            if running is not None and running.thread is threading.current_thread():
                raise RuntimeError("A loop thread cannot be closed from within.")
            self._running = None
        return running

    def abandon(self) -> threading.Thread | None:
        """Stops without waiting; gives the thread that is ending."""
        running, self._running = self._running, None
        if running is None:
            return None
        with contextlib.suppress(_EndedError):
            running.submit(running.abandon)
        return running.thread

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
