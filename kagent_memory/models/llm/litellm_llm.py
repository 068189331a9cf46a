"""Models that LiteLLM reaches."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from ...errors import ModelError, TruncatedAnswer
from ...settings import MemorySettings
from ..calls import NO_RETRIES, RetryPolicy, check_litellm, litellm, named, qualified, status_of, with_retries
from .meter import count_call
from .reply_parser import Answer
from .structured_output import FinalFailure, StructuredOutput


class LiteLLMModel:
    """A model that LiteLLM reaches, held to the schema where it can be, else asked for JSON.

    Args:
        model: a LiteLLM model name; bare Gemini names will do.
        settings: time-out and retries.

    Raises:
        ConfigurationError: LiteLLM is not installed.
    """

    def __init__(self, model: str, settings: MemorySettings) -> None:
        self.name = qualified(model, os.environ)
        check_litellm(f"The model {self.name}")
        self._retry = RetryPolicy(settings.llm_timeout_seconds, settings.model_retries)
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
        module = await litellm()
        held = {"response_format": schema} if schema else {}
        response = await with_retries(
            lambda: module.acompletion(
                model=self.name,
                messages=[{"role": "user", "content": prompt}],
                timeout=self._retry.timeout_seconds,
                **NO_RETRIES,
                **held,
            ),
            self._retry,
        )
        usage = getattr(response, "usage", None)
        count_call(int(getattr(usage, "prompt_tokens", 0) or 0), int(getattr(usage, "completion_tokens", 0) or 0))
        return response_text(response, self.name)


def response_text(response: Any, name: str) -> str:
    """The text of a response.

    Raises:
        FinalFailure: it was cut off, or is a refusal.
        ModelError: there is none.
    """
    choice = response.choices[0] if response.choices else None
    if choice is None:
        raise ModelError(f"The model {name} returned no choices.")
    if choice.finish_reason == "length":
        told = f"The model {name} was cut off at its output limit; raise the limit, or send it less at once."
        raise FinalFailure(TruncatedAnswer(told))
    fields: dict[str, Any] = getattr(choice.message, "provider_specific_fields", None) or {}
    refusal = getattr(choice.message, "refusal", None) or fields.get("refusal")
    if refusal or choice.finish_reason == "content_filter":
        raise FinalFailure(ModelError(f"The model {name} refused to answer."))
    return str(choice.message.content or "")


def schema_refused(error: Exception) -> bool:
    """Whether a failure may be about the schema: a bad request, but no full context and no content policy."""
    other = {"ContextWindowExceededError", "ContentPolicyViolationError"}
    return status_of(error) in (400, 422) and type(error).__name__ not in other
