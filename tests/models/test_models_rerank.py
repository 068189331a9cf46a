"""Rerankers through the real LiteLLM against a provider on loopback, and through objects of
users.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import optional
import pytest
from loopback import Loopback

from kagent_memory.errors import ModelError
from kagent_memory.models.reranking import Reranker, open_reranker
from kagent_memory.settings import MemorySettings

DOCUMENTS = ("black coffee", "green tea", "green tea with milk")


def opened(choice: Any, **options: Any) -> Reranker:
    # the first call of a process imports LiteLLM, which takes longer than a search waits
    settings = MemorySettings().updated({"search_timeout_seconds": 60, **options})
    reranker = open_reranker(choice, settings)
    assert reranker is not None
    return reranker


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
) -> None:
    """Scores stand in the order of the documents, though a provider sorts by relevance."""
    reranker = opened({"model": model, "api_base": getattr(provider, base)})
    assert await reranker.rerank("tea milk", DOCUMENTS) == [0.0, 0.5, 1.0]
    (request,) = provider.requests
    assert request.path == path
    assert (request.body["query"], request.body["documents"]) == ("tea milk", list(DOCUMENTS))


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_a_failure_is_a_model_error_at_once(provider: Loopback, status: int) -> None:
    """A reranker that fails is asked once, and its error names the model."""
    provider.plan({"status": status})
    with pytest.raises(ModelError, match="cohere/any"):
        await opened({"model": "cohere/any", "api_base": provider.root}).rerank("tea", DOCUMENTS)
    assert len(provider.requests) == 1


async def test_a_slow_reranker_is_given_up(provider: Loopback) -> None:
    """A reranker slower than the search may take is given up as a model's error."""
    provider.plan({"delay": 60})
    reranker = opened(
        {"model": "hosted_vllm/any", "api_base": provider.url}, search_timeout_seconds=0.2
    )
    with pytest.raises(ModelError):
        await reranker.rerank("tea", DOCUMENTS)


@pytest.mark.parametrize(
    "results",
    [
        [],
        [{"index": 0, "relevance_score": 1.0}],
        [{"index": 0, "relevance_score": 1.0}] * 3,
        [{"index": number, "relevance_score": 1.0} for number in (0, 1, 7)],
        [{"index": number, "relevance_score": float("nan")} for number in (0, 1, 2)],
    ],
)
async def test_each_document_must_have_one_score(provider: Loopback, results: list[Any]) -> None:
    """An answer that does not score each document once is a ModelError."""
    provider.plan(
        {"json": {"id": "1", "results": results, "meta": {}, "usage": {"total_tokens": 1}}}
    )
    with pytest.raises(ModelError):
        await opened({"model": "hosted_vllm/any", "api_base": provider.url}).rerank(
            "tea", DOCUMENTS
        )


class Given:
    name = "given"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def rerank(self, query: str, documents: Sequence[str]) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


async def test_any_object_with_rerank_serves() -> None:
    """An object with `rerank` serves as a reranker, whatever numbers it returns."""
    assert await opened(Given((1, 0.5, 2))).rerank("tea", DOCUMENTS) == [1.0, 0.5, 2.0]


def test_the_choice_decides_the_kind() -> None:
    """A name tells whether a reranker runs here or at a provider."""
    optional.package("onnxruntime")
    assert opened("local/cross-encoder/ms-marco-MiniLM-L6-v2").name.startswith(
        "local/cross-encoder/"
    )
    assert opened("cross-encoder/ms-marco-MiniLM-L6-v2").name.startswith("local/cross-encoder/")
    assert opened("cohere/rerank-v3.5").name == "cohere/rerank-v3.5"
