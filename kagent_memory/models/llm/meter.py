"""What model calls cost, counted for the code that asked."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Meter:
    """What the enclosed code asked of models.

    Attributes:
        calls: answers received, useless ones included.
        input_tokens, output_tokens: as the providers report them; 0 where they do not.
    """

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    outer: Meter | None = field(default=None, repr=False)

    @property
    def tokens(self) -> int:
        """Both directions together."""
        return self.input_tokens + self.output_tokens


_meter: ContextVar[Meter | None] = ContextVar("kagent_memory_meter", default=None)


@contextmanager
def metered() -> Generator[Meter, None, None]:
    """Counts the model calls of the enclosed code, tasks that it starts included; a meter around it counts on."""
    meter = Meter(outer=_meter.get())
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def count_call(input_tokens: int = 0, output_tokens: int = 0) -> None:
    """Adds one answer of a model to every meter around."""
    meter = _meter.get()
    while meter is not None:
        meter.calls += 1
        meter.input_tokens += input_tokens
        meter.output_tokens += output_tokens
        meter = meter.outer


def calls_so_far() -> int:
    """The calls that the nearest meter has counted; 0 without one."""
    meter = _meter.get()
    return meter.calls if meter else 0
