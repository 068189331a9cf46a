"""Work that runs to its end although its caller is cancelled."""

from __future__ import annotations

import asyncio
import gc

from kagent_memory.concurrency import uninterrupted


async def test_an_error_of_work_whose_caller_is_cancelled_is_retrieved() -> None:
    """The caller gets its cancellation, and asyncio reports nothing."""
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    has_begun = asyncio.Event()

    async def work() -> None:
        has_begun.set()
        await asyncio.sleep(0.01)
        raise RuntimeError("The store is closed.")

    async def is_cancelled() -> bool:  # and lets go of all tasks
        caller = asyncio.create_task(uninterrupted(work()))
        await has_begun.wait()
        caller.cancel()
        await asyncio.wait([caller])
        return caller.cancelled()

    assert await is_cancelled()
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
