"""Opened memories: their parts, their background work, and how they end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from ..concurrency import cancel_and_wait
from ..errors import ConfigurationError, StoreError
from ..records import Mode
from ..settings import MemorySettings
from ..stores import Store
from .components import BACKFILL, Components
from .diagnosis import check_queue
from .tokens import Tokens
from .verbs import Verb, verb

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.03
MAX_PAUSE_SECONDS = 0.25


def utc_now() -> datetime:
    """Return the time now, aware UTC."""
    return datetime.now(UTC)


def without_secrets(uri: str) -> str:
    """Return a store's URI as it may be shown."""
    bare = uri.partition("?")[0]
    scheme, _, rest = bare.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


class Opened:
    """Memories that are open, here or elsewhere: what their verbs stand on.

    Attributes:
        settings: those in force.
        location: the URI without password and query.
        mode: the search mode of reads when every part works.
    """

    settings: MemorySettings
    location: str
    mode: Mode

    def __init__(self, components: Components | None) -> None:
        self._components = components
        if components is not None:
            self.settings, self.location = components.settings, components.location
            self.mode = "keyword" if components.vectors is None else "hybrid"
        self._stop = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []

    def perform(self, verb: Verb, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Perform a verb here, with checked arguments."""
        return verb.function(self, **verb.checked(args, kwargs))

    @property
    def parts(self) -> Components:
        """The parts of memories that are opened here.

        Raises:
            ConfigurationError: they are opened elsewhere.
        """
        if self._components is None:
            raise ConfigurationError(
                "Only available where the store itself is opened, with Memories.open."
            )
        return self._components

    async def close(self) -> None:
        """Let queued work end for some seconds, then stop; what is left stays queued. Closing twice
        is harmless.
        """
        if self._background:
            await self.drain(CLOSE_SECONDS)
        self._stop.set()
        await cancel_and_wait(*self._background)
        self._background.clear()
        await self.parts.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def store(self) -> Store:
        """The store itself."""
        return self.parts.store

    @property
    def tokens(self) -> Tokens:
        """The bearer tokens of a server of these memories."""
        return self.parts.tokens

    @verb("POST /drain")
    async def drain(self, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 the name ADK's users know
        """Wait until every accepted job is done.

        Jobs that wait for their time (a session's inactivity, consolidation) are not waited for.

        Returns:
            False when `timeout` seconds pass first, when the store is away, or when it holds dead
            letters: those are accepted and never done. The log says what is left.
        """
        parts, end = self.parts, time.monotonic() + timeout
        if filling := [task for task in self._background if task.get_name() == BACKFILL]:
            await asyncio.wait(filling, timeout=timeout)  # until it has queued all that it embeds
        pause = FIRST_PAUSE_SECONDS
        while True:
            with suppress(StoreError):  # a store that is away may hold jobs still
                if not (await parts.store.queue.pending(now=parts.clock())).count:
                    break
            parts.worker.wake()
            if (left := end - time.monotonic()) <= 0:
                await self._log_unfinished()
                return False
            await asyncio.sleep(min(pause, left))
            pause = min(1.5 * pause, MAX_PAUSE_SECONDS)  # many may wait for one long job
        counting = asyncio.create_task(parts.deliveries.try_flush())
        # it is not cancelled when the time is over: what it has in hand would be lost
        await asyncio.wait([counting], timeout=max(0.0, end - time.monotonic()) + 0.01)
        if not (counting.done() and counting.result()):
            return False
        return await self._log_unfinished()

    async def _log_unfinished(self) -> bool:
        """Log what is left in the queue; return False if it holds dead letters or cannot be
        read.
        """
        try:
            queue = await check_queue(self.parts)
        except StoreError as error:
            logger.warning("The rest of the queue cannot be read: %s", error)
            return False
        if queue.state != "ok":
            logger.warning("%s %s", queue.text, queue.advice)
        return queue.state != "bad"

    @verb()
    async def work(self, *, until_idle: bool = False, stop: asyncio.Event | None = None) -> int:
        """Work on the queue in this task, until told to stop or until nothing is due; return how
        many jobs ended.
        """
        worker = self.parts.worker
        if until_idle:
            return await worker.work_until_idle()
        before = worker.finished
        await worker.work(stop or self._stop)
        return worker.finished - before
