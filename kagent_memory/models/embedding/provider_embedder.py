"""Embedding by a provider: through LiteLLM where it is installed, else directly where it speaks OpenAI's way."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from ..calls import MAX_RETRIES, NO_RETRIES, RetryPolicy, litellm, named, status_of, with_retries
from ..openai_api import endpoint
from .provider_routes import EmbeddingConfig, configured_route, named_route
from .vector_checks import Matrix, batches, empty, fitted, joined, matrix

logger = logging.getLogger(__name__)


class ProviderEmbedder:
    """Embeds by a provider, in batches, in order, trying again what may pass.

    Args:
        choice: a LiteLLM model name, or kagent's configuration.
        dimensions: asked of the provider; what comes longer is cut and brought to length 1. None: as it comes.
        batch_size: texts in one call.
        timeout_seconds: of one attempt.
        retries: further attempts after a failure that may pass.

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs, or LiteLLM is not installed.
    """

    def __init__(
        self,
        choice: str | EmbeddingConfig,
        *,
        dimensions: int | None = None,
        batch_size: int = 64,
        timeout_seconds: float = 30.0,
        retries: int = MAX_RETRIES,
    ) -> None:
        self._route = (
            named_route(choice, os.environ) if isinstance(choice, str) else configured_route(choice, os.environ)
        )
        self._endpoint = endpoint(self._route.name, self._route.arguments, os.environ)
        self._dimensions = dimensions
        self._asks_dimensions = dimensions is not None
        self._batch_size = batch_size
        self._retry = RetryPolicy(timeout_seconds, retries)

    @property
    def name(self) -> str:
        """Provider and model, the same however the choice was spelt."""
        return self._route.name

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
        """One checked row per text; no texts make no call.

        Raises:
            ModelError: unavailable, refused, or an answer that cannot be used.
            ConfigurationError: an unknown provider, or vectors shorter than the dimensions asked for.
        """
        if not texts:
            return empty()
        parts: list[Matrix] = []
        for batch in batches(texts, self._batch_size):
            rows = await named(self._asked(batch, kind), f"The embedding model {self.name}", *batch)
            parts.append(matrix(rows, len(batch), self.name))
        return fitted(joined(parts, self.name), self._dimensions, self.name)

    async def _asked(self, texts: Sequence[str], kind: str) -> list[Any]:
        if not self._asks_dimensions:
            return await self._call(texts, kind, {})
        wanted = {"dimensions": self._dimensions}
        try:
            return await self._call(texts, kind, wanted)
        except Exception as error:
            if status_of(error) not in (400, 422):
                raise
            refusal = error
        answer = await self._call(texts, kind, {})
        self._asks_dimensions = False
        logger.info(
            "%s does not accept dimensions (%s); truncating its vectors here.", self.name, type(refusal).__name__
        )
        return answer

    async def _call(self, texts: Sequence[str], kind: str, extra: dict[str, Any]) -> list[Any]:
        if (direct := self._endpoint) is not None:
            body: dict[str, object] = {"input": list(texts), "encoding_format": "float", **extra}
            response = await with_retries(
                lambda: direct.post("/embeddings", body, self._retry.timeout_seconds), self._retry
            )
            return vectors(response["data"])
        module = await litellm()
        if extra:
            extra = {**extra, "allowed_openai_params": list(extra)}
        answer = await with_retries(
            lambda: module.aembedding(
                model=self._route.model,
                input=list(texts),
                timeout=self._retry.timeout_seconds,
                **NO_RETRIES,
                **self._route.arguments_for(kind),
                **extra,
            ),
            self._retry,
        )
        return vectors(answer.data or ())


def vectors(data: Iterable[Any]) -> list[Any]:
    """The vectors of an answer in the order of the texts: providers number them, and need not sort them."""
    rows: list[dict[str, Any]] = [dict(row) for row in data]
    numbers = [row.get("index") for row in rows]
    if sorted(number for number in numbers if isinstance(number, int)) == list(range(len(rows))):
        rows.sort(key=lambda row: row["index"])
    each = (row.get("embedding") for row in rows)
    return [np.frombuffer(base64.b64decode(one), dtype="<f4") if isinstance(one, str) else one for one in each]
