"""Embedding in this process, with sentence-transformers (extra `[local]`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, Literal

from ...errors import ConfigurationError
from ..calls import RetryPolicy, named, with_retries
from .vector_checks import Matrix, batches, empty, fitted, matrix

PREFIXES = ("local/", "sentence-transformers/")
INSTALL = "pip install 'kagent-memory[local]'"


class SentenceTransformersEmbedder:
    """Embeds with a sentence-transformers model, loaded at the first use, in a thread of its own.

    Args:
        model: a name on Hugging Face, or a directory.
        dimensions: what comes longer is cut and brought to length 1. None: as it comes.
        batch_size: texts in one pass of the model.
        timeout_seconds: the longest that one pass is waited for; loading the model, which may fetch it, counts.
    """

    def __init__(
        self, model: str, *, dimensions: int | None = None, batch_size: int = 64, timeout_seconds: float = 30.0
    ) -> None:
        self.name = f"sentence-transformers/{model}"
        self._path = model
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout_seconds = timeout_seconds
        self._model: Any = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kagent-memory-embed")

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
        """One checked row per text.

        Raises:
            ConfigurationError: sentence-transformers is not installed, or vectors are shorter than asked for.
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
        if self._model is None:
            self._model = sentence_transformers().SentenceTransformer(self._path)
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        return encode(texts, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True)


def sentence_transformers() -> Any:
    """The module.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        return import_module("sentence_transformers")
    except ImportError as error:
        raise ConfigurationError(f"Local models need sentence-transformers; install it: {INSTALL}") from error
