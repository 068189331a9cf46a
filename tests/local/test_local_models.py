"""Models in this process, with tiny ones that the tests make: run with the extra [local] and `-m local`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.models.reranking import open_reranker
from kagent_memory.settings import MemorySettings

pytestmark = [pytest.mark.local, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "green", "tea", "coffee", "milk", "likes")
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "max_position_embeddings": 32,
}


def saved(model_class: str, directory: Path, **config: int) -> Path:
    import torch
    import transformers

    torch.manual_seed(7)
    bert = transformers.BertConfig(vocab_size=len(WORDS), initializer_range=1.0, **SIZES, **config)
    getattr(transformers, model_class)(bert).save_pretrained(directory)
    tokenizer = transformers.BertTokenizerFast(vocab={word: number for number, word in enumerate(WORDS)})
    tokenizer.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def embedding_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    words = Transformer(str(saved("BertModel", tmp_path_factory.mktemp("bert"))))
    directory = tmp_path_factory.mktemp("embedding")
    prompts = {"query": "likes ", "document": ""}
    SentenceTransformer(modules=[words, Pooling(8)], prompts=prompts).save(str(directory))
    return directory


def opened(choice: str, **options: int) -> Embedder:
    embedder = open_embedder(choice, MemorySettings().updated(options))
    assert embedder is not None
    return embedder


@pytest.mark.parametrize("prefix", ["local/", "sentence-transformers/"])
async def test_a_local_model_embeds_in_order_and_tells_queries_from_documents(
    embedding_model: Path, prefix: str
) -> None:
    embedder = opened(f"{prefix}{embedding_model}")
    both = await embedder.embed(["green tea", "coffee"], kind="document")
    (tea,) = await embedder.embed(["green tea"], kind="document")
    (asked,) = await embedder.embed(["green tea"], kind="query")
    assert both.shape == (2, 8)
    assert both.dtype == np.float32
    np.testing.assert_allclose(both[0], tea, atol=1e-5)
    assert not np.allclose(asked, tea, atol=1e-3)


async def test_local_vectors_are_cut_and_normalised_and_never_stretched(embedding_model: Path) -> None:
    rows = await opened(f"local/{embedding_model}", dimensions=4).embed(["tea"], kind="document")
    assert rows.shape == (1, 4)
    assert np.linalg.norm(rows[0]) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ConfigurationError, match="makes vectors of 8 dimensions"):
        await opened(f"local/{embedding_model}", dimensions=16).embed(["tea"], kind="document")


async def test_a_local_model_that_is_not_there_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError):
        await opened(f"local/{tmp_path}").embed(["tea"], kind="document")


async def test_a_local_cross_encoder_scores_each_document_in_order(tmp_path: Path) -> None:
    directory = saved("BertForSequenceClassification", tmp_path, num_labels=1)
    reranker = open_reranker(f"local/{directory}", MemorySettings(search_timeout_seconds=60))
    assert reranker is not None
    documents = ["green tea", "coffee", "milk"]
    scores = await reranker.rerank("likes tea", documents)
    backwards = await reranker.rerank("likes tea", documents[::-1])
    assert len(set(scores)) == 3
    assert list(scores) == pytest.approx(list(backwards)[::-1], abs=1e-5)
