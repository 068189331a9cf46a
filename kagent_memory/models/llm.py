"""Language models: prompts answered with an object of the wanted shape, their calls counted."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel
from typing_extensions import override

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, ModelError, TruncatedAnswer
from ..settings import MemorySettings
from .calls import CheckedModel, call_litellm, check_provider, qualified
from .failures import status_of, transient
from .replies import Answer, json_prompt, shaped


@dataclass(slots=True)
class Meter:
    """Calls and tokens that the enclosed code spent on models.

    Attributes:
        calls: of a model, those that failed included.
        tokens: of both directions, as the providers report them; 0 where they do not.
    """

    calls: int = 0
    tokens: int = 0


_meters: ContextVar[tuple[Meter, ...]] = ContextVar("kagent_memory_meters", default=())


@contextmanager
def metered() -> Generator[Meter, None, None]:
    """Count the model calls of the enclosed code, tasks that it starts included; a meter around it
    counts on.
    """
    meter = Meter()
    token = _meters.set((*_meters.get(), meter))
    try:
        yield meter
    finally:
        _meters.reset(token)


def count(*, calls: int = 0, tokens: int = 0) -> None:
    """Add what a model was asked to every meter around."""
    for meter in _meters.get():
        meter.calls += calls
        meter.tokens += tokens


class Llm(Protocol):
    """Answers a prompt with an object of the wanted shape. Any object of this shape will do."""

    @property
    def name(self) -> str:
        """Return which model this is."""
        ...

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt.

        Raises:
            ModelError: unavailable, or an answer that does not fit the schema.
        """
        ...


class StructuredLlm(ABC):
    """A model that is asked for JSON in words, and held to its schema until it refuses one."""

    name: str
    _takes_schema = True

    async def complete(self, prompt: str, *, schema: type[BaseModel]) -> str:
        """Return the text that answers the prompt.

        Raises:
            TruncatedAnswer: it was cut off.
            ModelError: the model refused.
            Exception: the model failed in its own way.
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
        """Return the model's text for a prompt, held to a schema or, with None, not."""


def _may_be_the_schema(error: Exception) -> bool:
    """Return True if a model may have failed because of the schema: a bad request, or one that its
    client cannot send.
    """
    unsendable = isinstance(error, (TypeError, ValueError, NotImplementedError))
    return (unsendable or status_of(error) in (400, 422)) and not transient(error)


class CheckedLlm(CheckedModel):
    """Any object with `name` and `async complete(prompt, *, schema)`; a failure of its own becomes
    a ModelError.
    """

    method, kind = "complete", "a language model"

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt; text and plain dicts are brought into the schema.

        Raises:
            ModelUnavailable: it is away for now, or took too long.
            ModelError: the object failed, or answered what does not fit the schema.
            ConfigurationError: its `complete` is not async.
        """
        try:
            answer = await self.call(prompt, schema=schema)
        finally:  # a call that failed was made all the same
            count(calls=1)
        return await run_in_thread(
            len(answer) if isinstance(answer, str) else 0, shaped, answer, schema, self.called
        )


class ProviderModel(StructuredLlm):
    """A model of a provider; see `CheckedLlm` for time-outs and retries.

    Args:
        model: a LiteLLM model name; bare Gemini names will do.
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
    litellms: Any = message.get("provider_specific_fields") or {}
    if message.get("refusal") or litellms.get("refusal") or finish == "content_filter":
        raise ModelError(f"The model {name} refused to answer.")
    return str(message.get("content") or "")


def provider_llm(name: str, settings: MemorySettings) -> CheckedLlm:
    """Return a provider's model by its name, whose provider is not checked."""
    return CheckedLlm(ProviderModel(name), settings, ours=True)


def open_llm(choice: Any, settings: MemorySettings) -> Llm | None:
    """Return the model of a choice: None or False, a LiteLLM model name, or an object with
    `complete`.

    No model is loaded or called. The name of an uncommon provider imports LiteLLM: call this in a
    thread.

    Raises:
        ConfigurationError: the choice is of no known kind, or names no known provider.
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
