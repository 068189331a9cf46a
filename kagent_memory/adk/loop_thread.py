"""Share one resource between many event loops, and bound the time that callers wait for it: the
event loop of a daemon thread owns the resource.

ADK calls a memory service from many loops: the sync `Runner.run()` makes a new one for every call,
and live mode runs tools on another. Pools and workers live here and survive them all.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ..errors import StoreError
from ..memories.tool_answers import report

Resource = TypeVar("Resource")
Result = TypeVar("Result")
Opener = Callable[[], Coroutine[Any, Any, Resource]]
Closer = Callable[[Resource], Awaitable[None]]
EXIT_SECONDS = 1.0
JOIN_SECONDS = 5.0
PATIENCE_SECONDS = 2.0
PING_SECONDS = 1.0
AWAY_SECONDS = 0.1


class _RunningLoop(Generic[Resource]):
    """A running thread with its event loop, and the resource that was opened on it.

    Attributes:
        tasks: the work in progress; True for work that goes on without its caller.
        end: ends the thread; called at the latest when the owner is garbage collected.
    """

    def __init__(
        self, opener: Opener[Resource], closer: Closer[Resource], owner: LoopThread[Resource]
    ) -> None:
        self._opener = opener
        self._closer = closer
        self._opening: asyncio.Task[Resource] | None = None
        self.is_open = False
        self.tasks: dict[asyncio.Task[Any], bool] = {}
        self._stopped = asyncio.Event()
        self.loop = asyncio.SelectorEventLoop()  # psycopg takes no other on Windows
        self.thread = threading.Thread(
            target=self._run_loop, name="kagent-memory-loop", daemon=True
        )
        self.thread.start()
        self.end = weakref.finalize(owner, self._abandon)

    def _run_loop(self) -> None:
        # the runner starts a thread as it ends, which fails when Python exits
        with (
            contextlib.suppress(RuntimeError),
            asyncio.Runner(loop_factory=lambda: self.loop) as runner,
        ):
            runner.run(self._stopped.wait())

    async def use(self, use: Callable[[Resource], Awaitable[Result]], finish: bool) -> Result:
        """Call `use` with the resource, and open the resource first if necessary.

        Concurrent callers share one opening; after a failure the next caller tries again.
        """
        task = asyncio.create_task(self._open_and_use(use))
        self.tasks[task] = finish
        task.add_done_callback(self.tasks.pop)
        if not finish:
            return await task
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.add_done_callback(_log_failure)
            raise
        return task.result()

    async def _open_and_use(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        if self._opening is None or (self._opening.done() and _has_failed(self._opening)):
            # an empty context: the resource outlives the spans of its first caller
            self._opening = self.loop.create_task(self._opener(), context=contextvars.Context())
            self._opening.add_done_callback(_has_failed)  # no caller may be left to see it
        resource = await asyncio.shield(self._opening)
        self.is_open = True
        return await use(resource)

    async def close(self) -> None:
        """Wait for running work, then close the resource."""
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=JOIN_SECONDS)
        opening, self._opening = self._opening, None
        if opening is not None:
            await asyncio.wait([opening])
            if not _has_failed(opening):
                await self._closer(opening.result())

    def _abandon(self) -> None:
        """End the thread without closing the resource: accepted work is durable."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self.loop.call_soon_threadsafe(self._stopped.set)
        if not threading.main_thread().is_alive():  # the thread must not outlive the interpreter
            self.thread.join(EXIT_SECONDS)


class LoopThread(Generic[Resource]):
    """Open a resource at its first use, on the event loop of a thread of its own, and run callers'
    work there.

    After `close`, and in a forked child, the next use starts afresh. The thread ends when this
    object is garbage collected.

    Args:
        opener: opens the resource; called on that loop.
        closer: closes the resource; called on that loop.
    """

    def __init__(self, opener: Opener[Resource], closer: Closer[Resource]) -> None:
        self._opener = opener
        self._closer = closer
        self._lock = threading.Lock()
        self._running: _RunningLoop[Resource] | None = None

    def submit(
        self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool
    ) -> Future[Result]:
        """Start a piece of work on the loop, with the caller's context variables.

        Args:
            use: called with the resource.
            finish: True to finish the work even if the future is cancelled.
        """
        with self._lock:  # no work may be submitted to a loop that is about to end
            running = self._running
            if running is None or not running.thread.is_alive():
                running = self._running = _RunningLoop(self._opener, self._closer, self)
            return asyncio.run_coroutine_threadsafe(running.use(use, finish), running.loop)

    async def run(
        self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool = False
    ) -> Result:
        """Run `use` on the loop and return its result; see `submit`."""
        return await asyncio.wrap_future(self.submit(use, finish=finish))

    def run_blocking(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        """Run `use` on the loop and block until it returns; an interrupt does not stop it.

        Raises:
            RuntimeError: called on the resource's loop, which would wait for itself.
        """
        self._refuse_own_loop()
        return self.submit(use, finish=True).result()

    def start(self, use: Callable[[Resource], Awaitable[Result]]) -> Future[Result] | None:
        """Start a piece of work without waiting for it; return None if the resource is not open."""
        running = self._running
        return self.submit(use, finish=False) if running is not None and running.is_open else None

    async def join_detached(self, seconds: float) -> bool:
        """Wait, on the resource's loop, for the work that goes on without its callers.

        Args:
            seconds: the most seconds to wait.

        Returns:
            True if none is left.
        """
        tasks = self._running.tasks if self._running is not None else {}
        detached = [task for task, finish in tasks.items() if finish]
        return not detached or not (await asyncio.wait(detached, timeout=seconds))[1]

    async def close(self) -> None:
        """Wait for running work, close the resource and end the thread; harmless if nothing was
        opened.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        self._refuse_own_loop()
        await asyncio.to_thread(self.close_blocking)

    def close_blocking(self) -> None:
        """Close as `close` does, and block until it is done.

        Raises:
            RuntimeError: called on the resource's loop.
        """
        self._refuse_own_loop()
        with self._lock:
            running, self._running = self._running, None
        if running is not None and running.thread.is_alive():
            try:
                asyncio.run_coroutine_threadsafe(running.close(), running.loop).result()
            finally:
                running.end()
                running.thread.join(JOIN_SECONDS)

    def _refuse_own_loop(self) -> None:
        running = self._running
        if running is not None and running.thread is threading.current_thread():
            raise RuntimeError(
                "A blocking call or close() on the memory's own event loop would wait for itself: "
                "code that runs there, such as `embed` or `complete`, must await the verbs of "
                "service.memories."
            )


def _has_failed(task: asyncio.Future[Any]) -> bool:
    """Return True if a task has no result, and mark its exception as retrieved."""
    return task.cancelled() or task.exception() is not None


def _log_failure(task: asyncio.Future[Any]) -> None:
    """Log the failure of work that no caller waits for any more."""
    if not task.cancelled() and isinstance(error := task.exception(), Exception):
        report("work whose caller was gone", error)


class Availability:
    """Tell a slow call from a database that does not answer, by a ping.

    Args:
        ping: starts a small read that cannot fail, from any thread; returns None while the store is
            not open.
    """

    def __init__(self, ping: Callable[[], Future[Any] | None]) -> None:
        self._start = ping
        self._overdue: Future[Any] | None = None

    async def guard(self, work: Awaitable[Result], *, finish: bool = False) -> Result:
        """Return the result of `work`, however long it takes, while the database answers pings.

        Args:
            work: started at once.
            finish: True to finish the work even if its caller stops waiting.

        Raises:
            StoreError: the database does not answer.
        """
        is_away = self._overdue is not None and not self._overdue.done()
        task = asyncio.ensure_future(work)
        task.add_done_callback(_has_failed)  # no caller may be left to see its exception
        try:
            await asyncio.wait([task], timeout=AWAY_SECONDS if is_away else PATIENCE_SECONDS)
            if not task.done() and (is_away or not await self._answers(task)):
                raise StoreError("memory unavailable: the database does not answer.")
            return await asyncio.shield(task)
        finally:
            if not task.done():
                task.add_done_callback(_log_failure)
                if not finish:
                    task.cancel()

    async def _answers(self, task: asyncio.Future[Result]) -> bool:
        """Return True if `task` ends or a ping is answered in time."""
        if (ping := self._start()) is None:
            return True
        awaitables = [task, asyncio.wrap_future(ping)]
        await asyncio.wait(awaitables, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if task.done() or ping.done():
            return True
        self._overdue = ping
        return False
