"""Models in the ONNX format, run in this process without torch (extra `[local]`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from ..errors import ConfigurationError, needs_extra

FILES = ("onnx/model.onnx", "model.onnx")
# large models keep their weights in model.onnx_data
DOWNLOADS = ("onnx/model.onnx*", "model.onnx*", "*.json")
PREFIXES = ("local/", "sentence-transformers/")
MAX_TOKENS = 512  # where a model does not say
MAX_PAIRS = 32  # in one pass of a cross-encoder
POOLED = "sentence_embedding"  # the output of a network that has all steps in it
MODES = {"cls", "mean"}

Answer = TypeVar("Answer")


class LocalModel:
    """Tokenizer and network of one model, loaded at the first use, in a thread of its own.

    Args:
        name: how the model is called.
        path: a name on Hugging Face, or a folder.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(self, name: str, path: str) -> None:
        if not all(map(find_spec, ("huggingface_hub", "onnxruntime", "tokenizers"))):
            raise needs_extra(f"The local model {path}", "local")
        self.name = name
        self._path = path
        self._is_loaded = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kagent-memory-model")

    async def _in_thread(self, work: Callable[..., Answer], *args: Any) -> Answer:
        """Return what `work` does once the model is loaded; a failed load is tried again at the
        next call.
        """

        def run() -> Answer:
            if not self._is_loaded:
                self.load(model_folder(self._path))
                self._is_loaded = True
            return work(*args)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def load(self, folder: Path) -> None:
        """Read the model's files.

        Raises:
            ConfigurationError: the folder holds no such model.
        """
        network = next((folder / name for name in FILES if (folder / name).is_file()), None)
        if network is None or not (folder / "tokenizer.json").is_file():
            raise ConfigurationError(
                f"{folder} holds no tokenizer.json beside a model.onnx or onnx/model.onnx; "
                "choose another model, or export this one (`optimum-cli export onnx --model <name> "
                "<folder>`) and give its folder."
            )
        tokenizer: Any = import_module("tokenizers")
        self._tokenizer = tokenizer.Tokenizer.from_file(str(folder / "tokenizer.json"))
        own = _read(folder, "sentence_bert_config.json").get("max_seq_length")
        # 1e30 where nobody knows
        limit = _read(folder, "tokenizer_config.json").get("model_max_length")
        self._tokenizer.enable_truncation(int(own or min(MAX_TOKENS, limit or MAX_TOKENS)))
        ids = (self._tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
        self._tokenizer.enable_padding(pad_id=next((pad for pad in ids if pad is not None), 0))
        runtime: Any = import_module("onnxruntime")
        self._session = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}
        names = [output.name for output in self._session.get_outputs()]
        self._output: str = POOLED if POOLED in names else names[0]

    def _run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return the output for texts, or pairs of texts, and the mask of their tokens."""
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        given = {
            "input_ids": np.array([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
        }
        taken = {name: given[name] for name in given if name in self._inputs}
        [answer] = self._session.run([self._output], taken)
        return np.asarray(answer, np.float32), mask


def model_folder(path: str) -> Path:
    """Return the folder of a model's files, fetched from Hugging Face once unless it is a folder.

    Raises:
        Exception: Hugging Face cannot be reached, or has no such model.
    """
    if (folder := Path(path)).is_dir():
        return folder
    hub: Any = import_module("huggingface_hub")
    return Path(hub.snapshot_download(path, allow_patterns=list(DOWNLOADS)))


def _read(folder: Path, name: str) -> Any:
    """Return what a JSON file of a model holds; {} where there is none."""
    file = folder / name
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def _named(path: str, organisation: str) -> str:
    """Return a model's name on Hugging Face with its organisation; a folder as it is."""
    return path if "/" in path or Path(path).is_dir() else f"{organisation}/{path}"


class LocalEmbedder(LocalModel):
    """Embeds with a sentence-transformers model.

    Args:
        model: "local/" or "sentence-transformers/", and a name on Hugging Face or a folder.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(self, model: str) -> None:
        path = model.partition("/")[2]
        super().__init__(f"sentence-transformers/{path}", _named(path, "sentence-transformers"))

    @override
    def load(self, folder: Path) -> None:
        super().load(folder)
        steps = {
            str(step["type"]).rpartition(".")[2] for step in _read(folder, "modules.json") or ()
        }
        pooling = _pooling_modes(_read(folder, "1_Pooling/config.json"))
        unknown = [*(steps - {"Transformer", "Pooling", "Normalize"}), *(pooling - MODES)]
        if self._output != POOLED and (unknown or len(pooling) > 1):
            raise ConfigurationError(
                f"{folder} has unsupported steps: {', '.join(sorted(unknown or pooling))}."
            )
        self._by_first_token = pooling == {"cls"}
        self._normalises = "Normalize" in steps
        prompts: Any = _read(folder, "config_sentence_transformers.json").get("prompts") or {}
        self._prompts = {kind: str(prompts.get(kind) or "") for kind in ("query", "document")}

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Any:
        """Return one row per text.

        Raises:
            ConfigurationError: the model is none that is run here, or has a step that is not known
                here.
        """
        return await self._in_thread(self.encode, texts, kind)

    def encode(self, texts: Sequence[str], kind: str) -> npt.NDArray[np.float32]:
        """Return one row a text, in order, by the model that is loaded."""
        vectors, mask = self._run([self._prompts[kind] + text for text in texts])
        if vectors.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            pooled = (vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
            vectors = vectors[:, 0] if self._by_first_token else pooled
        if self._normalises:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def _pooling_modes(config: Mapping[str, Any]) -> set[str]:
    """Return the modes of `1_Pooling/config.json`: one key in newer files, a flag for each mode in
    older ones.
    """
    if mode := config.get("pooling_mode"):
        return {str(mode)}
    flags = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    return {flags.get(name, name) for name, on in config.items() if "pooling_mode_" in name and on}


class LocalReranker(LocalModel):
    """Reranks with a cross-encoder: one score for a query and a document together.

    Args:
        model: a name on Hugging Face, or a folder.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(self, model: str) -> None:
        super().__init__(f"local/{model}", _named(model, "cross-encoder"))

    async def rerank(self, query: str, documents: Sequence[str]) -> Sequence[float]:
        """Return one score per document, in the documents' order.

        Raises:
            ConfigurationError: the model is none that is run here.
        """
        return await self._in_thread(self._scores, [(query, document) for document in documents])

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        parts = [self._run(pairs[at : at + MAX_PAIRS])[0] for at in range(0, len(pairs), MAX_PAIRS)]
        scores = np.concatenate(parts).reshape(-1)
        if len(scores) != len(pairs):
            raise ConfigurationError(
                f"{self._path} is no cross-encoder: it gives no single score a pair."
            )
        return scores.tolist()
