"""A model that helps a search, which never waits long for one that does not answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ..errors import ModelError
from .search import Search

logger = logging.getLogger(__name__)

SLOW_SECONDS = 1.0  # a failure that comes sooner costs nobody anything
MAX_FAILURES = 3
PAUSE_SECONDS = 30.0
Answer = TypeVar("Answer")


class HelpingModel:
    """A model that helps searches, which go on without it when it fails.

    After some slow failures in a row none waits for it, but for one every half minute.

    Args:
        part: what it does in a search, for people.
        seconds: the longest that a search waits for it.
    """

    def __init__(self, part: str, seconds: float) -> None:
        self._part, self._seconds = part, seconds
        self._failures = 0
        self._paused_until = 0.0

    async def ask(self, search: Search, ask: Callable[[], Awaitable[Answer]]) -> Answer | None:
        """Return the model's answer; None, told in `degraded`, if there is none in time.

        What is cancelled after a second has failed, too: its caller's time was over.
        """
        begin, seconds, answered = time.monotonic(), search.seconds(self._seconds), False
        pause = self._paused_until - begin if self._failures >= MAX_FAILURES else 0.0
        if pause > 0:
            reason = (
                f"no answer {self._failures} times in a row; it is asked again in {pause:.0f} s"
            )
        else:
            self._paused_until = begin + PAUSE_SECONDS  # one caller waits for it, not all
            try:
                async with asyncio.timeout(seconds):
                    answer = await ask()
                answered = True
                return answer
            except TimeoutError:
                reason = f"no answer within {seconds:.3g} s"
            except ModelError as error:
                reason = str(error)
            finally:
                slow = time.monotonic() - begin >= SLOW_SECONDS
                if answered:
                    self._failures = 0
                elif slow:
                    self._failures += 1
                    self._paused_until = time.monotonic() + PAUSE_SECONDS
        logger.warning("Searching without the %s: %s", self._part, reason)
        search.degraded.append(f"{self._part}: {reason}")
        return None
