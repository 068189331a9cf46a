"""Adapt ADK's models to ours: structured answers from any `BaseLlm`, and models by name."""

from __future__ import annotations

import logging
import re

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel
from typing_extensions import override

from ..errors import ModelError, ModelUnavailable, TruncatedAnswer
from ..models.calls import litellm
from ..models.llm import CheckedLlm, Llm, StructuredLlm, count
from ..settings import MemorySettings
from .converter import text_of

log = logging.getLogger("kagent_memory")


_COMPLETE = frozenset({None, types.FinishReason.STOP, types.FinishReason.FINISH_REASON_UNSPECIFIED})
_TRANSIENT = frozenset(
    {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "ABORTED"}
)
_ERROR_CODE = re.compile(r"[\w-]{1,60}")


class AdkLlm(StructuredLlm):
    """An ADK model that answers with objects of a schema; see `CheckedLlm` for time-out and
    errors.
    """

    def __init__(self, model: BaseLlm) -> None:
        self.model = model
        self.name = model.model
        self._is_litellms = any(kind.__name__ == "LiteLlm" for kind in type(model).__mro__)

    @override
    async def ask(self, prompt: str, schema: type[BaseModel] | None) -> str:
        if self._is_litellms:
            await litellm()  # imports it in a thread and configures it, before ADK's model would
        request = LlmRequest(
            model=self.name,
            contents=[types.Content(role="user", parts=[types.Part(text=prompt)])],
            config=types.GenerateContentConfig(
                response_schema=schema, response_mime_type="application/json" if schema else None
            ),
        )
        texts = list[str]()
        async for response in self.model.generate_content_async(request, stream=False):
            problem = str(response.error_code or "").rpartition(".")[2]
            if not problem and response.finish_reason not in _COMPLETE:
                problem = str(getattr(response.finish_reason, "name", "no reason"))
            if problem:
                raise self._error(problem)
            if usage := response.usage_metadata:
                count(tokens=(usage.prompt_token_count or 0) + (usage.candidates_token_count or 0))
            if not response.partial:
                texts.append(text_of(response.content, between=""))
        return "".join(texts)

    def _error(self, problem: str) -> ModelError:
        """Return the error for a problem that ADK reports."""
        if problem == types.FinishReason.MAX_TOKENS.name:
            return TruncatedAnswer(f"The model {self.name} was cut off at its output limit.")
        code = problem if _ERROR_CODE.fullmatch(problem) else "an error"
        is_transient = code in _TRANSIENT or code.startswith("5") or code == "429"
        kind = ModelUnavailable if is_transient else ModelError
        return kind(f"The model {self.name} answered the error {code}.")


def checked_llm(model: BaseLlm, settings: MemorySettings) -> Llm:
    """Return an ADK model with our time-out and our errors."""
    return CheckedLlm(AdkLlm(model), settings)


def resolve_llm(name: str, settings: MemorySettings) -> Llm | None:
    """Return the model of this name in ADK's registry, or None."""
    try:
        model = LLMRegistry.new_llm(name)
    except Exception as error:  # registries and model classes fail in their own ways
        log.warning("ADK's registry cannot make the model %r: %s", name, type(error).__name__)
        return None
    return checked_llm(model, settings)
