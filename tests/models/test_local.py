"""Tiny fastembed models made here, from its cache and without a network."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fastembed
import numpy as np
import onnx
import onnx.parser
import pytest
from fastembed.common.model_description import ModelSource, PoolingType
from fastembed.rerank.cross_encoder import TextCrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from kagent_memory.errors import ConfigurationError, ModelUnavailable
from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.models.reranking import open_reranker
from kagent_memory.settings import MemorySettings

WORDS = ["[PAD]", "[UNK]", "green", "tea", "coffee", "milk", "ask"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
MODEL = '<ir_version: 8, opset_import: ["" : 17]> '

WORD_VECTORS = f"""
tiny (int64[texts, tokens] input_ids) => (float[texts, tokens, 8] words)
<float[7, 8] table = {{ {", ".join(map(str, TABLE.flat))} }}>
{{ words = Gather(table, input_ids) }}
"""
# scores a pair by the weights of the second text's words
SCORES = """
tiny (int64[texts, tokens] input_ids, int64[texts, tokens] token_type_ids)
=> (float[texts, 1] logits)
<float[7] weights = {0, 1, 2, 3, 4, 5, 6}, int64[1] axis = {1}>
{
    words = Gather(weights, input_ids)
    second = Cast<to = 1>(token_type_ids)
    weighed = Mul(words, second)
    logits = ReduceSum<keepdims = 1>(weighed, axis)
}
"""


def cached(cache: Path, name: str, network: str) -> None:
    """Save a model in a Hugging Face cache, as a download does."""
    repository = cache / f"models--{name.replace('/', '--')}"
    files = repository / "snapshots" / "1"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("1")
    (files / "onnx").mkdir(parents=True)
    onnx.save(onnx.parser.parse_model(MODEL + network), str(files / "onnx" / "model.onnx"))
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B:1", special_tokens=[]
    )
    tokenizer.save(str(files / "tokenizer.json"))
    (files / "config.json").write_text("{}")
    (files / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 8, "pad_token": "[PAD]"})
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no network, and two models known to fastembed: tests/words, tests/pairs."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for kind in (
        fastembed.TextEmbedding.EMBEDDINGS_REGISTRY,
        TextCrossEncoder.CROSS_ENCODER_REGISTRY,
    ):
        monkeypatch.setattr(kind[-1], "SUPPORTED_MODELS", [])
    fastembed.TextEmbedding.add_custom_model(
        "tests/words",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf="tests/words"),
        dim=8,
    )
    TextCrossEncoder.add_custom_model("tests/pairs", sources=ModelSource(hf="tests/pairs"))
    return tmp_path


def opened(choice: Any) -> Embedder:
    embedder = open_embedder(choice, MemorySettings(batch_size=2))
    assert embedder is not None
    return embedder


@pytest.mark.parametrize("kind", ["document", "query"])
async def test_texts_become_rows_in_their_order(cache: Path, kind: Any):
    """A text's vector does not depend on the others of its batch."""
    cached(cache, "tests/words", WORD_VECTORS)
    texts = ["green tea", "coffee", "milk coffee green tea"]
    rows = await opened("local/tests/words").embed(texts, kind=kind)
    assert rows.dtype == np.float32
    for row, text in zip(rows, texts, strict=True):
        mean = TABLE[[WORDS.index(word) for word in text.split()]].mean(axis=0)
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.parametrize(
    "choice",
    [
        "local/all-MiniLM-L6-v2",
        "local/sentence-transformers/all-MiniLM-L6-v2",
        "sentence-transformers/all-MiniLM-L6-v2",
        {"provider": "local", "model": "all-MiniLM-L6-v2"},
    ],
    ids=str,
)
def test_one_local_model_has_one_name(choice: Any):
    """A local model has one name in all spellings."""
    assert opened(choice).name == "sentence-transformers/all-MiniLM-L6-v2"


def test_a_model_unknown_to_fastembed_is_refused_at_open(tmp_path: Path):
    """A model that fastembed does not list, or a folder, is refused with advice."""
    for name in ("no-such-model", str(tmp_path)):
        with pytest.raises(ConfigurationError, match="kagent-memory reembed"):
            open_embedder(f"local/{name}", MemorySettings())
        with pytest.raises(ConfigurationError, match=r"lists no TextCrossEncoder .* does\.$"):
            open_reranker(f"local/{name}", MemorySettings())


async def test_a_hub_that_is_away_is_asked_once(cache: Path, monkeypatch: pytest.MonkeyPatch):
    """An unavailable hub is tried once and calls fail at once; files that arrive later are used."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    names: list[str] = []

    def away(name: str, **_: Any) -> None:
        names.append(name)
        raise OSError("the hub is away")

    monkeypatch.setattr("huggingface_hub.model_info", away)
    embedder = opened("local/tests/words")
    start = time.monotonic()
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["tea"], kind="document")
    assert time.monotonic() - start < 2  # fastembed's first pause is of 3 seconds
    cached(cache, "tests/words", WORD_VECTORS)
    assert (await embedder.embed(["tea"], kind="document")).shape == (1, 8)
    assert names == ["tests/words"]


async def test_a_cross_encoder_scores_in_order(cache: Path):
    """Each document gets its score, in order, for any number of documents."""
    cached(cache, "tests/pairs", SCORES)
    ranker = open_reranker("local/tests/pairs", MemorySettings(search_timeout_seconds=60))
    assert ranker is not None
    assert await ranker.rerank("ask milk", ["tea", "green tea milk", "coffee"]) == [3.0, 10.0, 4.0]
    assert await ranker.rerank("ask", ["tea", "milk coffee"] * 40) == [3.0, 9.0] * 40


def faked(monkeypatch: pytest.MonkeyPatch, **methods: Any) -> None:
    """Have fastembed make models with these methods, whose files exist."""
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: "here")
    fake = type("Fake", (fastembed.TextEmbedding,), methods)
    monkeypatch.setattr(fastembed, "TextEmbedding", fake)


async def test_a_model_that_loads_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """A model that never finishes loading delays a call no longer than its time limit."""
    loaded = threading.Event()
    faked(monkeypatch, __init__=lambda self, name: loaded.wait(60))
    settings = MemorySettings(model_timeout_seconds=0.1)
    embedder = open_embedder("local/all-MiniLM-L6-v2", settings)
    assert embedder is not None
    start = time.monotonic()
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["tea"], kind="document")
    assert time.monotonic() - start < 30
    loaded.set()


async def test_calls_of_a_model_run_one_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """Calls run off the event loop, and one after another."""
    running = threading.Lock()

    def passage_embed(self: Any, texts: Iterable[str]) -> Iterable[Any]:
        assert threading.current_thread() is not threading.main_thread()
        assert running.acquire(blocking=False), "two calls at once"
        time.sleep(0.01)
        running.release()
        return [[1.0, 2.0] for _ in texts]

    faked(monkeypatch, __init__=lambda self, name: None, passage_embed=passage_embed)
    embedder = opened("local/all-MiniLM-L6-v2")
    await asyncio.gather(*(embedder.embed([str(n)], kind="document") for n in range(5)))
