"""Models of providers: through LiteLLM where it is installed, else directly where they speak
OpenAI's way.
"""

from __future__ import annotations

import json
import os
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from pydantic import BaseModel

from ...errors import ModelError, TruncatedAnswer
from ...settings import MemorySettings
from ..calls import (
    MAX_RETRIES,
    NO_RETRIES,
    litellm,
    named,
    qualified,
    status_of,
    with_retries,
)
from ..openai_api import Refused, endpoint
from .asking import StructuredOutput, count_call
from .reply_parser import Answer


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
        return await named(self._output.complete(prompt, schema), f"The model {self.name}")

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
        response = await with_retries(call, self._timeout_seconds, self._retries)
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


def schema_refused(error: Exception) -> bool:
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
