"""Embedders: whatever the user chose becomes an `Embedder` whose answers are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ...errors import ConfigurationError
from ...settings import MemorySettings
from ..calls import MAX_RETRIES, check_provider
from ..onnx import PREFIXES, LocalEmbedder
from .checked_embedder import CheckedEmbedder
from .provider_embedder import EmbeddingConfig, ProviderEmbedder

__all__ = ["CheckedEmbedder", "Embedder", "EmbedderChoice", "EmbeddingConfig", "open_embedder"]


class Embedder(Protocol):
    """Turns texts into vectors. Any object of this shape will do.

    Attributes:
        name: says which model this is; vectors of two names never mix.
    """

    @property
    def name(self) -> str:
        """Return which model this is."""
        ...

    async def embed(
        self, texts: Sequence[str], *, kind: Literal["document", "query"]
    ) -> npt.NDArray[np.float32]:
        """Return one row per text, float32 (n, d)."""
        ...


EmbedderChoice: TypeAlias = str | EmbeddingConfig | Mapping[str, Any] | Embedder | None
"""What makes an embedder: a model name, kagent's configuration of one, or an object with
`embed`.
"""


def open_embedder(choice: Any, settings: MemorySettings) -> Embedder | None:
    """Return the embedder of a choice: None, a model name, kagent's configuration, or any embedder.

    No model is loaded or called. The name of an uncommon provider imports LiteLLM: call this in a
    thread.

    Raises:
        ConfigurationError: the choice is of no known kind, its provider is unknown, has no
            embeddings, or lacks what it needs.
    """
    if choice is None or choice == "" or isinstance(choice, CheckedEmbedder):
        return choice or None
    if isinstance(choice, str) and choice.lstrip().startswith("{"):
        try:
            choice = json.loads(choice)
        except ValueError as error:
            raise ConfigurationError(
                "The embedding configuration looks like JSON but is not valid."
            ) from error
    if isinstance(choice, Mapping):
        choice = EmbeddingConfig.parsed(cast("Mapping[str, Any]", choice))
    if isinstance(choice, EmbeddingConfig) and f"{choice.provider}/" in PREFIXES:
        choice = f"local/{choice.model}"
    if isinstance(choice, str) and choice.startswith(PREFIXES):
        return CheckedEmbedder(LocalEmbedder(choice), settings, ours=True)
    if isinstance(choice, (str, EmbeddingConfig)):
        seconds = settings.model_timeout_seconds
        embedder = ProviderEmbedder(choice, dimensions=settings.dimensions, timeout_seconds=seconds)
        check_provider(embedder.name)
        return CheckedEmbedder(embedder, settings, retries=MAX_RETRIES, ours=True)
    return CheckedEmbedder(choice, settings)
