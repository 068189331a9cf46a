"""Embedding through the real LiteLLM against a provider on loopback, and through objects of
users.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from loopback import Loopback, vector

from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.models.embedding import (
    Embedder,
    open_embedder,
)
from kagent_memory.settings import MemorySettings

# of LiteLLM, about odd answers
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


def opened(choice: Any, **options: Any) -> Embedder:
    embedder = open_embedder(choice, MemorySettings().updated(options))
    assert embedder is not None
    return embedder


def rows_of(*rows: Sequence[Any]) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": number, "embedding": list(row)}
        for number, row in enumerate(rows)
    ]
    return {
        "json": {
            "object": "list",
            "model": "m",
            "data": data,
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }
    }


@pytest.mark.parametrize(
    "choice",
    ["openai/any", "hosted_vllm/any", "ollama/any", {"type": "openai", "model": "BAAI/bge-m3"}],
)
async def test_texts_become_float32_rows_in_their_order(provider: Loopback, choice: Any) -> None:
    """Each text becomes one float32 row, in the order given, whatever the provider."""
    rows = await opened(choice).embed(["green tea", "coffee"], kind="document")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [vector("green tea", 8), vector("coffee", 8)], rtol=1e-6)


async def test_a_base_url_is_enough_for_ones_own_server(
    provider: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of one's own needs a base URL and no key."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_API_BASE")
    config = {"provider": "openai", "model": "BAAI/bge-m3", "base_url": f"{provider.url}/"}
    await opened(config).embed(["tea"], kind="query")
    assert provider.bodies("/v1/embeddings")[0]["model"] == "BAAI/bge-m3"


@pytest.mark.parametrize("provider", ["litellm"], indirect=True)
async def test_azure_is_called_at_its_deployment_with_its_version(provider: Loopback) -> None:
    """Azure is called at the configured deployment, with a default version of its API."""
    config = {
        "provider": "azure_openai",
        "model": "m",
        "deployment": "dep",
        "endpoint": f"{provider.root}/",
    }
    rows = await opened(config).embed(["tea"], kind="query")
    assert (
        provider.requests[0].path
        == "/openai/deployments/dep/embeddings?api-version=2024-02-15-preview"
    )
    np.testing.assert_allclose(rows, [vector("tea", 8)], rtol=1e-6)


async def test_batches_keep_size_and_order(provider: Loopback) -> None:
    """Texts go out in batches, in their order; no texts make no call."""
    assert (await opened("openai/any").embed([], kind="document")).shape[0] == 0
    texts = [f"word{number}" for number in range(7)]
    rows = await opened("openai/any", batch_size=3).embed(texts, kind="document")
    assert [len(body["input"]) for body in provider.bodies("/embeddings")] == [3, 3, 1]
    np.testing.assert_allclose(rows, [vector(text, 8) for text in texts], rtol=1e-6)


async def test_rows_that_come_out_of_order_are_put_back(provider: Loopback) -> None:
    """Rows that a provider returns in another order are put back into that of the texts."""
    answer = rows_of([1.0, 0.0], [0.0, 1.0])
    answer["json"]["data"].reverse()
    provider.plan(answer)
    rows = await opened("openai/any").embed(["a", "b"], kind="document")
    assert rows.tolist() == [[1.0, 0.0], [0.0, 1.0]]


async def test_dimensions_are_asked_of_the_provider(provider: Loopback) -> None:
    """The wished number of dimensions is asked of the provider."""
    rows = await opened("openai/any", dimensions=4).embed(["tea"], kind="document")
    assert provider.bodies("/embeddings")[0]["dimensions"] == 4
    assert rows.shape == (1, 4)


async def test_refused_dimensions_are_cut_here(
    provider: Loopback,
) -> None:
    """A provider that refuses dimensions is asked without them, and its vectors are cut."""
    provider.takes_dimensions = False
    embedder = opened("openai/any", dimensions=6)
    for _ in range(2):
        rows = await embedder.embed(
            ["tea and milk and honey and lemon and ginger"], kind="document"
        )
        assert rows.shape == (1, 6)
        assert math.isclose(float(np.linalg.norm(rows[0])), 1.0, abs_tol=1e-6)
    assert ["dimensions" in body for body in provider.bodies("/embeddings")] == [True, False, False]


async def test_longer_vectors_are_cut_and_normalised(
    provider: Loopback,
) -> None:
    """Longer vectors are cut and normalised; those of the right width are left alone."""
    provider.plan(rows_of([3.0, 4.0, 12.0]), rows_of([3.0, 4.0]))
    embedder = opened("openai/any", dimensions=2)
    assert (await embedder.embed(["a"], kind="document")).tolist() == pytest.approx(
        np.array([[0.6, 0.8]])
    )
    assert (await embedder.embed(["a"], kind="document")).tolist() == [[3.0, 4.0]]


async def test_shorter_vectors_are_refused_with_advice(
    provider: Loopback,
) -> None:
    """Vectors that are too short are refused, and the error says what to set."""
    provider.plan(rows_of([1.0] * 64))
    with pytest.raises(
        ConfigurationError, match="64 dimensions, 768 were asked for; set dimensions to 64 or less"
    ):
        await opened("openai/any", dimensions=768).embed(["a"], kind="document")


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0], [float("nan"), 1.0]],
        [[1.0, 2.0], [float("inf"), 1.0]],
        [[1.0, 2.0], [1e300, 1.0]],
        [[1.0, 2.0], [0.0, 0.0]],
        [[1.0, 2.0], [1e-300, 0.0]],
        [[1.0, 2.0], [1.0]],
        [[1.0, 2.0]],
        [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]],
        [[], []],
        [[1.0, 2.0], ["x", "y"]],
    ],
    ids=str,
)
async def test_an_answer_that_cannot_be_stored_is_a_model_error(
    provider: Loopback, rows: list[list[Any]]
) -> None:
    """Vectors that are not finite, all zero, uneven, missing or too many are a model's error."""
    provider.plan(rows_of(*rows))
    with pytest.raises(ModelError):
        await opened("openai/any").embed(["a", "b"], kind="document")
    with pytest.raises(ModelError):
        await opened(Given(rows)).embed(["a", "b"], kind="document")


async def test_batches_of_different_widths_are_a_model_error(provider: Loopback) -> None:
    """Vectors of one call have one width, even where it takes several requests."""
    provider.plan(rows_of([1.0, 2.0]), rows_of([1.0, 2.0, 3.0]))
    with pytest.raises(ModelError, match="different widths"):
        await opened("openai/any", batch_size=1).embed(["a", "b"], kind="document")


class Given:
    name = "given"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.calls: list[tuple[list[str], str]] = []

    async def embed(self, texts: Sequence[str], *, kind: str) -> Any:
        self.calls.append((list(texts), kind))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer[: len(texts)] if isinstance(self.answer, np.ndarray) else self.answer


@pytest.mark.parametrize(
    "answer", [[[1, 2], [3, 4]], np.array([[1.0, 2.0], [3.0, 4.0]]), ([1.0, 2.0], (3, 4))]
)
async def test_any_object_with_embed_serves(answer: Any) -> None:
    """Any object with `embed` serves, and its numbers become float32."""
    given = Given(answer)
    rows = await opened(given).embed(("a", "b"), kind="query")
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert given.calls == [(["a", "b"], "query")]


async def test_an_objects_own_failure_is_a_model_error() -> None:
    """The failure of a user's embedder becomes a ModelError with its cause."""
    cause = RuntimeError("no GPU left")
    with pytest.raises(ModelError, match=r"given failed \(RuntimeError at") as caught:
        await opened(Given(cause)).embed(["a"], kind="query")
    assert caught.value.__cause__ is cause
