"""Models in the ONNX format, tiny ones made here, run by the real runtime and tokenizer without torch."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from kagent_memory.errors import ConfigurationError, ModelError
from kagent_memory.memories import Memories
from kagent_memory.models.embedding import Embedder, open_embedder
from kagent_memory.models.embedding.onnx_model import OnnxModel
from kagent_memory.records import Scope
from kagent_memory.settings import MemorySettings

WORDS = ["[PAD]", "[UNK]", "green", "tea", "coffee", "milk", "ask"]
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)


def made(folder: Path, *, at: str = "onnx/model.onnx", pooled: bool = False, **files: Any) -> Path:
    """A model whose network looks its words up in a table, and what stands beside it."""
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, pre_tokenizers

    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["words"])]
    shape = ["texts", "tokens", 8]
    if pooled:
        nodes.append(helper.make_node("ReduceSum", ["words", "axis"], ["pooled"], keepdims=0))
        shape = ["texts", 8]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("pooled" if pooled else "words", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(TABLE, "table"), numpy_helper.from_array(np.array([1], np.int64), "axis")],
    )
    network = folder / at
    network.parent.mkdir(parents=True, exist_ok=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, str(network))
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(content))
    return folder


def opened(folder: Path, **options: int) -> Embedder:
    embedder = open_embedder(f"local/{folder}", MemorySettings().updated(options))
    assert embedder is not None
    return embedder


def mean(*words: str) -> np.ndarray:
    return TABLE[[WORDS.index(word) for word in words]].mean(axis=0)


async def test_words_are_pooled_by_their_mean_whatever_stands_beside_them_in_the_batch(tmp_path: Path) -> None:
    rows = await opened(made(tmp_path), batch_size=2).embed(
        ["green tea", "coffee", "milk coffee green tea"], kind="document"
    )
    assert rows.dtype == np.float32
    wanted = [mean("green", "tea"), mean("coffee"), mean("milk", "coffee", "green", "tea")]
    np.testing.assert_allclose(rows, wanted, atol=1e-6)


async def test_what_the_models_files_say_is_done(tmp_path: Path) -> None:
    folder = made(
        tmp_path,
        at="model.onnx",
        modules=[{"type": f"sentence_transformers.models.{kind}"} for kind in ("Transformer", "Pooling", "Normalize")],
        **{"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}},
        config_sentence_transformers={"prompts": {"query": "ask ", "document": ""}},
        sentence_bert_config={"max_seq_length": 2},
    )
    embedder = opened(folder)
    (tea,) = await embedder.embed(["tea coffee milk"], kind="document")
    np.testing.assert_allclose(tea, mean("tea") / np.linalg.norm(mean("tea")), atol=1e-6)
    (asked,) = await embedder.embed(["tea"], kind="query")
    np.testing.assert_allclose(asked, mean("ask") / np.linalg.norm(mean("ask")), atol=1e-6)
    no_pooling = OnnxModel(made(tmp_path / "cut", sentence_bert_config={"max_seq_length": 2}))
    np.testing.assert_allclose(
        no_pooling.encode(["tea coffee milk"], "document", 8), [mean("tea", "coffee")], atol=1e-6
    )


async def test_a_network_that_pools_by_itself_is_taken_at_its_word(tmp_path: Path) -> None:
    (row,) = await opened(made(tmp_path, pooled=True)).embed(["green tea"], kind="document")
    np.testing.assert_allclose(row, 2 * mean("green", "tea"), atol=1e-5)


@pytest.mark.parametrize(
    "files",
    [
        {"1_Pooling__config": {"pooling_mode_max_tokens": True}},
        {"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}},
        {"modules": [{"type": "sentence_transformers.models.Dense"}]},
    ],
    ids=["max", "two", "dense"],
)
async def test_a_step_that_is_not_known_is_refused_not_left_out(tmp_path: Path, files: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="unsupported"):
        await opened(made(tmp_path, **files)).embed(["tea"], kind="document")


async def test_a_folder_without_a_model_and_one_that_is_broken_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json beside"):
        await opened(tmp_path / "empty").embed(["tea"], kind="document")
    broken = made(tmp_path / "broken")
    (broken / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError):
        await opened(broken).embed(["tea"], kind="document")


async def test_texts_of_all_kinds_embed(tmp_path: Path) -> None:
    embedder = opened(made(tmp_path))
    rows = await embedder.embed(["tea " * 5000, "\u200d", "日本", "tea\0tea", "👩‍👩‍👧"], kind="document")
    assert rows.shape == (5, 8)


async def test_it_runs_on_a_thread_of_its_own_and_the_loop_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release, threads = threading.Event(), threading.Event(), []

    def encode(self: OnnxModel, texts: Any, kind: str, batch_size: int) -> Any:
        threads.append(threading.current_thread())
        entered.set()
        assert release.wait(60)
        return np.ones((len(texts), 2), np.float32)

    monkeypatch.setattr(OnnxModel, "encode", encode)
    running = asyncio.create_task(opened(made(tmp_path)).embed(["tea"], kind="document"))
    await asyncio.to_thread(entered.wait, 60)
    assert not running.done()
    release.set()
    assert (await running).shape == (1, 2)
    assert threads[0] is not threading.current_thread()


async def test_a_store_is_searched_by_meaning_with_it(tmp_path: Path) -> None:
    folder = made(tmp_path / "model")
    scope = Scope("", "ada", "notes")
    async with await Memories.open(f"libsql:///{tmp_path}/memory.db", embedding=f"local/{folder}") as memories:
        await memories.add(scope, ["green tea", "coffee milk"])
        found = await memories.recall(scope, "tea")
    assert (found.mode, found[0].memory.content) == ("hybrid", "green tea")
