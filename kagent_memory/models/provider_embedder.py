"""Embedding by a provider: kagent's configuration, the call that it means, and the call itself.

Through LiteLLM where it is installed, else by OpenAI's interface.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..errors import ConfigurationError
from ..settings.kagent_config import WITHOUT_EMBEDDINGS
from .calls import NO_RETRIES, litellm, qualified
from .failures import status_of
from .openai_api import endpoint

logger = logging.getLogger(__name__)

AZURE_API_VERSION = "2024-02-15-preview"
_PREFIXES = {
    "azure_openai": "azure",
    "gemini_vertex_ai": "vertex_ai",
    "foundry": "azure_ai",
    **{
        name: name
        for name in (
            *("azure", "azure_ai", "bedrock", "cohere", "databricks", "gemini", "hosted_vllm"),
            *("huggingface", "jina_ai", "litellm_proxy", "mistral", "nvidia_nim", "ollama"),
            *("together_ai", "vertex_ai", "voyage", "watsonx"),
        )
    },
}
WITH_EMBEDDINGS = ("openai", *_PREFIXES)
_KIND_ARGUMENT = {
    "cohere": ("input_type", {"document": "search_document", "query": "search_query"}),
    "voyage": ("input_type", {"document": "document", "query": "query"}),
}


class EmbeddingConfig(BaseModel):
    """An embedding model as kagent's configuration names it.

    The provider may also be called `type`; `provider` wins when both are there. Keys that are not
    known here are ignored with a warning, so that a newer controller's configuration still loads.

    Attributes:
        provider: kagent's name of it: openai, azure_openai, ollama, gemini, vertex_ai (or
            gemini_vertex_ai), bedrock, foundry, or one of LiteLLM's.
        model: the model; a name with a "/" is taken as LiteLLM's own.
        base_url: where the provider is reached, when it is not at its usual place.
        api_key_passthrough: accepted, for kagent's JSON has it; memory also works when no caller is
            there whose token could be passed on, so the key always comes from the provider's
            environment variable.
        endpoint, deployment, api_version: Azure's; the deployment takes the place of the model.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    provider: str = Field(min_length=1)
    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key_passthrough: bool = False
    endpoint: str | None = None
    deployment: str | None = None
    api_version: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        given: dict[str, Any] = {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] raw JSON
        kind = given.pop("type", None)
        given["provider"] = given.get("provider") or kind
        if unknown := sorted(set(given) - set(cls.model_fields)):
            logger.warning(
                "Unknown keys in the embedding configuration are ignored: %s", ", ".join(unknown)
            )
        return given

    @classmethod
    def parsed(cls, value: Mapping[str, Any]) -> Self:
        """Return the configuration in kagent's JSON.

        Raises:
            ConfigurationError: a key is missing or does not fit.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ConfigurationError(
                f"Invalid embedding configuration: {where}: {first['msg']}."
            ) from error


@dataclass(frozen=True, slots=True)
class Route:
    """LiteLLM call that embeds.

    Attributes:
        name: provider and model, the same however the choice was spelt.
        model: as LiteLLM takes it.
        arguments: further arguments of the call.
    """

    name: str
    model: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def arguments_for(self, kind: str) -> Mapping[str, str]:
        """Return the arguments of a call that embeds documents, or queries."""
        argument = _KIND_ARGUMENT.get(self.name.split("/", 1)[0])
        return {**self.arguments, argument[0]: argument[1][kind]} if argument else self.arguments


def named_route(model: str, environ: Mapping[str, str]) -> Route:
    """Return the route of a LiteLLM model name.

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs.
    """
    name = qualified(model, environ)
    provider, _, rest = name.partition("/")
    _refuse_without_embeddings(provider)
    if not rest or provider not in _PREFIXES:
        return Route(name, name)
    return configured_route(EmbeddingConfig(provider=provider, model=name), environ)


def configured_route(config: EmbeddingConfig, environ: Mapping[str, str]) -> Route:
    """Return the route of kagent's configuration (facts of kagent 0.8 to 0.10: a model with a "/"
    stays as it is).

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs.
    """
    _refuse_without_embeddings(config.provider)
    prefix = _PREFIXES.get(config.provider)
    model = (config.deployment if prefix in ("azure", "azure_ai") else None) or config.model
    if prefix is None:
        if config.provider != "openai":
            logger.warning(
                "Unknown embedding provider %s; calling it as OpenAI-compatible.", config.provider
            )
        first = model.partition("/")[0]
        if "/" in model and (first == "openai" or first in _PREFIXES):
            return Route(model, model, _arguments(config, environ))
        arguments = {**_arguments(config, environ), "custom_llm_provider": "openai"}
        if config.base_url and not environ.get("OPENAI_API_KEY"):
            # servers of one's own seldom want one, and OpenAI's client insists
            arguments["api_key"] = "none"
        return Route(f"openai/{model}", model, arguments)
    name = model if "/" in model else f"{prefix}/{model}"
    return Route(name, name, _arguments(config, environ))


def _refuse_without_embeddings(provider: str) -> None:
    if provider in WITHOUT_EMBEDDINGS:
        raise ConfigurationError(
            f"{provider} has no embedding models; choose one of: "
            f"{', '.join(sorted(WITH_EMBEDDINGS))}."
        )


def _arguments(config: EmbeddingConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a call says beside model and texts: addresses, keys, regions and versions."""

    def first(*names: str) -> str | None:
        return next(filter(None, map(environ.get, names)), None)

    base = config.base_url
    arguments: dict[str, str | None] = {}
    match _PREFIXES.get(config.provider):
        case "azure":
            base = config.endpoint or base or first("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE")
            if not base:
                raise ConfigurationError(
                    "Azure OpenAI needs an endpoint; set base_url or AZURE_OPENAI_ENDPOINT."
                )
            version = first("OPENAI_API_VERSION", "AZURE_API_VERSION") or AZURE_API_VERSION
            arguments["api_version"] = config.api_version or version
            arguments["api_key"] = first("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
        case "azure_ai":
            base = config.endpoint or base
            arguments["api_version"] = config.api_version
        case "bedrock":
            region = first("AWS_DEFAULT_REGION", "AWS_REGION")
            arguments["aws_region_name"] = region or "us-east-1"
        case "vertex_ai":
            arguments["vertex_project"] = first("GOOGLE_CLOUD_PROJECT")
            arguments["vertex_location"] = first("GOOGLE_CLOUD_LOCATION")
        case _:
            pass
    arguments["api_base"] = base.rstrip("/") if base else None
    return {name: value for name, value in arguments.items() if value}


class ProviderEmbedder:
    """Embeds by a provider; see `CheckedEmbedder` for batches, retries and checks.

    Args:
        choice: a LiteLLM model name, or kagent's configuration.
        dimensions: requested of the provider, until it refuses them.
        timeout_seconds: of one request.

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs, or LiteLLM is
            not installed.
    """

    def __init__(
        self, choice: str | EmbeddingConfig, *, dimensions: int | None, timeout_seconds: float
    ) -> None:
        self._route = (
            named_route(choice, os.environ)
            if isinstance(choice, str)
            else configured_route(choice, os.environ)
        )
        self.name = self._route.name
        self._endpoint = endpoint(self.name, self._route.arguments, os.environ)
        self._wanted: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        self._timeout_seconds = timeout_seconds

    async def embed(self, texts: Sequence[str], *, kind: Literal["document", "query"]) -> list[Any]:
        """Return the provider's vectors in the order of the texts.

        Raises:
            Exception: the provider's client failed in its own way.
        """
        try:
            return await self._call(texts, kind, self._wanted)
        except Exception as error:
            if not self._wanted or status_of(error) not in (400, 422):
                raise
            refusal = type(error).__name__
        answer = await self._call(texts, kind, {})
        self._wanted = {}
        logger.info(
            "%s does not accept dimensions (%s); truncating its vectors here.", self.name, refusal
        )
        return answer

    async def _call(self, texts: Sequence[str], kind: str, wanted: dict[str, Any]) -> list[Any]:
        if self._endpoint is not None:
            body: dict[str, object] = {"input": list(texts), "encoding_format": "float", **wanted}
            answer = await self._endpoint.post("/embeddings", body, self._timeout_seconds)
            return vectors(answer["data"])
        module = await litellm()
        allowed = {"allowed_openai_params": list(wanted)} if wanted else {}
        answer = await module.aembedding(
            model=self._route.model,
            input=list(texts),
            timeout=self._timeout_seconds,
            **NO_RETRIES,
            **self._route.arguments_for(kind),
            **wanted,
            **allowed,
        )
        return vectors(answer.data or ())


def vectors(data: Iterable[Any]) -> list[Any]:
    """Return the vectors of an answer in the order of the texts: providers need not sort them."""
    rows: list[dict[str, Any]] = [dict(row) for row in data]
    if {row.get("index") for row in rows} == set(range(len(rows))):
        rows.sort(key=lambda row: row["index"])
    return [row.get("embedding") for row in rows]
