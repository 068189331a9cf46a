"""Embedding through the real LiteLLM against a provider on loopback, and through user objects;
refused texts, singly and in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from loopback import Loopback, vector
from memories import opening
from memories.opening import ADA

from kagent_memory.errors import ConfigurationError, ModelError, ModelUnavailable
from kagent_memory.models.embedding import CheckedEmbedder, Embedder, open_embedder
from kagent_memory.settings import MemorySettings
from kagent_memory.stores.values import MemoryQuery
from kagent_memory.testing import HashEmbedder

from .given import Given

# of LiteLLM, about odd answers
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
LONG = " ".join(f"Chapter {number} is about the tide and the ferry." for number in range(60))


def opened(choice: Any = "openai/any", **options: Any) -> Embedder:
    embedder = open_embedder(choice, MemorySettings().updated(options))
    assert embedder is not None
    return embedder


def rows_of(*rows: Sequence[Any]) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": number, "embedding": list(row)}
        for number, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"json": {"object": "list", "model": "m", "data": data, "usage": usage}}


@pytest.mark.parametrize(
    "choice",
    ["openai/any", "hosted_vllm/any", "ollama/any", {"type": "openai", "model": "BAAI/bge-m3"}],
)
async def test_texts_become_float32_rows_in_their_order(provider: Loopback, choice: Any):
    """Each text becomes one float32 row, in the order given, whatever the provider."""
    rows = await opened(choice).embed(["green tea", "coffee"], kind="document")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [vector("green tea", 8), vector("coffee", 8)], rtol=1e-6)


@pytest.mark.parametrize("address", ["base_url", "endpoint"])
async def test_an_address_is_enough_for_ones_own_server(
    provider: Loopback, monkeypatch: pytest.MonkeyPatch, address: str
):
    """An embedder with an address needs no key."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_API_BASE")
    config = {"provider": "openai", "model": "BAAI/bge-m3", address: f"{provider.url}/"}
    await opened(config).embed(["tea"], kind="query")
    assert provider.bodies("/v1/embeddings")[0]["model"] == "BAAI/bge-m3"


async def test_azure_is_called_at_its_deployment_with_its_version(provider: Loopback):
    """Azure is called at the configured deployment, with a default version of its API."""
    azure = {"provider": "azure_openai", "model": "m", "deployment": "dep"}
    rows = await opened({**azure, "endpoint": f"{provider.root}/"}).embed(["tea"], kind="query")
    (request,) = provider.requests
    assert request.path == "/openai/deployments/dep/embeddings?api-version=2024-02-15-preview"
    np.testing.assert_allclose(rows, [vector("tea", 8)], rtol=1e-6)


@pytest.mark.parametrize("kind", ["document", "query"])
async def test_documents_and_queries_are_told_apart(monkeypatch: pytest.MonkeyPatch, kind: Any):
    """Documents and queries are marked as such for providers that distinguish them."""
    kinds: list[Any] = []

    class LiteLLM:
        @staticmethod
        async def aembedding(**arguments: Any) -> Any:
            kinds.append(arguments.get("input_type"))
            return {"data": [{"embedding": [1.0]}]}

    monkeypatch.setattr("kagent_memory.models.calls.load_litellm", lambda: LiteLLM)
    for model in ("cohere/embed-v4", "voyage/voyage-3", "openai/any"):
        await opened(model).embed(["tea"], kind=kind)
    assert kinds == [f"search_{kind}", kind, None]


async def test_batches_keep_size_and_order(provider: Loopback):
    """Texts go out in batches, and rows come in their order, however a provider returns them."""
    embedder = opened(batch_size=3)
    assert len(await embedder.embed([], kind="document")) == 0
    texts = [f"word{number}" for number in range(7)]
    first = rows_of(*(vector(text, 8) for text in texts[:3]))
    first["json"]["data"].reverse()
    provider.plan(first)
    rows = await embedder.embed(texts, kind="document")
    assert [len(body["input"]) for body in provider.bodies("/embeddings")] == [3, 3, 1]
    np.testing.assert_allclose(rows, [vector(text, 8) for text in texts], rtol=1e-6)


@pytest.mark.parametrize("takes", [True, False])
async def test_dimensions_are_asked_of_the_provider(provider: Loopback, takes: bool):
    """A provider that refuses dimensions is asked without them from then on, and its vectors are
    cut and brought to length 1.
    """
    provider.takes_dimensions = takes
    embedder = opened(dimensions=6)
    for _ in range(2):
        rows = await embedder.embed(["tea and milk and honey and lemon"], kind="document")
        assert rows.shape == (1, 6)
        assert np.linalg.norm(rows[0]) == pytest.approx(1)
    sent = ["dimensions" in body for body in provider.bodies("/embeddings")]
    assert sent == ([True, True] if takes else [True, False, False])


async def test_vectors_are_brought_to_the_wanted_width(provider: Loopback):
    """Longer vectors are cut and normalised, vectors of the right width unchanged, and shorter ones
    refused with advice.
    """
    provider.plan(rows_of([3.0, 4.0, 12.0]), rows_of([3.0, 4.0]), rows_of([1.0]))
    embedder = opened(dimensions=2)
    for expected in ([0.6, 0.8], [3.0, 4.0]):
        [row] = await embedder.embed(["a"], kind="document")
        assert row.tolist() == pytest.approx(expected)
    message = "1 dimensions, 2 were asked for; set dimensions to 1 or less"
    with pytest.raises(ConfigurationError, match=message):
        await embedder.embed(["a"], kind="document")


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0], [float("nan"), 1.0]],
        [[1.0, 2.0], [1e300, 1.0]],
        [[1.0, 2.0], [0.0, 0.0]],
        [[1.0, 2.0], [0.0, 3.0]],
        [[1.0, 2.0], [1.0]],
        [[1.0, 2.0]],
        [[1.0, 2.0]] * 3,
        [[], []],
        [[1.0, 2.0], ["x", "y"]],
    ],
    ids=str,
)
async def test_an_answer_that_cannot_be_stored_is_a_model_error(
    provider: Loopback, rows: list[list[Any]]
):
    """Vectors that are not finite, all zero (also after the cut), uneven, missing or surplus are a
    ModelError.
    """
    provider.plan(rows_of(*rows))
    for choice in ("openai/any", Given(rows)):
        with pytest.raises(ModelError):
            await opened(choice, dimensions=1).embed(["a", "b"], kind="document")


KEY = "sk-proj-" + "a1B2" * 12


@pytest.mark.parametrize(
    "step",
    [
        *({"json": odd} for odd in (None, [], {}, {"data": None}, {"data": [1]})),
        {"json": {"data": [{"embedding": "tea"}]}},
        {"status": 400, "message": f"Bad: my secret garden; {KEY}"},
    ],
    ids=repr,
)
async def test_an_odd_answer_or_refusal_quotes_nothing(provider: Loopback, step: Any):
    """An answer of another shape, or a refusal, is a ModelError that quotes neither the text nor a
    key.
    """
    provider.plan(*[step] * 3)
    with pytest.raises(ModelError) as caught:
        await opened().embed(["my secret garden"], kind="document")
    assert not any(secret in str(caught.value) for secret in ("garden", "not-a-key", KEY))


async def test_batches_of_different_widths_are_a_model_error(provider: Loopback):
    """The vectors of one call must have one width, also across several requests."""
    provider.plan(rows_of([1.0, 2.0]), rows_of([1.0, 2.0, 3.0]))
    with pytest.raises(ModelError, match="different widths"):
        await opened(batch_size=1).embed(["a", "b"], kind="document")


async def test_an_objects_own_failure_is_a_model_error():
    """The failure of a user's embedder becomes a ModelError with its cause."""
    cause = RuntimeError("no GPU left")
    with pytest.raises(ModelError, match=r"given failed \(RuntimeError at") as caught:
        await opened(Given(cause)).embed(["a"], kind="query")
    assert caught.value.__cause__ is cause


# -- refusals ------------------------------------------------------------------------------------


class Picky(HashEmbedder):
    """An embedder that refuses a call with a long text or a certain word."""

    def __init__(self, most_chars: int = 1000, unwanted: str = "\0") -> None:
        super().__init__(name="picky")
        self.most_chars, self.unwanted = most_chars, unwanted
        self.away_after = 1_000_000

    async def embed(self, texts: Sequence[str], *, kind: Any) -> Any:
        if len(self.calls) >= self.away_after:
            raise ModelUnavailable("The embedder is away.")
        answer = await super().embed(texts, kind=kind)
        if any(len(text) > self.most_chars or self.unwanted in text for text in texts):
            raise ModelError("The input is too long.")
        return answer


async def embedded(embedder: HashEmbedder, texts: list[str]) -> list[Any]:
    return await CheckedEmbedder(embedder, MemorySettings()).embed_each(texts, kind="document")


async def test_refused_text_costs_its_batch_nothing():
    """A refused text gets the mean vector of its parts, and the others of its batch the vectors
    that they get alone.
    """
    texts = [f"Memory {number}" for number in range(20)] + [LONG]
    rows = await embedded(picky := Picky(), texts)
    alone = await HashEmbedder().embed(texts, kind="document")
    assert all(
        np.array_equal(row, expected) for row, expected in zip(rows[:-1], alone[:-1], strict=True)
    )
    assert rows[-1] @ alone[-1] / np.linalg.norm(rows[-1]) > 0.9
    assert len(picky.calls) < 20


async def test_text_refused_however_short_has_no_vector():
    """A text refused in its shortest part gets no vector, and the others of its batch get
    theirs.
    """
    rows = await embedded(Picky(unwanted="forbidden"), ["fine", "a forbidden word", "fine as well"])
    assert [row is None for row in rows] == [False, True, False]


@pytest.mark.parametrize(
    ("most_chars", "away_after", "error", "calls"),
    [(0, 1_000_000, ModelError, 2), (1000, 4, ModelUnavailable, 4)],
    ids=["refuses everything", "goes away"],
)
async def test_an_embedder_that_is_no_use_is_asked_no_more(
    most_chars: int, away_after: int, error: type[ModelError], calls: int
):
    """An embedder that refuses every text or becomes unavailable is not called for each text."""
    picky = Picky(most_chars)
    picky.away_after = away_after
    with pytest.raises(error):
        await embedded(picky, ["one", "two", "three", LONG])
    assert len(picky.calls) == calls


async def test_memories_beside_refused_ones_have_vectors():
    """More refused texts than a batch holds do not stop the embedding of others, and a search
    reports the number of memories found by words alone.
    """
    picky = Picky(unwanted="forbidden")
    picky.away_after = 0
    async with await opening.opened(embedding=picky) as memories:
        await memories.add(ADA, [f"A forbidden word, {number}." for number in range(300)])
        await memories.add(ADA, ["Ada rows at dawn."])
        picky.away_after = 1_000_000
        await memories.work(until_idle=True)
        assert not await memories.jobs()
        answer = await memories.recall(ADA, "dawn", limit=1)
        assert [hit.cosine is not None for hit in answer] == [True]
        assert answer.degraded == (
            "embedder: 300 of 301 memories have no vector, and are found by words alone",
        )
        [space] = await memories.store.memories.spaces.all()
        await memories.add(ADA, ["A forbidden word.", *(f"Note {n}" for n in range(19))])
        assert not await memories.jobs()
        query = MemoryQuery(lacking=space.number, now=memories.clock())
        lacking = await memories.store.memories.select(ADA, query)
        assert len(lacking) == 301
