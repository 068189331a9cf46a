"""How a language model is asked: held to a schema or in words, its calls counted, its failures
named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic import BaseModel

from ...concurrency import run_in_thread
from ...errors import ModelError
from ...settings import MemorySettings
from ..calls import CheckedModel
from .reply_parser import Answer, json_prompt, read_answer, shaped


@dataclass(slots=True)
class Meter:
    """Calls and tokens that the enclosed code spent on models.

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
        """Return both directions together."""
        return self.input_tokens + self.output_tokens


_meter: ContextVar[Meter | None] = ContextVar("kagent_memory_meter", default=None)


@contextmanager
def metered() -> Generator[Meter, None, None]:
    """Count the model calls of the enclosed code, tasks that it starts included; a meter around it
    counts on.
    """
    meter = Meter(outer=_meter.get())
    token = _meter.set(meter)
    try:
        yield meter
    finally:
        _meter.reset(token)


def count_call(input_tokens: int = 0, output_tokens: int = 0) -> None:
    """Add one answer of a model to every meter around."""
    meter = _meter.get()
    while meter is not None:
        meter.calls += 1
        meter.input_tokens += input_tokens
        meter.output_tokens += output_tokens
        meter = meter.outer


def calls_so_far() -> int:
    """Return the calls that the nearest meter has counted; 0 without one."""
    meter = _meter.get()
    return meter.calls if meter else 0


Ask: TypeAlias = Callable[[str, type[BaseModel] | None], Awaitable[str]]


class StructuredOutput:
    """Holds a model to a schema where it takes one; asks for JSON in words where it refuses or
    ignores it.

    Args:
        ask: the model's text for a prompt, held to a schema or, with None, not; a `ModelError`
            that it raises is final.
        refuses_schema: whether a failure of `ask` may come of the schema.
    """

    def __init__(self, ask: Ask, refuses_schema: Callable[[Exception], bool]) -> None:
        self._ask = ask
        self._refuses_schema = refuses_schema
        self._takes_schema = True

    async def complete(self, prompt: str, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt; after a schema was refused once, it is no longer sent.

        Raises:
            ModelError: a final failure, or an answer that does not fit the schema.
            Exception: any other failure of `ask`, as it came.
        """
        refused = False
        if self._takes_schema:
            try:
                text = await self._ask(prompt, schema)
            except ModelError:
                raise
            except Exception as error:
                if not self._refuses_schema(error):
                    raise
                refused = True
            else:
                with suppress(ModelError):  # it ignored the schema, and may keep to it next time
                    return await read_answer(text, schema)
        answer = await read_answer(await self._ask(json_prompt(prompt, schema), None), schema)
        self._takes_schema = self._takes_schema and not refused
        return answer


class CheckedLlm(CheckedModel):
    """Any object with `name` and `async complete(prompt, *, schema)`; a failure of its own becomes
    a ModelError.
    """

    method, kind, answers_in_words = "complete", "a language model", True

    def __init__(self, inner: Any, settings: MemorySettings) -> None:
        super().__init__(inner, timeout_seconds=settings.model_timeout_seconds)

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt; text and plain dicts are brought into the schema.

        Raises:
            ModelUnavailable: it is away for now, or took too long.
            ModelError: the object failed, or answered what does not fit the schema.
            ConfigurationError: its `complete` is not async.
        """
        before = calls_so_far()
        try:
            answer = await self.call(prompt, schema=schema)
        finally:  # a call that failed was made all the same
            if calls_so_far() == before:
                count_call()
        return await run_in_thread(
            len(answer) if isinstance(answer, str) else 0, shaped, answer, schema, self.called
        )
