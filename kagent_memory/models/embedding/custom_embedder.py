"""An embedder that a user made, with its answers checked as every other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ..calls import RetryPolicy, awaited, name_of, named_object, with_retries
from .vector_checks import Matrix, batches, empty, fitted, joined, matrix


class CheckedEmbedder:
    """Any object with `name` and `async embed(texts, *, kind)`; a failure of its own becomes a ModelError.

    Raises:
        ConfigurationError: the object has no such method or no name.
    """

    def __init__(
        self, inner: Any, *, dimensions: int | None = None, batch_size: int = 64, timeout_seconds: float = 30.0
    ) -> None:
        name_of(inner, "embed", "an embedder")
        self.inner = inner
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._retry = RetryPolicy(timeout_seconds)

    @property
    def name(self) -> str:
        """The name that the object gives itself."""
        return name_of(self.inner, "embed", "an embedder")

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> Matrix:
        """One checked row per text.

        Raises:
            ModelError: the object failed, took too long, or answered what cannot be used.
            ConfigurationError: its `embed` is not async, or its vectors are shorter than the dimensions asked for.
        """
        if not texts:
            return empty()
        name = self.name
        what = f"The embedder {name}"
        parts: list[Matrix] = []
        for batch in map(list, batches(texts, self._batch_size)):
            call = with_retries(
                lambda some=batch: awaited(self.inner.embed(some, kind=kind), f"{what}: embed()"), self._retry
            )
            answer = await named_object(call, what, *batch)
            parts.append(matrix(answer, len(batch), name))
        return fitted(joined(parts, name), self._dimensions, name)
