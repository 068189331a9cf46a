"""Language models through the real LiteLLM against a provider on loopback, and through user
objects.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from loopback import Loopback
from pydantic import BaseModel

from kagent_memory.errors import ModelError
from kagent_memory.models.llm import Llm, metered, open_llm
from kagent_memory.settings import MemorySettings

from .given import Given


class Facts(BaseModel):
    facts: list[str]


FULL = {
    "status": 400,
    "code": "context_length_exceeded",
    "message": "This model's maximum context length is 10",
}
TEA = '{"facts": ["likes tea"]}'


def opened(choice: Any = "openai/any", **options: Any) -> Llm:
    llm = open_llm(choice, MemorySettings().updated(options))
    assert llm is not None
    return llm


async def answered(choice: Any = "openai/any", **options: Any) -> Any:
    return await opened(choice, **options).complete("What do I like?", schema=Facts)


@pytest.mark.parametrize("model", ["openai/any", "hosted_vllm/any"])
async def test_the_schema_goes_out_and_its_object_comes_back(provider: Loopback, model: str):
    """The provider gets the schema, and its answer is returned as the object."""
    provider.plan(TEA)
    assert await answered(model) == Facts(facts=["likes tea"])
    (body,) = provider.bodies("/chat/completions")
    assert body["response_format"]["json_schema"]["name"] == "Facts"
    assert body["messages"][0]["content"].startswith("What do I like?")


async def test_who_refuses_schemas_is_asked_in_words(
    provider: Loopback,
):
    """A provider that refuses schemas gets them in words from then on."""
    provider.plan(
        {"status": 400, "message": "response_format is not supported"},
        f"Sure!\n```json\n{TEA}\n```",
        TEA,
    )
    llm = opened()
    for _ in range(2):
        assert (await llm.complete("What?", schema=Facts)).facts == ["likes tea"]
    schemas = ["response_format" in body for body in provider.bodies("/chat/completions")]
    assert schemas == [True, False, False]
    assert '"facts"' in provider.requests[1].body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("steps", "reason", "calls"),
    [
        (["You like tea."], "not JSON that fits Facts", 1),
        ([{"refusal": "I'm sorry"}], "refused", 1),
        ([{"finish": "content_filter", "then": ""}], "refused", 1),
        ([{"finish": "length", "then": '{"facts": ["a"'}], "cut off", 1),
        ([{"status": 401}], "openai/any", 1),
        ([FULL, FULL], "openai/any", 2),
        *([[{"status": status}] * 20, "openai/any", 3] for status in (429, 500, 503)),
    ],
)
async def test_no_answer_is_an_error_tried_again_if_it_may_pass(
    provider: Loopback, steps: list[Any], reason: str, calls: int
):
    """Garbage, a refusal or a truncated answer is an error at once; LiteLLM adds no retries."""
    provider.plan(*steps)
    with pytest.raises(ModelError, match=reason):
        await answered()
    assert len(provider.requests) == calls


async def test_meters_count_calls_and_tokens_of_the_code_they_enclose(provider: Loopback):
    """A meter counts the calls and tokens of its block, including inner meters and tasks."""
    provider.plan({"status": 400}, TEA, TEA)
    llm = opened()
    with metered() as whole:
        with metered() as first:
            await llm.complete("one two three", schema=Facts)
        await asyncio.create_task(llm.complete("one two three", schema=Facts))
    provider.plan(TEA)
    await llm.complete("outside of both", schema=Facts)
    assert (first.calls, whole.calls) == (1, 2)
    assert whole.tokens > first.tokens > 6


@pytest.mark.parametrize(
    "answer", [Facts(facts=["a"]), {"facts": ["a"]}, '{"facts": ["a"]}', ["a"]]
)
async def test_any_object_with_complete_serves_and_is_metered(answer: Any):
    """An object with `complete` serves as a model, with any form of answer, and is metered."""
    with metered() as meter:
        assert await answered(Given(answer)) == Facts(facts=["a"])
    assert meter.calls == 1


@pytest.mark.parametrize(
    "answer", [None, {}, {"facts": 1}, "none", 42, ValueError("boom"), Given("x")]
)
async def test_what_an_object_does_wrong_is_a_model_error(answer: Any):
    """A wrong answer or any error of a user object is a ModelError."""
    with pytest.raises(ModelError):
        await answered(Given(answer))


async def test_cancellation_passes_through_and_hanging_does_not():
    """A cancelled call stays cancelled, and a model that hangs is a ModelError."""
    with pytest.raises(asyncio.CancelledError):
        await answered(Given(asyncio.CancelledError()))

    class Hangs(Given):
        async def complete(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(60)

    with pytest.raises(ModelError, match="did not answer in time"):
        await answered(Hangs(None), model_timeout_seconds=0.05)
