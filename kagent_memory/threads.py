"""Work on long texts beside the event loop, in two threads of their own; and loops of our own that suit our drivers."""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TypeVar

T = TypeVar("T")

SHORT = 1_000  # characters; reading and masking so many takes about a millisecond
AT_ONCE = 2


async def aside(size: int, work: Callable[[], T]) -> T:
    """What `work` gives: called here when `size` (in characters, about) is short, in a thread otherwise.

    Once begun it comes to its end, also when the caller is cancelled; it must not touch what the loop owns.
    """
    if size <= SHORT:
        return work()
    run = partial(contextvars.copy_context().run, work)
    return await asyncio.get_running_loop().run_in_executor(_workers(), run)


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop on which every store works: on Windows psycopg refuses the usual one."""
    windows = sys.platform.startswith("win")
    return asyncio.SelectorEventLoop() if windows else asyncio.new_event_loop()


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="kagent-memory-work")
