"""Run work on long texts in threads, off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

SHORT = 1_000  # characters; to parse and mask them takes about a millisecond
LONG = 65_536
PORTION = 128  # items
_at_once = nullcontext()
turn = ContextVar[AbstractAsyncContextManager[object]]("turn", default=_at_once)
"""Held while a piece of work runs in a thread. A server sets one per caller, so that the work of a
caller waits in a queue of its own, and others wait for one piece of it at most.
"""
_few_threads = ThreadPoolExecutor(2, thread_name_prefix="kagent-memory-work")
_long_thread = ThreadPoolExecutor(1, thread_name_prefix="kagent-memory-long-work")


def batched(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """Yield the items in batches of this size."""
    return (items[start : start + size] for start in range(0, len(items), size))


async def run_in_thread(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `work` in a thread if it is large, otherwise at once, and return its result.

    Work in a thread runs to its end, even if the caller is cancelled, so it must not touch objects
    of the event loop. Long work has a thread of its own, where it delays only other long work.

    Args:
        size: the size of the work, in characters to read.
        work: the function to call.
        *args: its arguments.
        **kwargs: its keyword arguments.
    """
    if size <= SHORT:
        return work(*args, **kwargs)
    context = copy_context()

    def run() -> T:
        try:
            return context.run(work, *args, **kwargs)
        # raised by a user's redact=, for example; a future rejects it
        except StopIteration as error:
            raise RuntimeError("The work raised StopIteration.") from error

    async with turn.get():
        return await asyncio.get_running_loop().run_in_executor(
            _long_thread if size > LONG else _few_threads, run
        )


async def each_aside(
    items: Sequence[Item], size: Callable[[Item], int], work: Callable[[Item], T]
) -> list[T]:
    """Return the results of `work` for the items, in order; other tasks run between portions.

    Args:
        items: the items.
        size: returns the size of an item in characters.
        work: the function to call for each item.
    """
    total = sum(map(size, items))
    results = list[T]()
    for portion in batched(items, PORTION):
        results += await run_in_thread(total, list[T], (work(item) for item in portion))
    return results


async def cancel_and_wait(*tasks: asyncio.Task[object]) -> None:
    """Cancel tasks until they have ended: a driver may swallow a single cancellation."""
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=0.5)


async def uninterrupted(work: Awaitable[T]) -> T:
    """Run `work` to its end, even if the caller is cancelled meanwhile, and return its result."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:  # with the error of the work, which asyncio would report as never retrieved
        raise cancelled from task.exception()
    return task.result()
