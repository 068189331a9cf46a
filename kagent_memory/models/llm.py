"""Language models: prompts answered with an object of the wanted shape, their calls counted."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias, cast

from pydantic import BaseModel

from ..concurrency import run_in_thread
from ..errors import ConfigurationError, ModelError, TruncatedAnswer
from ..settings import MemorySettings
from .calls import (
    MAX_RETRIES,
    NO_RETRIES,
    CheckedModel,
    call_model,
    check_provider,
    litellm,
    qualified,
)
from .failures import status_of
from .openai_api import Refused, endpoint
from .replies import Answer, json_prompt, read_answer, shaped


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


Ask: TypeAlias = Callable[[str, type[BaseModel] | None], Awaitable[str]]


class StructuredOutput:
    """Holds a model to a schema where it takes one; asks for JSON in words where it refuses or
    ignores it.

    Args:
        ask: the model's text for a prompt, held to a schema or, with None, not.
        refuses_schema: whether the cause of a `ModelError` of `ask` may be the schema.
    """

    def __init__(self, ask: Ask, refuses_schema: Callable[[BaseException], bool]) -> None:
        self._ask = ask
        self._refuses_schema = refuses_schema
        self._takes_schema = True

    async def complete(self, prompt: str, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt; after a schema was refused once, it is no longer sent.

        Raises:
            ModelError: `ask` failed for another reason, or the answer does not fit the schema.
        """
        refused = False
        if self._takes_schema:
            try:
                text = await self._ask(prompt, schema)
            except ModelError as error:
                if error.__cause__ is None or not self._refuses_schema(error.__cause__):
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

    method, kind = "complete", "a language model"

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


class ProviderModel:
    """A model of a provider, held to the schema where it can be, else asked for JSON.

    Args:
        model: a LiteLLM model name; bare Gemini names will do.
        settings: the time-out of one attempt.
        retries: further attempts after a failure that may pass.

    Raises:
        ConfigurationError: only LiteLLM could reach it, and is not installed.
    """

    def __init__(self, model: str, settings: MemorySettings, *, retries: int = MAX_RETRIES) -> None:
        self.name = qualified(model, os.environ)
        self._endpoint = endpoint(self.name, {}, os.environ)
        self._timeout_seconds = settings.model_timeout_seconds
        self._retries = retries
        self._output = StructuredOutput(self._text, schema_refused)

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """Return the answer to the prompt.

        A schema that the provider refuses, or ignores, is asked for once more in words.

        Raises:
            ModelUnavailable: it is away for now.
            TruncatedAnswer: it was cut off.
            ModelError: refused, or an answer that does not fit the schema.
            ConfigurationError: LiteLLM does not know the model's provider.
        """
        return await self._output.complete(prompt, schema)

    async def _text(self, prompt: str, schema: type[BaseModel] | None) -> str:
        messages = [{"role": "user", "content": prompt}]
        if self._endpoint is not None:
            held = {"response_format": json_format(schema)} if schema else {}
            body: dict[str, object] = {"messages": messages, **held}
            read = partial(json.loads, object_hook=lambda fields: SimpleNamespace(**fields))
            call = partial(
                self._endpoint.post, "/chat/completions", body, self._timeout_seconds, read
            )
        else:
            module = await litellm()
            call = partial(
                module.acompletion,
                model=self.name,
                messages=messages,
                response_format=schema,
                timeout=self._timeout_seconds,
                **NO_RETRIES,
            )
        response = await call_model(
            call,
            f"The model {self.name}",
            timeout_seconds=self._timeout_seconds,
            retries=self._retries,
        )
        usage = getattr(response, "usage", None)
        count_call(
            int(getattr(usage, "prompt_tokens", 0) or 0),
            int(getattr(usage, "completion_tokens", 0) or 0),
        )
        return response_text(response, self.name)


def json_format(schema: type[BaseModel]) -> dict[str, object]:
    """Return OpenAI's `response_format` for a schema: every field is required, and no other is
    allowed.
    """
    whole = strict(schema.model_json_schema())
    return {
        "type": "json_schema",
        "json_schema": {"name": schema.__name__, "schema": whole, "strict": True},
    }


def strict(schema: Any) -> Any:
    """Return a JSON schema as OpenAI's strict mode wants it."""
    if isinstance(schema, list):
        return [strict(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    stated = {name: strict(one) for name, one in given.items() if (name, one) != ("default", None)}
    if isinstance(fields := stated.get("properties"), dict):
        stated |= {"required": list(cast("dict[str, Any]", fields)), "additionalProperties": False}
    return stated


def response_text(response: Any, name: str) -> str:
    """Return the text of a response.

    Raises:
        TruncatedAnswer: it was cut off.
        ModelError: it is a refusal, or there is none.
    """
    choice = response.choices[0] if getattr(response, "choices", None) else None
    if choice is None:
        raise ModelError(f"The model {name} returned no choices.")
    finish = getattr(choice, "finish_reason", None)
    if finish == "length":
        raise TruncatedAnswer(
            f"The model {name} was cut off at its output limit; raise the limit, or send it "
            "less at once."
        )
    given: Any = getattr(choice.message, "provider_specific_fields", None)
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    refusal = getattr(choice.message, "refusal", None) or fields.get("refusal")
    if refusal or finish == "content_filter":
        raise ModelError(f"The model {name} refused to answer.")
    return str(getattr(choice.message, "content", None) or "")


def schema_refused(error: BaseException) -> bool:
    """Return True if a failure may be about the schema: a bad request, but no full context and no
    content policy.
    """
    other = {
        "ContextWindowExceededError",
        "ContentPolicyViolationError",
        "context_length_exceeded",
        "content_filter",
    }
    kind = error.kind if isinstance(error, Refused) else type(error).__name__
    return status_of(error) in (400, 422) and kind not in other


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
        model = ProviderModel(choice, settings)
        check_provider(model.name)
        return model
    return (
        choice if isinstance(choice, (ProviderModel, CheckedLlm)) else CheckedLlm(choice, settings)
    )
