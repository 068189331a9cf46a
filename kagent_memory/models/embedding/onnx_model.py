"""A sentence-transformers model in the ONNX format, run in this process without torch (extra `[local]`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError
from .vector_checks import batches

FILES = ("onnx/model.onnx", "model.onnx")
NEEDED = (*FILES, "*.json", "1_Pooling/config.json")
LONGEST = 512  # tokens, where a model does not say


def onnx_folder(model: str) -> Path:
    """Where a model's files are: its own directory, or what Hugging Face has of it, fetched once.

    Raises:
        ImportError: the extra is not installed.
        Exception: Hugging Face cannot be reached, or has no such model.
    """
    if (folder := Path(model)).is_dir():
        return folder
    hub: Any = import_module("huggingface_hub")
    name = model if "/" in model else f"sentence-transformers/{model}"
    return Path(hub.snapshot_download(name, allow_patterns=list(NEEDED)))


class OnnxModel:
    """Tokenizer, network, pooling and length of one model, as its files say.

    Raises:
        ImportError: the extra is not installed.
        ConfigurationError: the folder holds no such model, or one with a step that is not known here.
    """

    def __init__(self, folder: Path) -> None:
        network = next((folder / name for name in FILES if (folder / name).is_file()), None)
        if network is None or not (folder / "tokenizer.json").is_file():
            raise ConfigurationError(f"{folder} holds no tokenizer.json beside a model.onnx or onnx/model.onnx.")
        self._folder = folder
        pooling: dict[str, Any] = self._read("1_Pooling/config.json")
        asked = {name for name, on in pooling.items() if name.startswith("pooling_") and on}
        if asked - {"pooling_mode_cls_token", "pooling_mode_mean_tokens"} or len(asked) > 1:
            raise ConfigurationError(f"{folder} pools in an unsupported way: {', '.join(sorted(asked))}.")
        self._by_first_token = asked == {"pooling_mode_cls_token"}
        steps = {str(step["type"]).rpartition(".")[2] for step in self._read("modules.json", [])}
        if unknown := sorted(steps - {"Transformer", "Pooling", "Normalize"}):
            raise ConfigurationError(f"{folder} has unsupported steps: {', '.join(unknown)}.")
        self._normalises = "Normalize" in steps
        prompts: dict[str, Any] = self._read("config_sentence_transformers.json").get("prompts") or {}
        self._prompts = {kind: str(prompts.get(kind) or "") for kind in ("query", "document")}
        self._tokenizer: Any = import_module("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
        places = int(self._read("config.json").get("max_position_embeddings") or LONGEST)
        longest = int(self._read("sentence_bert_config.json").get("max_seq_length") or min(LONGEST, places))
        self._tokenizer.enable_truncation(longest)
        ids = (self._tokenizer.token_to_id(token) for token in ("[PAD]", "<pad>"))
        self._tokenizer.enable_padding(pad_id=next((pad for pad in ids if pad is not None), 0))
        runtime: Any = import_module("onnxruntime")
        self._session: Any = runtime.InferenceSession(str(network), providers=["CPUExecutionProvider"])
        self._inputs = {given.name for given in self._session.get_inputs()}

    def encode(self, texts: Sequence[str], kind: str, batch_size: int) -> npt.NDArray[np.float32]:
        """One row a text, in order."""
        rows: list[npt.NDArray[np.float32]] = []
        for batch in batches(texts, batch_size):
            encoded = self._tokenizer.encode_batch([self._prompts[kind] + text for text in batch])
            ids = np.array([one.ids for one in encoded], np.int64)
            mask = np.array([one.attention_mask for one in encoded], np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            answers = self._session.run(None, {name: given[name] for name in given if name in self._inputs})
            vectors = np.asarray(answers[0], np.float32)
            if vectors.ndim == 3:
                weights = mask[:, :, None].astype(np.float32)
                pooled = (vectors * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
                vectors = vectors[:, 0] if self._by_first_token else pooled
            if self._normalises:
                vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            rows.append(vectors.astype(np.float32))
        return np.concatenate(rows)

    def _read(self, name: str, otherwise: Any = None) -> Any:
        file = self._folder / name
        if not file.is_file():
            return {} if otherwise is None else otherwise
        return json.loads(file.read_text(encoding="utf-8"))
