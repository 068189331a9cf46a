"""Models that LiteLLM reaches."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from ...errors import ModelError, TruncatedAnswer
from ...settings import MemorySettings
from ..calls import NO_RETRIES, RetryPolicy, litellm, named, qualified, status_of, with_retries
from .meter import count_call
from .reply_parser import Answer, json_prompt, read_answer


class RefusedAnswer(ModelError):
    """The model refused: asking in other words would not mend it."""


class LiteLLMModel:
    """A model that LiteLLM reaches, held to the schema where it can be, else asked for JSON.

    Args:
        model: a LiteLLM model name; bare Gemini names will do.
        settings: time-out and retries.
    """

    def __init__(self, model: str, settings: MemorySettings) -> None:
        self.name = qualified(model, os.environ)
        self._patience = RetryPolicy(settings.llm_timeout_seconds, settings.model_retries)
        self._takes_schema = True

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """The answer to the prompt.

        A schema that the provider refuses, or ignores, is asked for once more in words.

        Raises:
            ModelUnavailable: it is away for now.
            TruncatedAnswer: it was cut off.
            ModelError: refused, or an answer that does not fit the schema.
            ConfigurationError: LiteLLM does not know the model's provider.
        """
        return await named(self._complete(prompt, schema), f"The model {self.name}", prompt)

    async def _complete(self, prompt: str, schema: type[Answer]) -> Answer:
        if not self._takes_schema:
            return await self._in_words(prompt, schema)
        try:
            return await read_answer(await self._text(prompt, schema), schema)
        except (RefusedAnswer, TruncatedAnswer):
            raise
        except ModelError:
            return await self._in_words(prompt, schema)
        except Exception as error:
            if not schema_refused(error):
                raise
        answer = await self._in_words(prompt, schema)
        self._takes_schema = False
        return answer

    async def _in_words(self, prompt: str, schema: type[Answer]) -> Answer:
        return await read_answer(await self._text(json_prompt(prompt, schema), None), schema)

    async def _text(self, prompt: str, schema: type[BaseModel] | None) -> str:
        module = await litellm()
        held = {"response_format": schema} if schema else {}
        response = await with_retries(
            lambda: module.acompletion(
                model=self.name,
                messages=[{"role": "user", "content": prompt}],
                timeout=self._patience.timeout_seconds,
                **NO_RETRIES,
                **held,
            ),
            self._patience,
        )
        usage = getattr(response, "usage", None)
        count_call(int(getattr(usage, "prompt_tokens", 0) or 0), int(getattr(usage, "completion_tokens", 0) or 0))
        return said(response, self.name)


def said(response: Any, name: str) -> str:
    """The text of a response.

    Raises:
        TruncatedAnswer: it was cut off.
        ModelError: there is none, or it is a refusal.
    """
    choice = response.choices[0] if response.choices else None
    if choice is None:
        raise ModelError(f"The model {name} returned no choices.")
    if choice.finish_reason == "length":
        raise TruncatedAnswer(
            f"The model {name} was cut off at its output limit; raise the limit, or send it less at once."
        )
    fields: dict[str, Any] = getattr(choice.message, "provider_specific_fields", None) or {}
    refusal = getattr(choice.message, "refusal", None) or fields.get("refusal")
    if refusal or choice.finish_reason == "content_filter":
        raise RefusedAnswer(f"The model {name} refused to answer.")
    return str(choice.message.content or "")


def schema_refused(error: BaseException) -> bool:
    """Whether a failure may be about the schema: a bad request, but no full context and no content policy."""
    other = {"ContextWindowExceededError", "ContentPolicyViolationError"}
    return status_of(error) in (400, 422) and type(error).__name__ not in other
