"""Embedding in this process: with ONNX (extra `[local]`), or with torch (extra `[sentence-transformers]`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

from ...errors import needs_extra
from ..calls import RetryPolicy, named, with_retries
from .onnx_model import FILES, OnnxModel, onnx_folder
from .vector_checks import Matrix, batches, empty, fitted, matrix

LOCAL = "local/"
PREFIXES = (LOCAL, "sentence-transformers/")
Encode: TypeAlias = Callable[[Sequence[str], str, int], Any]


class LocalEmbedder:
    """Embeds with a sentence-transformers model, loaded at the first use, in a thread of its own.

    Args:
        model: "local/" or "sentence-transformers/", and a name on Hugging Face or a directory. With "local/" the
            model's ONNX file is run where it has one and onnxruntime is installed; else torch runs it.
        dimensions: what comes longer is cut and brought to length 1. None: as it comes.
        batch_size: texts in one pass of the model.
        timeout_seconds: the longest that one pass is waited for; loading the model, which may fetch it, counts.

    Raises:
        ConfigurationError: nothing that runs a "local/" model is installed.
    """

    def __init__(
        self, model: str, *, dimensions: int | None = None, batch_size: int = 64, timeout_seconds: float = 30.0
    ) -> None:
        prefix, _, self._path = model.partition("/")
        self.name = f"sentence-transformers/{self._path}"
        self._has_torch = find_spec("sentence_transformers") is not None
        self._with_onnx = f"{prefix}/" == LOCAL and all(map(find_spec, ("onnxruntime", "tokenizers")))
        if f"{prefix}/" == LOCAL and not (self._with_onnx or self._has_torch):
            raise needs_extra(f"The local model {self._path}", "local")
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout_seconds = timeout_seconds
        self._encode: Encode | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kagent-memory-embed")

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
        """One checked row per text.

        Raises:
            ConfigurationError: the extra is not installed, or vectors are shorter than asked for.
            ModelError: the model cannot be loaded, failed, or took too long.
        """
        if not texts:
            return empty()
        loop = asyncio.get_running_loop()
        passes = len(batches(texts, self._batch_size))
        work = with_retries(
            lambda: loop.run_in_executor(self._thread, self._encoded, list(texts), kind),
            RetryPolicy(passes * self._timeout_seconds),
        )
        answer = await named(work, f"The embedding model {self.name}", *texts)
        return fitted(matrix(answer, len(texts), self.name), self._dimensions, self.name)

    def _encoded(self, texts: list[str], kind: str) -> Any:
        """Loads the model first, where that has not been done or failed."""
        if self._encode is None:
            folder = onnx_folder(self._path) if self._with_onnx else None
            if folder is not None and (not self._has_torch or any((folder / name).is_file() for name in FILES)):
                self._encode = OnnxModel(folder).encode
            else:
                model: Any = sentence_transformers().SentenceTransformer(self._path)

                def encode(texts: Sequence[str], kind: str, batch_size: int) -> Any:
                    embed = model.encode_query if kind == "query" else model.encode_document
                    return embed(list(texts), batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)

                self._encode = encode
        return self._encode(texts, kind, self._batch_size)


def sentence_transformers() -> Any:
    """The module.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return import_module("sentence_transformers")
    except ImportError as error:
        raise needs_extra("A model that torch runs", "sentence-transformers", error) from error
