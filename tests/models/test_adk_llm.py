"""ADK's models behind the Llm interface."""

from __future__ import annotations

from typing import Any

import pytest
from adk.scripted import scripted, texts
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types
from pydantic import BaseModel

from kagent_memory import MemorySettings, ModelError
from kagent_memory.adk.adk_llm import checked_llm
from kagent_memory.errors import ModelUnavailable, TruncatedAnswer
from kagent_memory.models.llm import metered

SAID = '{"facts": ["a"]}'
WHOLE = types.Content(role="model", parts=[types.Part(text=SAID)])
STOP, CUT = types.FinishReason.STOP, types.FinishReason.MAX_TOKENS


class Answer(BaseModel):
    facts: list[str]


async def answered(model: BaseLlm) -> list[str]:
    return (await checked_llm(model, MemorySettings()).complete("p", schema=Answer)).facts


async def test_a_model_that_takes_a_schema_is_held_to_it():
    """A model that accepts a schema is called once, with it."""
    model = scripted(SAID)
    assert await answered(model) == ["a"]
    (request,) = model.requests
    assert request.config.response_schema is Answer
    assert request.config.response_mime_type == "application/json"


async def test_a_model_without_schemas_is_asked_in_words():
    """A model that refuses a schema gets it in words from then on."""

    def refuses(request: LlmRequest) -> Any:
        return NotImplementedError("no schema") if request.config.response_schema else SAID

    model = scripted(refuses, refuses, refuses)
    llm = checked_llm(model, MemorySettings())
    for _ in range(2):
        assert (await llm.complete("p", schema=Answer)).facts == ["a"]
    schemas = [bool(request.config.response_schema) for request in model.requests]
    assert schemas == [True, False, False]
    assert '"facts"' in texts(model.requests[-1])[0]


class Answering(BaseLlm):
    """A model that gives ADK one response."""

    fields: dict[str, Any]

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        yield LlmResponse(**self.fields)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"error_code": CUT}, TruncatedAnswer),
        ({"content": WHOLE, "finish_reason": CUT}, TruncatedAnswer),
        ({"content": WHOLE, "finish_reason": types.FinishReason.SAFETY}, ModelError),
        ({"content": WHOLE, "finish_reason": types.FinishReason.RECITATION}, ModelError),
        ({"error_code": "SAFETY", "error_message": "Ada said …"}, ModelError),
        ({"error_code": "UNAVAILABLE"}, ModelUnavailable),
        ({"error_code": "Ada said that she lives in Oslo"}, ModelError),
    ],
)
async def test_an_answer_that_adk_marks_as_cut_or_refused_is_none(
    fields: dict[str, Any], kind: type
):
    """A truncated or refused answer is an error that quotes nothing."""
    with pytest.raises(ModelError) as caught:
        await answered(Answering(model="answering", fields=fields))
    assert type(caught.value) is kind
    assert "Ada" not in str(caught.value)


AWAY, REFUSED = ModelUnavailable, errors.ClientError(400, {"error": {"message": "Ada said …"}})


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        (["no"], ModelError),
        ([ConnectionError("Ada said …")], AWAY),
        ([TimeoutError()], AWAY),
        ([errors.ServerError(503, {"error": {"message": "m"}})], AWAY),
        ([errors.ClientError(429, {"error": {"message": "m"}})], AWAY),
        ([REFUSED, REFUSED], ModelError),
    ],
)
async def test_a_failure_is_a_model_error_at_once(steps: list[Any], kind: type):
    """An outage is transient, a refusal is not; neither is retried or quoted."""
    model = scripted(*steps)
    with pytest.raises(ModelError) as caught:
        await answered(model)
    assert type(caught.value) is kind
    assert len(model.requests) == len(steps)
    assert "Ada" not in str(caught.value)


async def test_tokens_are_counted():
    """A complete answer is used, and its tokens are counted."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=7, candidates_token_count=3
    )
    whole = {"content": WHOLE, "finish_reason": STOP, "usage_metadata": usage}
    with metered() as meter:
        assert await answered(Answering(model="answering", fields=whole)) == ["a"]
    assert (meter.calls, meter.tokens) == (1, 10)
