"""Embedding in this process, with ONNX (extra `[local]`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..calls import named
from ..onnx import LocalModel, OnnxEmbedder
from .vector_checks import Matrix, batches, empty, fitted, matrix


class LocalEmbedder:
    """Embeds with a sentence-transformers model, loaded at the first use, in a thread of its own.

    Args:
        model: "local/" or "sentence-transformers/", and a name on Hugging Face or a folder.
        dimensions: what comes longer is cut and brought to length 1. None: as it comes.
        batch_size: texts in one pass of the model.
        timeout_seconds: the longest that one pass is waited for; loading the model, which may fetch it, counts.

    Raises:
        ConfigurationError: the extra is not installed.
    """

    def __init__(
        self, model: str, *, dimensions: int | None = None, batch_size: int = 64, timeout_seconds: float = 30.0
    ) -> None:
        path = model.partition("/")[2]
        self.name = f"sentence-transformers/{path}"
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout_seconds = timeout_seconds
        self._model = LocalModel(path, "sentence-transformers", OnnxEmbedder)

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
        """Return one checked row per text.

        Raises:
            ConfigurationError: the model is none that is run here, or its vectors are shorter than asked for.
            ModelError: the model cannot be loaded, failed, or took too long.
        """
        if not texts:
            return empty()
        parts = batches(texts, self._batch_size)
        work = self._model.run(
            lambda model: np.concatenate([model.encode(part, kind) for part in parts]),
            len(parts) * self._timeout_seconds,
        )
        answer = await named(work, f"The embedding model {self.name}", *texts)
        return fitted(matrix(answer, len(texts), self.name), self._dimensions, self.name)
