"""Run embedders and rerankers of fastembed in this process, without torch (extra `[local]`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

from ..errors import ConfigurationError, ModelUnavailable, needs_extra

ORGANISATION = "sentence-transformers/"
PREFIXES = ("local/", ORGANISATION)
HUB_SECONDS = 5.0


class LocalModel:
    """A model of fastembed, loaded on first use in the one thread that runs it.

    Args:
        name: the model's name for us.
        model: fastembed's name of the model.
        module: fastembed's module of such models.
        kind: fastembed's class of such models.

    Raises:
        ConfigurationError: the extra is not installed, or fastembed does not know the model.
    """

    advice: ClassVar[str] = ""

    def __init__(self, name: str, model: str, module: str, kind: str) -> None:
        try:
            self._kind = getattr(import_module(module), kind)
        except ImportError as error:
            raise needs_extra(f"The local model {model}", "local") from error
        models = {row["model"].lower(): row for row in self._kind.list_supported_models()}
        if model.lower() not in models:
            raise ConfigurationError(
                f"fastembed lists no {kind} {model!r}; choose one that it does.{self.advice}"
            )
        self.name = name
        self._description = models[model.lower()]
        self._model = model
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kagent-memory-model")

    @cached_property
    def _loaded(self) -> Any:
        hub, source = import_module("huggingface_hub"), self._description["sources"]["hf"]
        cache = import_module("fastembed.common.utils").define_cache_dir()
        try:
            if source and not hub.try_to_load_from_cache(
                source, self._description["model_file"], cache_dir=cache
            ):
                hub.model_info(
                    source, timeout=HUB_SECONDS
                )  # otherwise fastembed retries for 39 seconds
            return self._kind(self._model)
        except Exception as error:  # of several HTTP clients, of fastembed or of its runtime
            raise ModelUnavailable(f"The files of {self._model} cannot be loaded.") from error

    async def run(self, method: str, *args: Any) -> list[Any]:
        """Return everything that a method of the model yields; load the model first if necessary.

        Raises:
            ModelUnavailable: the model's files are missing and cannot be downloaded.
            Exception: any error of the model.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, lambda: list(getattr(self._loaded, method)(*args))
        )


class LocalEmbedder(LocalModel):
    """Embed with a model of fastembed.

    Args:
        model: "local/" and fastembed's name, in which "sentence-transformers/" may be left out.

    Raises:
        ConfigurationError: see `LocalModel`.
    """

    advice = " Replace the vectors of another embedder with `kagent-memory reembed`."

    def __init__(self, model: str) -> None:
        path = model.removeprefix("local/").removeprefix(ORGANISATION)
        name = f"{ORGANISATION}{path}"
        super().__init__(name, path if "/" in path else name, "fastembed", "TextEmbedding")

    async def embed(self, texts: Sequence[str], *, kind: str) -> list[Any]:
        """Return one vector per text; see `LocalModel.run`."""
        return await self.run("query_embed" if kind == "query" else "passage_embed", list(texts))


class LocalReranker(LocalModel):
    """Rerank with a cross-encoder of fastembed.

    Args:
        model: "local/" and fastembed's name.

    Raises:
        ConfigurationError: see `LocalModel`.
    """

    def __init__(self, model: str) -> None:
        path = model.removeprefix("local/")
        super().__init__(model, path, "fastembed.rerank.cross_encoder", "TextCrossEncoder")

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return one score per document in order; see `LocalModel.run`."""
        return await self.run("rerank", query, list(documents))
