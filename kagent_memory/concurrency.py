"""Work on long texts beside the event loop, in threads of its own and in portions between which others go on; loops of
our own that suit our drivers; what is remembered, within bounds.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from threading import Lock
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")

SHORT = 1_000  # characters; reading and masking so many takes about a millisecond
LONG = 65_536
PORTION = 16_384


class LRU(Generic[Key, Value]):
    """The values used last, up to a bound; what was used longest ago goes first. Threads may share it.

    Args:
        bound: of all sizes together; the value used last stays, even when it alone is larger.
        size_of: a value's size when it is set; None: each counts one, so that the bound is a number of values.
    """

    def __init__(self, bound: int, size_of: Callable[[Value], int] | None = None) -> None:
        self._bound = bound
        self._size_of = size_of
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))

    @property
    def size(self) -> int:
        """Of all values together."""
        return self._size

    def get(self, key: Key) -> Value | None:
        """The key's value, which is used by that."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def __setitem__(self, key: Key, value: Value) -> None:
        with self._lock:
            self._set(key, value)

    def setdefault(self, key: Key, value: Value) -> Value:
        """The key's value, which is this one when it has none yet."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            else:
                self._set(key, value)
            return self._values[key][0]

    def resize(self, key: Key, value: Value) -> None:
        """Counts a value that grew anew, unless the key has lost it meanwhile."""
        with self._lock:
            if key in self._values and self._values[key][0] is value:
                self._set(key, value)

    def pop(self, key: Key) -> Value | None:
        """Removes the key; its value, if it had one."""
        with self._lock:
            value, size = self._values.pop(key, (None, 0))
            self._size -= size
            return value

    def discard(self, is_gone: Callable[[Value], bool]) -> None:
        """Removes the values that are said to be gone."""
        with self._lock:
            for key in [key for key, (value, _) in self._values.items() if is_gone(value)]:
                self._size -= self._values.pop(key)[1]

    def clear(self) -> None:
        """Removes all."""
        with self._lock:
            self._values.clear()
            self._size = 0

    def _set(self, key: Key, value: Value) -> None:
        size = 1 if self._size_of is None else self._size_of(value)
        self._size += size - self._values.pop(key, (None, 0))[1]
        self._values[key] = value, size
        while self._size > self._bound and len(self._values) > 1:
            self._size -= self._values.popitem(last=False)[1][1]


async def run_in_thread(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns: called here when `size` (in characters, about) is short, in a thread otherwise.

    Once begun it comes to its end, also when the caller is cancelled; it must not touch what the loop owns. What is
    long has a thread apart: it holds up nothing but its like.
    """
    if size <= SHORT:
        return work(*args, **kwargs)
    run = partial(contextvars.copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads(size > LONG), run)


async def each_aside(items: Sequence[Item], size: Callable[[Item], int], work: Callable[[Item], T]) -> list[T]:
    """What `work` gives for each item, in their order, worked on in portions between which others have their turns."""
    done: list[T] = []
    portion: list[Item] = []
    weight = 0
    for number, item in enumerate(items, 1):
        portion.append(item)
        weight += size(item)
        if weight >= PORTION or number == len(items):
            # no map(): it would take a StopIteration of the work, such as a caller's redact=, for the end of the items
            done += await run_in_thread(weight, list[T], (work(one) for one in portion))
            portion, weight = [], 0
    return done


async def cancel_and_wait(*tasks: asyncio.Task[object]) -> None:
    """Cancels the tasks until they end: a driver may swallow a cancellation while it works."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.5)


async def uninterrupted(work: Awaitable[T]) -> T:
    """What `work` gives: it comes to its end; a cancellation of the caller waits for that."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop on which every store works: on Windows psycopg refuses the usual one."""
    windows = sys.platform.startswith("win")
    return asyncio.SelectorEventLoop() if windows else asyncio.new_event_loop()


@cache
def _threads(for_long: bool) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1 if for_long else 2, thread_name_prefix="kagent-memory-work")
