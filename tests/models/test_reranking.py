"""Rerankers through the real LiteLLM against a provider on loopback, and through user objects."""

from __future__ import annotations

from typing import Any

import pytest
from loopback import Loopback

from kagent_memory.errors import ModelError
from kagent_memory.models.reranking import Reranker, open_reranker
from kagent_memory.settings import MemorySettings

from .given import Given

DOCUMENTS = ("black coffee", "green tea", "green tea with milk")


def opened(choice: Any, seconds: float = 60) -> Reranker:
    # the first call of a process imports LiteLLM, which takes longer than a search waits
    reranker = open_reranker(choice, MemorySettings(search_timeout_seconds=seconds))
    assert reranker is not None
    return reranker


def at(provider: Loopback, seconds: float = 60) -> Reranker:
    return opened({"model": "hosted_vllm/any", "api_base": provider.url}, seconds)


@pytest.mark.parametrize(
    ("model", "base", "path"),
    [
        ("hosted_vllm/any", "url", "/v1/rerank"),
        ("jina_ai/any", "url", "/v1/rerank"),
        ("cohere/any", "root", "/v2/rerank"),
        ("infinity/any", "url", "/v1/rerank"),
    ],
)
async def test_scores_come_in_the_order_of_the_documents(
    provider: Loopback, model: str, base: str, path: str
):
    """Scores are in the order of the documents, although a provider sorts them by relevance."""
    reranker = opened({"model": model, "api_base": getattr(provider, base)})
    assert await reranker.rerank("tea milk", DOCUMENTS) == [0.0, 0.5, 1.0]
    (request,) = provider.requests
    assert request.path == path
    assert (request.body["query"], request.body["documents"]) == ("tea milk", list(DOCUMENTS))


SCORED = [{"index": number, "relevance_score": 1.0} for number in (0, 1, 7)]
UNSCORED = [{"index": number, "relevance_score": float("nan")} for number in (0, 1, 2)]


@pytest.mark.parametrize(
    "step",
    [
        *({"status": status} for status in (401, 429, 500)),
        *(
            {"json": {"id": "1", "results": results, "meta": {}, "usage": {"total_tokens": 1}}}
            for results in ([], SCORED[:1], SCORED[:1] * 3, SCORED, UNSCORED)
        ),
    ],
)
async def test_a_failure_is_a_model_error_at_once(provider: Loopback, step: Any):
    """A reranker that fails, or does not score each document once, is called once, and its error
    names the model.
    """
    provider.plan(step)
    with pytest.raises(ModelError, match="hosted_vllm/any"):
        await at(provider).rerank("tea", DOCUMENTS)
    assert len(provider.requests) == 1


async def test_any_object_with_rerank_serves(provider: Loopback):
    """An object with `rerank` serves as a reranker, with any type of number."""
    assert await opened(Given((1, 0.5, 2))).rerank("tea", DOCUMENTS) == [1.0, 0.5, 2.0]
