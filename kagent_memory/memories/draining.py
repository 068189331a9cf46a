"""Waiting until what was accepted is done, and saying what is left when it is not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from ..errors import StoreError
from ..ingestion import Worker
from ..retention.deliveries import Deliveries
from ..stores.base import JobQueue

logger = logging.getLogger(__name__)

JOBS_READ = 100
FIRST_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.25


async def drain(
    queue: JobQueue, worker: Worker, deliveries: Deliveries, *, clock: Callable[[], datetime], seconds: float
) -> bool:
    """See `MemoryApi.drain`."""
    end, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
    while True:
        with suppress(StoreError):  # what cannot be asked may hold jobs still
            if not (await queue.pending(now=clock())).count:
                break
        worker.wake()
        if (left := end - time.monotonic()) <= 0:
            await _log_unfinished(queue)
            return False
        await asyncio.sleep(min(pause, left))
        pause = min(1.5 * pause, MAX_PAUSE_SECONDS)
    try:
        await asyncio.wait_for(deliveries.drain(), max(0.0, end - time.monotonic()) + 0.01)
    except TimeoutError:
        return False
    return await _log_unfinished(queue)


async def _log_unfinished(queue: JobQueue) -> bool:
    """Logs what is left in the queue; False when dead letters are, or when it cannot be read."""
    try:
        dead = await queue.jobs(state="dead", limit=1, payloads=False)
        queued = await queue.jobs(state="queued", limit=JOBS_READ, payloads=False)
    except StoreError as error:
        logger.warning("The rest of the queue cannot be read: %s", error)
        return False
    if dead:
        text = "The queue holds dead letters, among them job %s (%s); retry or drop them."
        logger.warning(text, dead[0].id, dead[0].error)
        return False
    if failing := [job for job in queued if job.error]:
        logger.warning("Saves wait in the queue, among them job %s (%s).", failing[0].id, failing[0].error)
    return True
