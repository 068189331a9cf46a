"""Spares a search the wait for a model that did not answer the searches before it."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import ModelUnavailable

SLOW_SECONDS = 1.0  # a failure that comes sooner costs nobody anything
FAILURES = 3
OPEN_SECONDS = 30.0


class CircuitBreaker:
    """Opens after some slow failures in a row; then, every half minute, one call tries whether the
    model is back.

    Args:
        name: of the model's part in a search, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._failures = 0
        self._open_until = 0.0

    @contextmanager
    def guard(self) -> Generator[None, None, None]:
        """Around a call of the model. What is cancelled after a second has failed, too: its
        caller's time was over.

        Raises:
            ModelUnavailable: the circuit is open; the model is not asked.
        """
        begin = time.monotonic()
        if self._failures >= FAILURES:
            if begin < self._open_until:
                raise ModelUnavailable(
                    f"The {self._name} did not answer {self._failures} times in a row; "
                    f"it is asked again in {self._open_until - begin:.0f} s."
                )
            self._open_until = begin + OPEN_SECONDS  # one caller waits for it, not all
        try:
            yield
        except BaseException:
            if time.monotonic() - begin >= SLOW_SECONDS:
                self._failures += 1
                self._open_until = time.monotonic() + OPEN_SECONDS
            raise
        self._failures = 0
