"""Embed through a provider, named by a model name or by kagent's configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from ..errors import ConfigurationError
from ..settings import EmbeddingConfig
from .calls import COMMON_PROVIDERS, call_litellm, qualified
from .failures import status_of

logger = logging.getLogger(__name__)

_PREFIXES = {
    **{name: name for name in COMMON_PROVIDERS - {"openai"}},
    "azure_openai": "azure",
    "gemini_vertex_ai": "vertex_ai",
    "foundry": "azure_ai",
}
"""LiteLLM's prefix of a model, by the provider's name for kagent or for LiteLLM."""
_VARIABLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "azure": {
        "api_base": ("AZURE_OPENAI_ENDPOINT AZURE_API_BASE", ""),
        "api_key": ("AZURE_OPENAI_API_KEY AZURE_API_KEY", ""),
        "api_version": ("OPENAI_API_VERSION AZURE_API_VERSION", "2024-02-15-preview"),
    },
    "bedrock": {"aws_region_name": ("AWS_DEFAULT_REGION AWS_REGION", "us-east-1")},
    "vertex_ai": {
        "vertex_project": ("GOOGLE_CLOUD_PROJECT", ""),
        "vertex_location": ("GOOGLE_CLOUD_LOCATION", ""),
    },
}
"""By prefix and argument: the variables that fill it if the configuration does not, the first one
set wins, and its default."""
_INPUT_TYPES = {"cohere": "search_{}", "voyage": "{}"}
"""The input type of documents and queries, by the provider that tells them apart."""


def route_of(
    choice: str | EmbeddingConfig, environ: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """Return LiteLLM's canonical name of a model and the other arguments of its calls.

    Args:
        choice: a LiteLLM model name, or kagent's configuration, in which a model with a "/" is
            LiteLLM's own name.
        environ: the environment variables.

    Raises:
        ConfigurationError: the provider has no embeddings, or a required value is missing.
    """
    if isinstance(choice, str):
        name = qualified(choice, environ)
        provider, _, model = name.partition("/")
        config = EmbeddingConfig.parsed({"provider": provider, "model": name})
        if not model or provider not in _PREFIXES:
            return name, {}
    else:
        config = choice
    prefix = _PREFIXES.get(config.provider)
    model = config.deployment or config.model
    arguments = _arguments(config, environ)
    if prefix is not None:
        return model if "/" in model else f"{prefix}/{model}", arguments
    if config.provider != "openai":
        logger.warning(
            "Unknown embedding provider %s; calling it as OpenAI-compatible.", config.provider
        )
    if "/" in model and model.partition("/")[0] in COMMON_PROVIDERS:
        return model, arguments
    if "api_base" in arguments and not environ.get("OPENAI_API_KEY"):
        # OpenAI's client insists on a key, which most self-hosted servers do not need
        arguments["api_key"] = "none"
    return f"openai/{model}", arguments


def _arguments(config: EmbeddingConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the further arguments of a call: addresses, keys, regions and versions."""
    prefix = _PREFIXES.get(config.provider, "")
    base = config.endpoint or config.base_url
    arguments = {"api_base": base, "api_version": config.api_version}
    for name, (variables, default) in _VARIABLES.get(prefix, {}).items():
        value = next(filter(None, map(environ.get, variables.split())), default)
        arguments[name] = arguments.get(name) or value
    if prefix == "azure" and not arguments["api_base"]:
        raise ConfigurationError(
            "Azure OpenAI needs an endpoint; set base_url or AZURE_OPENAI_ENDPOINT."
        )
    arguments["api_base"] = (arguments["api_base"] or "").rstrip("/")
    return {name: value for name, value in arguments.items() if value}


class ProviderEmbedder:
    """Embed through a provider; see `CheckedEmbedder` for batches, time-outs, retries and checks.

    Args:
        choice: a LiteLLM model name, or kagent's configuration.
        dimensions: the dimensions to request, until the provider refuses the parameter.

    Raises:
        ConfigurationError: the provider has no embeddings, or a required value is missing.
    """

    def __init__(self, choice: str | EmbeddingConfig, dimensions: int | None) -> None:
        self.name, self._arguments = route_of(choice, os.environ)
        self._input_type = _INPUT_TYPES.get(self.name.partition("/")[0])
        self._dimensions = dimensions

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[Any]:
        """Return the provider's vectors in the order of the texts.

        Raises:
            Exception: any error of the provider's client.
        """
        if self._dimensions is None:
            return await self._call(texts, kind)
        try:
            return await self._call(texts, kind, dimensions=self._dimensions)
        except Exception as error:
            if status_of(error) not in (400, 422):
                raise
            refusal = type(error).__name__
        answer = await self._call(texts, kind)
        self._dimensions = None
        logger.info(
            "%s does not accept dimensions (%s); truncating its vectors here.", self.name, refusal
        )
        return answer

    async def _call(self, texts: Sequence[str], kind: str, **options: int) -> list[Any]:
        body: dict[str, Any] = {"input": list(texts), **options}
        if options:
            body["allowed_openai_params"] = list(options)
        if self._input_type is not None:
            body["input_type"] = self._input_type.format(kind)
        answer = await call_litellm("aembedding", self.name, **body, **self._arguments)
        return vectors(answer["data"] or ())


def vectors(data: Iterable[Any]) -> list[Any]:
    """Return the vectors of an answer in the order of the texts, which providers need not keep."""
    rows: list[dict[str, Any]] = [dict(row) for row in data]
    if {row.get("index") for row in rows} == set(range(len(rows))):
        rows.sort(key=lambda row: row["index"])
    return [row.get("embedding") for row in rows]
