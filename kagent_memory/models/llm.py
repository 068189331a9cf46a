"""Language models: answer prompts with objects of a schema, and count calls and tokens."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel
from typing_extensions import override

from ..concurrency import LONG, run_in_thread
from ..errors import ConfigurationError, ModelError, TruncatedAnswer
from ..settings import MemorySettings
from .calls import CheckedModel, call_litellm, check_provider, qualified
from .failures import status_of, transient
from .replies import Answer, json_prompt, to_schema


@dataclass(slots=True)
class Meter:
    """The model calls and tokens of the enclosed code.

    Attributes:
        calls: all calls of models, failed ones included.
        tokens: input and output tokens as the provider reports them; 0 if it does not.
    """

    calls: int = 0
    tokens: int = 0


_meters: ContextVar[tuple[Meter, ...]] = ContextVar("kagent_memory_meters", default=())


@contextmanager
def metered() -> Generator[Meter, None, None]:
    """Count the model calls of the enclosed code and of tasks that it starts; meters may nest."""
    meter = Meter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def count(*, calls: int = 0, tokens: int = 0) -> None:
    """Add calls and tokens to all enclosing meters."""
    for meter in _meters.get():
        meter.calls += calls
        meter.tokens += tokens


@runtime_checkable
class Llm(Protocol):
    """An object that answers a prompt with an object of a schema."""

    @property
    def name(self) -> str:
        """Return the name of the model."""
        ...

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt.

        Raises:
            ModelError: the model is unavailable, or its answer does not fit the schema.
        """
        ...


class StructuredLlm(ABC):
    """Ask a model for JSON in the prompt, and pass it the schema until it refuses one."""

    name: str
    _takes_schema = True

    async def complete(self, prompt: str, *, schema: type[BaseModel]) -> str:
        """Return the answer to the prompt as text.

        Raises:
            TruncatedAnswer: the answer was cut off.
            ModelError: the model refused.
            Exception: any error of the model's client.
        """
        prompt = json_prompt(prompt, schema)
        if self._takes_schema:
            try:
                return await self.ask(prompt, schema)
            except Exception as error:
                if not _may_be_the_schema(error):
                    raise
        text = await self.ask(prompt, None)
        self._takes_schema = False
        return text

    @abstractmethod
    async def ask(self, prompt: str, schema: type[BaseModel] | None) -> str:
        """Return the model's text for a prompt; pass it the schema unless that is None."""


def _may_be_the_schema(error: Exception) -> bool:
    """Return True if the schema may have caused the failure: the request was refused, or the client
    could not send it.
    """
    unsendable = isinstance(error, (TypeError, ValueError, NotImplementedError))
    return (unsendable or status_of(error) in (400, 422)) and not transient(error)


class CheckedLlm(CheckedModel):
    """Wrap any object with `name` and `async complete(prompt, *, schema)`, and turn its failures
    into ModelError.
    """

    method, kind = "complete", "a language model"

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt; text and plain dicts are parsed into the schema.

        Raises:
            ModelUnavailable: the model is unavailable for now, or took too long.
            ModelError: the object failed, or its answer does not fit the schema.
            ConfigurationError: its `complete` is not async.
        """
        try:
            answer = await self.call(prompt, schema=schema)
        finally:  # failed calls count too
            count(calls=1)
        return await run_in_thread(LONG, to_schema, answer, schema, self.label)


class ProviderModel(StructuredLlm):
    """A provider's model; see `CheckedLlm` for time-outs and retries.

    Args:
        model: a LiteLLM model name, or a bare Gemini name.
    """

    def __init__(self, model: str) -> None:
        self.name = qualified(model, os.environ)

    @override
    async def ask(self, prompt: str, schema: type[BaseModel] | None) -> str:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": prompt}]}
        if schema:
            shape = {"name": schema.__name__, "schema": schema.model_json_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        response = await call_litellm("acompletion", self.name, **body)
        usage: Any = response.get("usage") or {}
        count(tokens=(usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0))
        return response_text(response, self.name)


def response_text(response: Any, name: str) -> str:
    """Return the text of a response.

    Raises:
        TruncatedAnswer: it was cut off.
        ModelError: it is a refusal, or there is none.
    """
    if not response.get("choices"):
        raise ModelError(f"The model {name} returned no choices.")
    [choice, *_] = response["choices"]
    message, finish = choice["message"], choice.get("finish_reason")
    if finish == "length":
        raise TruncatedAnswer(
            f"The model {name} was cut off at its output limit; raise the limit, or send it "
            "less at once."
        )
    extra: Any = message.get("provider_specific_fields") or {}
    if message.get("refusal") or extra.get("refusal") or finish == "content_filter":
        raise ModelError(f"The model {name} refused to answer.")
    return str(message.get("content") or "")


def provider_llm(name: str, settings: MemorySettings) -> CheckedLlm:
    """Return a provider's model by name without checking the provider."""
    return CheckedLlm(ProviderModel(name), settings, ours=True)


def open_llm(choice: Any, settings: MemorySettings) -> Llm | None:
    """Return the model for None or False, a LiteLLM model name, or an object with `complete`.

    It calls no model, but may import LiteLLM (for an uncommon provider), so call it in a
    thread.

    Raises:
        ConfigurationError: the choice is none of these, or its provider is unknown.
    """
    if choice is None or choice is False or choice == "":
        return None
    if choice is True:
        raise ConfigurationError("llm=True names no model; give its name, or False for none.")
    if isinstance(choice, str):
        model = provider_llm(choice, settings)
        check_provider(model.name)
        return model
    return choice if isinstance(choice, CheckedLlm) else CheckedLlm(choice, settings)
