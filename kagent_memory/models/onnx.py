"""Models in the ONNX format, run in this process without torch (extra `[local]`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import ConfigurationError, needs_extra

FILES = ("onnx/model.onnx", "model.onnx")
# large models keep their weights in model.onnx_data
DOWNLOADS = ("onnx/model.onnx*", "model.onnx*", "*.json")
PREFIXES = ("local/", "sentence-transformers/")
MAX_TOKENS = 512  # where a model does not say
POOLED = "sentence_embedding"  # the output of a network that has all steps in it
MODES = {"cls", "mean"}

Model = TypeVar("Model")
Answer = TypeVar("Answer")


class LocalModel(Generic[Model]):
    """A model loaded at its first use, in a thread of its own.

    Args:
        path: a name on Hugging Face, or a folder.
        organisation: on Hugging Face, of a name that does not say it.
        load: makes the model of its folder.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(self, path: str, organisation: str, load: Callable[[Path], Model]) -> None:
        if not all(map(find_spec, ("huggingface_hub", "onnxruntime", "tokenizers"))):
            raise needs_extra(f"The local model {path}", "local")
        self._path = path
        self._organisation = organisation
        self._load = load
        self._model: Model | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kagent-memory-model")

    async def run(self, work: Callable[[Model], Answer]) -> Answer:
        """Return what `work` does with the model; a failed load is tried again at the next call."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded, work)

    def _loaded(self, work: Callable[[Model], Answer]) -> Answer:
        if self._model is None:
            self._model = self._load(model_folder(self._path, self._organisation))
        return work(self._model)


def model_folder(model: str, organisation: str) -> Path:
    """Return the folder of a model's files, fetched from Hugging Face once unless it is a folder.

    Raises:
        Exception: Hugging Face cannot be reached, or has no such model.
    """
    if (folder := Path(model)).is_dir():
        return folder
    hub: Any = import_module("huggingface_hub")
    name = model if "/" in model else f"{organisation}/{model}"
    return Path(hub.snapshot_download(name, allow_patterns=list(DOWNLOADS)))


class OnnxModel:
    """Tokenizer and network of one model, as its files say.

    Raises:
        ConfigurationError: the folder holds no such model.
    """

    def __init__(self, folder: Path) -> None:
        network = next((folder / name for name in FILES if (folder / name).is_file()), None)
        if network is None or not (folder / "tokenizer.json").is_file():
            raise ConfigurationError(
                f"{folder} holds no tokenizer.json beside a model.onnx or onnx/model.onnx; "
                "choose another model, or "
                "export this one (`optimum-cli export onnx --model <name> <folder>`) and give "
                "its folder."
            )
        self.folder = folder
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(
            str(folder / "tokenizer.json")
        )
        self._tokenizer.enable_truncation(self._max_tokens())
        ids = (self._tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
        self._tokenizer.enable_padding(pad_id=next((pad for pad in ids if pad is not None), 0))
        runtime: Any = import_module("onnxruntime")
        self._session: Any = runtime.InferenceSession(
            str(network), providers=["CPUExecutionProvider"]
        )
        self._inputs = {given.name for given in self._session.get_inputs()}
        self.outputs: list[str] = [output.name for output in self._session.get_outputs()]

    def run(
        self, texts: Sequence[str] | Sequence[tuple[str, str]]
    ) -> tuple[Mapping[str, Any], npt.NDArray[np.int64]]:
        """Return the network's outputs for texts, or pairs of texts, and the mask of their
        tokens.
        """
        encoded = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        given = {
            "input_ids": np.array([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
        }
        answers = self._session.run(
            None, {name: given[name] for name in given if name in self._inputs}
        )
        return dict(zip(self.outputs, answers, strict=True)), mask

    def read(self, name: str) -> Any:
        """Return what a JSON file of the model holds; {} where there is none."""
        file = self.folder / name
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    def _max_tokens(self) -> int:
        """Return the model's own limit, or its tokenizer's, which is 1e30 where nobody knows."""
        own = self.read("sentence_bert_config.json").get("max_seq_length")
        limit = self.read("tokenizer_config.json").get("model_max_length")
        return int(own or min(MAX_TOKENS, limit or MAX_TOKENS))


class OnnxEmbedder:
    """A sentence-transformers model.

    Raises:
        ConfigurationError: the folder holds no such model, or one with a step that is not known
            here.
    """

    def __init__(self, folder: Path) -> None:
        self._model = model = OnnxModel(folder)
        steps = {str(step["type"]).rpartition(".")[2] for step in model.read("modules.json")}
        pooling = _pooling_modes(model.read("1_Pooling/config.json"))
        self._output = POOLED if POOLED in model.outputs else model.outputs[0]
        if self._output != POOLED:
            unknown = [*(steps - {"Transformer", "Pooling", "Normalize"}), *(pooling - MODES)]
            if unknown or len(pooling) > 1:
                raise ConfigurationError(
                    f"{folder} has unsupported steps: {', '.join(sorted(unknown or pooling))}."
                )
        self._by_first_token = pooling == {"cls"}
        self._normalises = "Normalize" in steps
        prompts: dict[str, Any] = (
            model.read("config_sentence_transformers.json").get("prompts") or {}
        )
        self._prompts = {kind: str(prompts.get(kind) or "") for kind in ("query", "document")}

    def encode(self, texts: Sequence[str], kind: str) -> npt.NDArray[np.float32]:
        """Return one row a text, in order."""
        outputs, mask = self._model.run([self._prompts[kind] + text for text in texts])
        vectors = np.asarray(outputs[self._output], np.float32)
        if vectors.ndim == 3:
            weights = mask[:, :, None].astype(np.float32)
            pooled = (vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
            vectors = vectors[:, 0] if self._by_first_token else pooled
        if self._normalises:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32)


def _pooling_modes(config: Mapping[str, Any]) -> set[str]:
    """Return the modes of `1_Pooling/config.json`: one key in newer files, a flag for each mode in
    older ones.
    """
    if mode := config.get("pooling_mode"):
        return {str(mode)}
    flags = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    return {flags.get(name, name) for name, on in config.items() if "pooling_mode_" in name and on}


class OnnxCrossEncoder:
    """A cross-encoder: one score for a query and a document together.

    Raises:
        ConfigurationError: the folder holds no such model.
    """

    def __init__(self, folder: Path) -> None:
        self._model = OnnxModel(folder)

    def score(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return the logit of each document, in order.

        Raises:
            ConfigurationError: the network does not give one number a pair.
        """
        outputs, _ = self._model.run([(query, document) for document in documents])
        scores = np.asarray(outputs[self._model.outputs[0]], np.float32)
        if scores.size != len(documents):
            raise ConfigurationError(
                f"{self._model.folder} is no cross-encoder: it gives no single score a pair."
            )
        return scores.reshape(-1).tolist()


class LocalEmbedder:
    """Embeds with a sentence-transformers model, loaded at the first use, in a thread of its own.

    Args:
        model: "local/" or "sentence-transformers/", and a name on Hugging Face or a folder.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(self, model: str) -> None:
        path = model.partition("/")[2]
        self.name = f"sentence-transformers/{path}"
        self._model = LocalModel(path, "sentence-transformers", OnnxEmbedder)

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Any:
        """Return one row per text.

        Raises:
            ConfigurationError: the model is none that is run here.
        """
        return await self._model.run(lambda model: model.encode(texts, kind))
