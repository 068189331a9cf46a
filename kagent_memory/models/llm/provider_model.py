"""Models of providers: through LiteLLM where it is installed, else directly where they speak OpenAI's way."""

from __future__ import annotations

import json
import os
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from pydantic import BaseModel

from ...errors import ModelError, TruncatedAnswer
from ...settings import MemorySettings
from ..calls import MAX_RETRIES, NO_RETRIES, RetryPolicy, litellm, named, qualified, status_of, with_retries
from ..openai_api import Refused, endpoint
from .meter import count_call
from .reply_parser import Answer
from .structured_output import FinalFailure, StructuredOutput


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
        self._retry = RetryPolicy(settings.model_timeout_seconds, retries)
        self._output = StructuredOutput(self._text, schema_refused)

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """The answer to the prompt.

        A schema that the provider refuses, or ignores, is asked for once more in words.

        Raises:
            ModelUnavailable: it is away for now.
            TruncatedAnswer: it was cut off.
            ModelError: refused, or an answer that does not fit the schema.
            ConfigurationError: LiteLLM does not know the model's provider.
        """
        return await named(self._output.complete(prompt, schema), f"The model {self.name}", prompt)

    async def _text(self, prompt: str, schema: type[BaseModel] | None) -> str:
        messages = [{"role": "user", "content": prompt}]
        if (direct := self._endpoint) is not None:
            body: dict[str, object] = {
                "messages": messages,
                **({"response_format": json_format(schema)} if schema else {}),
            }
            read = partial(json.loads, object_hook=lambda fields: SimpleNamespace(**fields))
            response = await with_retries(
                lambda: direct.post("/chat/completions", body, self._retry.timeout_seconds, read), self._retry
            )
        else:
            module = await litellm()
            held = {"response_format": schema} if schema else {}
            response = await with_retries(
                lambda: module.acompletion(
                    model=self.name, messages=messages, timeout=self._retry.timeout_seconds, **NO_RETRIES, **held
                ),
                self._retry,
            )
        usage = getattr(response, "usage", None)
        count_call(int(getattr(usage, "prompt_tokens", 0) or 0), int(getattr(usage, "completion_tokens", 0) or 0))
        return response_text(response, self.name)


def json_format(schema: type[BaseModel]) -> dict[str, object]:
    """What holds a model to a schema, in OpenAI's words: every field is asked for, and no other is allowed."""
    whole = strict(schema.model_json_schema())
    return {"type": "json_schema", "json_schema": {"name": schema.__name__, "schema": whole, "strict": True}}


def strict(schema: Any) -> Any:
    """A JSON schema as OpenAI's strict mode wants it."""
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
    """The text of a response.

    Raises:
        FinalFailure: it was cut off, or is a refusal.
        ModelError: there is none.
    """
    choice = response.choices[0] if getattr(response, "choices", None) else None
    if choice is None:
        raise ModelError(f"The model {name} returned no choices.")
    finish = getattr(choice, "finish_reason", None)
    if finish == "length":
        told = f"The model {name} was cut off at its output limit; raise the limit, or send it less at once."
        raise FinalFailure(TruncatedAnswer(told))
    given: Any = getattr(choice.message, "provider_specific_fields", None)
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    refusal = getattr(choice.message, "refusal", None) or fields.get("refusal")
    if refusal or finish == "content_filter":
        raise FinalFailure(ModelError(f"The model {name} refused to answer."))
    return str(getattr(choice.message, "content", None) or "")


def schema_refused(error: Exception) -> bool:
    """Whether a failure may be about the schema: a bad request, but no full context and no content policy."""
    other = {"ContextWindowExceededError", "ContentPolicyViolationError", "context_length_exceeded", "content_filter"}
    kind = error.kind if isinstance(error, Refused) else type(error).__name__
    return status_of(error) in (400, 422) and kind not in other
