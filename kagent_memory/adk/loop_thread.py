"""The home loop: one daemon thread whose event loop owns a resource that many callers' loops use.

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
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from ..concurrency import new_loop

Resource = TypeVar("Resource")
Result = TypeVar("Result")
EXIT_SECONDS = 1.0
JOIN_SECONDS = 5.0


class _EndedError(Exception):
    """The household ended before this work began."""


class LoopThread(Generic[Resource]):
    """One running thread with its loop, and what it opened."""

    def __init__(self, opener: Callable[[], Awaitable[Resource]], closer: Callable[[Resource], Awaitable[None]]):
        self._opener = opener
        self._closer = closer
        self._opening: asyncio.Task[Resource] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = False
        self._closed = False
        self._door = threading.Lock()
        self.loop = new_loop()
        self.thread = threading.Thread(target=self._live, name="kagent-memory-home", daemon=True)
        self.thread.start()

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            with self._door:
                self._closed = True
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def post(self, callback: Callable[[], object]) -> None:
        """From any thread: runs the callback on the home loop, for certain.

        Raises:
            _EndedError: the loop will run nothing more.
        """
        with self._door:
            if self._closed:
                raise _EndedError
            self.loop.call_soon_threadsafe(callback)

    def start(self, use: Callable[[Resource], Awaitable[Result]]) -> asyncio.Task[Result]:
        """On the home loop: begins a piece of work, and holds on to it until it is done."""
        if self._ending:
            raise _EndedError
        task = asyncio.ensure_future(self._use(use))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _use(self, use: Callable[[Resource], Awaitable[Result]]) -> Result:
        return await use(await self._opened())

    async def _opened(self) -> Resource:
        """The resource, opened once for all who wait; a failed opening is tried again by the next."""
        if self._opening is None or (self._opening.done() and _failed(self._opening)):
            opened = self._opener()
            self._opening = asyncio.Task(_awaited(opened), context=contextvars.Context())  # outlives the caller's spans
            self._opening.add_done_callback(_failed)  # marks it as seen when every waiter is gone
        return await asyncio.shield(self._opening)

    async def _end(self) -> None:
        """On the home loop: lets running work finish, then closes the resource."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=JOIN_SECONDS)
        try:
            if self._opening is not None and not _failed(await _settled(self._opening)):
                await self._closer(self._opening.result())
        finally:
            await self._cancel_all()

    async def _cancel_all(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def end(self) -> asyncio.Task[None]:
        """On the home loop: ends everything in order, then the loop and with it the thread."""
        self._ending = True
        ending = asyncio.ensure_future(self._end())
        ending.add_done_callback(lambda _: self.loop.stop())
        return ending

    def abandon(self) -> None:
        """From any thread: cancels what runs and stops, without closing the resource (whose work is durable)."""
        with contextlib.suppress(_EndedError):
            self.post(lambda: self._tasks.add(asyncio.ensure_future(self._stop())))

    async def _stop(self) -> None:
        self._ending = True
        await self._cancel_all()
        self.loop.stop()


class Home(Generic[Resource]):
    """Opens a resource at its first use, on a loop of its own, and brings callers to it.

    After `close`, and in a forked child, the next use starts afresh.

    Args:
        opener: called on the home loop.
        closer: called on the home loop with what `opener` gave.
    """

    def __init__(self, opener: Callable[[], Awaitable[Resource]], closer: Callable[[Resource], Awaitable[None]]):
        self._opener = opener
        self._closer = closer
        self._lock = threading.Lock()
        self._household: LoopThread[Resource] | None = None
        _homes.add(self)

    async def run(self, use: Callable[[Resource], Awaitable[Result]], *, finish: bool = False) -> Result:
        """What `use` makes of the resource, on the home loop; the caller's loop only waits.

        Args:
            use: called on the home loop; sees the caller's context variables.
            finish: the work goes on when the caller is cancelled or its loop dies; otherwise it is cancelled too.
        """
        here = asyncio.get_running_loop()
        while True:
            household = self._current()
            try:
                if household.loop is here:
                    return await household.start(use)
                return await _across(household, lambda home=household: home.start(use), here, finish)
            except _EndedError:
                self._leave(household)

    async def close(self) -> None:
        """Lets running work finish, closes the resource and ends the thread; harmless when nothing was opened."""
        with self._lock:
            household, self._household = self._household, None
        if household is None:
            return
        here = asyncio.get_running_loop()
        if household.loop is here:
            raise RuntimeError("The loop thread cannot close itself.")
        try:
            await _across(household, household.end, here, finish=True)
        finally:
            await asyncio.to_thread(household.thread.join, JOIN_SECONDS)

    def abandon(self) -> threading.Thread | None:
        """Stops without waiting; gives the thread that is ending."""
        household, self._household = self._household, None
        if household is None:
            return None
        household.abandon()
        return household.thread

    def forget_parent(self) -> None:
        """In a forked child: the parent's thread does not exist here."""
        self._lock = threading.Lock()
        self._household = None

    def __del__(self) -> None:
        self.abandon()

    def _leave(self, household: LoopThread[Resource]) -> None:
        with self._lock:
            if self._household is household:
                self._household = None

    def _current(self) -> LoopThread[Resource]:
        with self._lock:
            if self._household is None or not self._household.thread.is_alive():
                self._household = LoopThread(self._opener, self._closer)
            return self._household


async def _across(
    home: LoopThread[Any],
    start: Callable[[], asyncio.Task[Result]],
    here: asyncio.AbstractEventLoop,
    finish: bool,
) -> Result:
    answer: asyncio.Future[Result] = here.create_future()
    started: list[asyncio.Task[Result]] = []

    def begin() -> None:
        try:
            started.append(start())
        except _EndedError as ended:
            tell(None, ended)
        else:
            started[0].add_done_callback(report)

    def report(task: asyncio.Task[Result]) -> None:
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        tell(None if failure else task.result(), failure)

    def tell(result: Any, failure: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits any more
            here.call_soon_threadsafe(_answer, answer, result, failure)

    home.post(begin)
    try:
        return await answer
    except asyncio.CancelledError:
        if not finish:
            with contextlib.suppress(_EndedError):
                home.post(lambda: started and started[0].cancel())
        raise


def _answer(answer: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if answer.done():
        return
    if isinstance(failure, asyncio.CancelledError):
        answer.cancel()
    elif failure is not None:
        answer.set_exception(failure)
    else:
        answer.set_result(result)


async def _awaited(opened: Awaitable[Resource]) -> Resource:
    return await opened


async def _settled(task: asyncio.Task[Resource]) -> asyncio.Task[Resource]:
    await asyncio.wait([task])
    return task


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


_homes: weakref.WeakSet[Home[Any]] = weakref.WeakSet()


def _leave() -> None:
    """At exit: daemon threads must not run into a dying interpreter."""
    for thread in [home.abandon() for home in list(_homes)]:
        if thread is not None:
            thread.join(EXIT_SECONDS)


def _forked() -> None:
    for home in list(_homes):
        home.forget_parent()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
