"""Ctrl-C while the program is still being imported, which takes a moment."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def interrupts_held() -> Generator[None]:
    """End the program by Ctrl-C at the end of the block rather than in its middle.

    Python raises KeyboardInterrupt in whatever runs at that moment: in a callback of an import's
    lock it would be printed and lost, and the program would go on.
    """
    if (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        or current_thread() is not main_thread()
    ):
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if interrupts:
        sys.exit(130)
