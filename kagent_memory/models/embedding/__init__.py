"""Embedders: whatever the user chose becomes an `Embedder` whose answers are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError
from ...settings import MemorySettings
from ..onnx import PREFIXES
from .custom_embedder import CheckedEmbedder
from .local_embedder import LocalEmbedder
from .provider_embedder import ProviderEmbedder
from .provider_routes import EmbeddingConfig

__all__ = [
    "CheckedEmbedder",
    "Embedder",
    "EmbedderChoice",
    "EmbeddingConfig",
    "LocalEmbedder",
    "ProviderEmbedder",
    "open_embedder",
]


class Embedder(Protocol):
    """Turns texts into vectors. Any object of this shape will do.

    Attributes:
        name: says which model this is; vectors of two names never mix.
    """

    @property
    def name(self) -> str:
        """Which model this is."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> npt.NDArray[np.float32]:
        """One row per text, float32 (n, d)."""
        ...


EmbedderChoice: TypeAlias = str | EmbeddingConfig | Mapping[str, Any] | Embedder | None
"""What makes an embedder: a model name, kagent's configuration of one, or an object with `embed`."""


def open_embedder(choice: Any, settings: MemorySettings) -> Embedder | None:
    """The embedder of a choice: None, a model name, kagent's configuration (also as its JSON), or any embedder.

    Nothing is loaded or called before its first use.

    Raises:
        ConfigurationError: the choice is of no known kind, its provider has no embeddings, or lacks what it needs.
    """
    if choice is None or choice == "":
        return None
    if isinstance(choice, (ProviderEmbedder, LocalEmbedder, CheckedEmbedder)):
        return choice
    if isinstance(choice, str) and choice.lstrip().startswith("{"):
        try:
            choice = json.loads(choice)
        except ValueError as error:
            raise ConfigurationError("The embedding configuration looks like JSON but is not valid.") from error
    choice = EmbeddingConfig.parsed(cast("Mapping[str, Any]", choice)) if isinstance(choice, Mapping) else choice
    if isinstance(choice, EmbeddingConfig) and choice.provider in ("local", "sentence-transformers"):
        choice = f"local/{choice.model}"
    if isinstance(choice, str) and choice.startswith(PREFIXES):
        return LocalEmbedder(
            choice,
            dimensions=settings.dimensions,
            batch_size=settings.batch_size,
            timeout_seconds=settings.model_timeout_seconds,
        )
    if isinstance(choice, (str, EmbeddingConfig)):
        return ProviderEmbedder(
            choice,
            dimensions=settings.dimensions,
            batch_size=settings.batch_size,
            timeout_seconds=settings.model_timeout_seconds,
        )
    return CheckedEmbedder(
        choice,
        dimensions=settings.dimensions,
        batch_size=settings.batch_size,
        timeout_seconds=settings.model_timeout_seconds,
    )
