"""Models in the ONNX format, tiny ones made here, run by the real runtime and tokenizer without
torch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.models.reranking import Reranker, open_reranker
from kagent_memory.settings import MemorySettings

WORDS = ["[PAD]", "[UNK]", "green", "tea", "coffee", "milk", "ask"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
MODEL = '<ir_version: 8, opset_import: ["" : 17]> '

WORD_VECTORS = """
tiny (int64[texts, tokens] input_ids) => (float[texts, tokens, 8] words) <float[7, 8] table>
{ words = Gather(table, input_ids) }
"""
# adds them up
SUMS = """
tiny (int64[texts, tokens] input_ids) => (float[texts, 8] sentence_embedding)
<float[7, 8] table, int64[1] axis = {1}>
{
    words = Gather(table, input_ids)
    sentence_embedding = ReduceSum<keepdims = 0>(words, axis)
}
"""
# scores a pair by the weights of the second text's words
SCORES = """
tiny (int64[texts, tokens] input_ids, int64[texts, tokens] token_type_ids)
=> (float[texts, labels] logits)
<float[7] weights = {0, 1, 2, 3, 4, 5, 6}, int64[1] axis = {1}>
{
    words = Gather(weights, input_ids)
    second = Cast<to = 1>(token_type_ids)
    weighed = Mul(words, second)
    sum = ReduceSum<keepdims = 1>(weighed, axis)
    logits = Concat<axis = 1>(LABELS)
}
"""


def made(
    folder: Path, network: str = WORD_VECTORS, *, at: str = "onnx/model.onnx", **files: Any
) -> Path:
    """Save a model, its tokenizer, and what else stands beside them, in a folder."""
    table = " ".join(["float[7, 8] table = {", ", ".join(map(str, TABLE.flat)), "}"])
    model = onnx.parser.parse_model(MODEL + network.replace("float[7, 8] table", table))
    tokenizer = Tokenizer(
        models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A", pair="$A $B:1", special_tokens=[]
    )
    for name in (at, *(f"{name.replace('__', '/')}.json" for name in files)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / at))
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        (folder / f"{name.replace('__', '/')}.json").write_text(json.dumps(content))
    return folder


def opened(folder: Path, **options: int) -> Embedder:
    embedder = open_embedder(f"local/{folder}", MemorySettings().updated(options))
    assert embedder is not None
    return embedder


def mean(*words: str) -> np.ndarray:
    return TABLE[[WORDS.index(word) for word in words]].mean(axis=0)


async def test_words_are_pooled_by_their_mean(
    tmp_path: Path,
) -> None:
    """A text's vector is its words' mean, whatever stands beside it in the batch."""
    rows = await opened(made(tmp_path), batch_size=2).embed(
        ["green tea", "coffee", "milk coffee green tea"], kind="document"
    )
    assert rows.dtype == np.float32
    wanted = [mean("green", "tea"), mean("coffee"), mean("milk", "coffee", "green", "tea")]
    np.testing.assert_allclose(rows, wanted, atol=1e-6)


async def test_what_the_models_files_say_is_done(tmp_path: Path) -> None:
    """Pooling, norm, prompts and length of an ONNX embedder are those that its files name."""
    pooling: dict[str, Any] = {
        "1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    }
    folder = made(
        tmp_path,
        at="model.onnx",
        modules=[
            {"type": f"sentence_transformers.models.{kind}"}
            for kind in ("Transformer", "Pooling", "Normalize")
        ],
        **pooling,
        config_sentence_transformers={"prompts": {"query": "ask ", "document": ""}},
        sentence_bert_config={"max_seq_length": 2},
    )
    embedder = opened(folder)
    (tea,) = await embedder.embed(["tea coffee milk"], kind="document")
    np.testing.assert_allclose(tea, mean("tea") / np.linalg.norm(mean("tea")), atol=1e-6)
    (asked,) = await embedder.embed(["tea"], kind="query")
    np.testing.assert_allclose(asked, mean("ask") / np.linalg.norm(mean("ask")), atol=1e-6)


async def test_a_text_is_cut_where_the_model_ends(tmp_path: Path) -> None:
    """A tokenizer's own limit is respected."""
    embedder = opened(made(tmp_path, tokenizer_config={"model_max_length": 2}))
    (row,) = await embedder.embed(["tea coffee milk"], kind="document")
    np.testing.assert_allclose(row, mean("tea", "coffee"), atol=1e-6)


async def test_a_sentence_embedding_is_taken_as_it_is(tmp_path: Path) -> None:
    """A network with a sentence embedding has its last steps in it."""
    steps = [{"type": "sentence_transformers.models.Dense"}]
    pooling: dict[str, Any] = {"1_Pooling__config": {"pooling_mode_max_tokens": True}}
    folder = made(tmp_path, SUMS, modules=steps, **pooling)
    (row,) = await opened(folder).embed(["green tea"], kind="document")
    np.testing.assert_allclose(row, 2 * mean("green", "tea"), atol=1e-5)


@pytest.mark.parametrize(
    "files",
    [
        {"1_Pooling__config": {"pooling_mode_max_tokens": True}},
        {"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}},
        {"1_Pooling__config": {"pooling_mode": "lasttoken"}},
        {"modules": [{"type": "sentence_transformers.models.Dense"}]},
    ],
    ids=["max", "two", "last", "dense"],
)
async def test_a_step_that_is_not_known_is_refused_not_left_out(
    tmp_path: Path, files: dict[str, Any]
) -> None:
    """A model whose files ask for a step that we do not know is refused."""
    with pytest.raises(ConfigurationError, match="unsupported"):
        await opened(made(tmp_path, **files)).embed(["tea"], kind="document")


async def test_a_missing_or_broken_model_is_told(tmp_path: Path) -> None:
    """A folder without a model and a broken model are typed errors."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json beside"):
        await opened(tmp_path / "empty").embed(["tea"], kind="document")
    broken = made(tmp_path / "broken")
    (broken / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError):
        await opened(broken).embed(["tea"], kind="document")


def reranker(folder: Path, labels: int = 1) -> Reranker:
    path = made(folder, SCORES.replace("LABELS", ", ".join(["sum"] * labels)))
    found = open_reranker(f"local/{path}", MemorySettings(search_timeout_seconds=60))
    assert found is not None
    return found


async def test_a_cross_encoder_scores_in_order(tmp_path: Path) -> None:
    """Each document has its score, in order, however many there are."""
    ranker = reranker(tmp_path)
    assert await ranker.rerank("ask milk", ["tea", "green tea milk", "coffee"]) == [3.0, 10.0, 4.0]
    assert await ranker.rerank("ask", ["tea", "milk coffee"] * 40) == [3.0, 9.0] * 40
    assert await ranker.rerank("ask", []) == []


async def test_a_classifier_is_no_cross_encoder(tmp_path: Path) -> None:
    """A model with several labels is refused as a reranker."""
    with pytest.raises(ConfigurationError, match="no cross-encoder"):
        await reranker(tmp_path, labels=3).rerank("ask", ["tea"])
