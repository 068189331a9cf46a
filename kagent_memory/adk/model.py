"""ADK's models as ours: an answer of the wanted shape from any `BaseLlm`, and a model for a job's name."""

from __future__ import annotations

import logging

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types
from pydantic import BaseModel

from ..errors import ModelError
from ..llm import Answer, CheckedLlm, Llm, count_call, json_prompt, parse_answer
from ..settings import MemorySettings

log = logging.getLogger("kagent_memory")


class _NoAnswerError(Exception):
    """The model failed, and asking in other words would not mend it."""


class AdkLlm:
    """An ADK model that answers with objects: held to the schema where it takes one, else asked for JSON in words."""

    def __init__(self, model: BaseLlm) -> None:
        self.model = model
        self.name = model.model
        self._takes_schema = True

    async def complete(self, prompt: str, *, schema: type[Answer]) -> Answer:
        """The answer to the prompt; a schema that the model refuses, or ignores, is asked for once more in words.

        Raises:
            ModelError: unavailable, or an answer that does not fit the schema.
        """
        refused = False
        if self._takes_schema:
            try:
                return parse_answer(await self._ask(prompt, schema), schema)
            except _NoAnswerError as error:
                raise ModelError(str(error)) from error.__cause__
            except ModelError:
                pass  # it answered prose: it is asked again in words, and may take the schema another time
            except Exception as error:
                if not _about_the_schema(error):
                    raise ModelError(f"The model {self.name} failed: {type(error).__name__}.") from error
                refused = True
        answer = await self._in_words(prompt, schema)
        self._takes_schema = self._takes_schema and not refused
        return answer

    async def _in_words(self, prompt: str, schema: type[Answer]) -> Answer:
        try:
            return parse_answer(await self._ask(json_prompt(prompt, schema), None), schema)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"The model {self.name} failed: {type(error).__name__}.") from error

    async def _ask(self, prompt: str, schema: type[BaseModel] | None) -> str:
        request = LlmRequest(
            model=self.name,
            contents=[types.Content(role="user", parts=[types.Part(text=prompt)])],
            config=types.GenerateContentConfig(
                response_schema=schema, response_mime_type="application/json" if schema else None
            ),
        )
        texts: list[str] = []
        async for response in self.model.generate_content_async(request, stream=False):
            if response.error_code:
                raise _NoAnswerError(f"The model {self.name} answered the error {response.error_code}.")
            texts += _texts(response)
        return "".join(texts)


def _texts(response: LlmResponse) -> list[str]:
    usage = response.usage_metadata
    if usage:
        count_call(usage.prompt_token_count or 0, usage.candidates_token_count or 0)
    parts = (response.content.parts if response.content else None) or []
    return [part.text for part in parts if part.text and not part.thought and not response.partial]


def _about_the_schema(error: Exception) -> bool:
    """Whether a failure may come from asking with a schema: a bad request, or a client that cannot express it."""
    status = getattr(error, "status_code", None) or getattr(error, "code", None)
    return status in (400, 422) or isinstance(error, (TypeError, ValueError, NotImplementedError))


def at_hand(model: BaseLlm, settings: MemorySettings) -> Llm:
    """An agent's own model, with our time-out."""
    return CheckedLlm(AdkLlm(model), settings)


def resolve_llm(name: str, settings: MemorySettings) -> Llm | None:
    """The model that ADK's registry knows by this name; None when it knows none."""
    try:
        model = LLMRegistry.new_llm(name)
    except Exception as error:  # registries and model classes fail in their own ways
        log.warning("ADK's registry cannot make the model %r: %s", name, type(error).__name__)
        return None
    return at_hand(model, settings)
