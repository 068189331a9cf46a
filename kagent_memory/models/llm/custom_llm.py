"""A language model that a user made, with its answers checked as every other's."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from pydantic import BaseModel

from ...errors import ConfigurationError
from ...settings import MemorySettings
from ..calls import RetryPolicy, name_of, named_object, with_retries
from .meter import calls_so_far, count_call
from .reply_parser import LONG_CHARS, Answer, shaped


class CheckedLlm:
    """Any object with `name` and `async complete(prompt, *, schema)`; a failure of its own becomes a ModelError."""

    def __init__(self, inner: Any, settings: MemorySettings) -> None:
        name_of(inner, "complete", "a language model")
        self.inner = inner
        self._retry = RetryPolicy(settings.model_timeout_seconds)

    @property
    def name(self) -> str:
        """The name that the object gives itself."""
        return name_of(self.inner, "complete", "a language model")

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """The answer to the prompt; text and plain dicts are brought into the schema.

        Raises:
            ModelUnavailable: it is away for now, or took too long.
            ModelError: the object failed, or answered what does not fit the schema.
            ConfigurationError: its `complete` is not async.
        """
        what = f"The model {self.name}"
        call = with_retries(lambda: self._asked(prompt, schema), self._retry)
        answer = await named_object(call, what, prompt, answers=True)
        if isinstance(answer, str) and len(answer) > LONG_CHARS:
            return await asyncio.to_thread(shaped, answer, schema, what)
        return shaped(answer, schema, what)

    async def _asked(self, prompt: str, schema: type[BaseModel]) -> Any:
        before = calls_so_far()
        answer = self.inner.complete(prompt, schema=schema)
        if not inspect.isawaitable(answer):
            raise ConfigurationError(f"The model {self.name}: complete() must be an async function.")
        try:
            return await answer
        finally:  # a call that failed was made all the same
            if calls_so_far() == before:
                count_call()
