"""kagent's embedding configuration, and which LiteLLM call it means: pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...errors import ConfigurationError
from ...settings.kagent_config import WITHOUT_EMBEDDINGS
from ..calls import qualified

logger = logging.getLogger(__name__)

AZURE_API_VERSION = "2024-02-15-preview"
_PREFIXES = {
    "azure_openai": "azure",
    "azure": "azure",
    "ollama": "ollama",
    "vertex_ai": "vertex_ai",
    "gemini_vertex_ai": "vertex_ai",
    "gemini": "gemini",
    "bedrock": "bedrock",
    "foundry": "azure_ai",
    "azure_ai": "azure_ai",
    **{name: name for name in ("cohere", "databricks", "hosted_vllm", "huggingface", "jina_ai", "litellm_proxy")},
    **{name: name for name in ("mistral", "nvidia_nim", "together_ai", "voyage", "watsonx")},
}
WITH_EMBEDDINGS = ("openai", *_PREFIXES)
_KIND_ARGUMENT = {
    "cohere": ("input_type", {"document": "search_document", "query": "search_query"}),
    "voyage": ("input_type", {"document": "document", "query": "query"}),
}


class EmbeddingConfig(BaseModel):
    """An embedding model as kagent's configuration names it.

    The provider may also be called `type`; `provider` wins when both are there. Keys that are not known here are
    ignored with a warning, so that a newer controller's configuration still loads.

    Attributes:
        provider: kagent's name of it: openai, azure_openai, ollama, gemini, vertex_ai (or gemini_vertex_ai), bedrock,
            foundry, or one of LiteLLM's.
        model: the model; a name with a "/" is taken as LiteLLM's own.
        base_url: where the provider is reached, when it is not at its usual place.
        api_key_passthrough: accepted, for kagent's JSON has it; memory also works when no caller is there whose token
            could be passed on, so the key always comes from the provider's environment variable.
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
            logger.warning("Unknown keys in the embedding configuration are ignored: %s", ", ".join(unknown))
        return given

    @classmethod
    def parsed(cls, value: Mapping[str, Any]) -> Self:
        """The configuration in kagent's JSON.

        Raises:
            ConfigurationError: a key is missing or does not fit.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ConfigurationError(f"Invalid embedding configuration: {where}: {first['msg']}.") from error


@dataclass(frozen=True, slots=True)
class Route:
    """Which LiteLLM call embeds.

    Attributes:
        name: provider and model, the same however the choice was spelt.
        model: as LiteLLM takes it.
        arguments: further arguments of the call.
    """

    name: str
    model: str
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def arguments_for(self, kind: str) -> Mapping[str, str]:
        """The arguments of a call that embeds documents, or queries."""
        argument = _KIND_ARGUMENT.get(self.name.split("/", 1)[0])
        return {**self.arguments, argument[0]: argument[1][kind]} if argument else self.arguments


def named_route(model: str, environ: Mapping[str, str]) -> Route:
    """The route of a LiteLLM model name.

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs.
    """
    name = qualified(model, environ)
    provider, _, rest = name.partition("/")
    _refuse_without_embeddings(provider)
    if not rest or provider == "openai":
        return Route(name, name)
    return Route(name, name, _arguments(EmbeddingConfig(provider=provider, model=name), environ))


def configured_route(config: EmbeddingConfig, environ: Mapping[str, str]) -> Route:
    """The route of kagent's configuration (facts of kagent 0.8 to 0.10: a model with a "/" stays as it is).

    Raises:
        ConfigurationError: the provider has no embeddings, or lacks what it needs.
    """
    _refuse_without_embeddings(config.provider)
    prefix = _PREFIXES.get(config.provider)
    model = (config.deployment if prefix in ("azure", "azure_ai") else None) or config.model
    if prefix is None:
        if config.provider != "openai":
            logger.warning("Unknown embedding provider %s; calling it as OpenAI-compatible.", config.provider)
        first = model.partition("/")[0]
        if "/" in model and (first == "openai" or first in _PREFIXES):
            return Route(model, model, _base(config))
        arguments = {**_base(config), "custom_llm_provider": "openai"}
        if config.base_url and not environ.get("OPENAI_API_KEY"):
            arguments["api_key"] = "none"  # servers of one's own seldom want one, and OpenAI's client insists
        return Route(f"openai/{model}", model, arguments)
    name = model if "/" in model else f"{prefix}/{model}"
    return Route(name, name, _arguments(config, environ))


def _refuse_without_embeddings(provider: str) -> None:
    if provider in WITHOUT_EMBEDDINGS:
        raise ConfigurationError(
            f"{provider} has no embedding models; choose one of: {', '.join(sorted(WITH_EMBEDDINGS))}."
        )


def _base(config: EmbeddingConfig) -> dict[str, str]:
    return {"api_base": config.base_url.rstrip("/")} if config.base_url else {}


def _arguments(config: EmbeddingConfig, environ: Mapping[str, str]) -> Mapping[str, str]:
    match _PREFIXES.get(config.provider):
        case "azure":
            endpoint = (
                config.endpoint
                or config.base_url
                or environ.get("AZURE_OPENAI_ENDPOINT")
                or environ.get("AZURE_API_BASE")
            )
            if not endpoint:
                raise ConfigurationError("Azure OpenAI needs an endpoint; set base_url or AZURE_OPENAI_ENDPOINT.")
            version = config.api_version or environ.get("OPENAI_API_VERSION") or environ.get("AZURE_API_VERSION")
            return {
                "api_base": endpoint.rstrip("/"),
                "api_version": version or AZURE_API_VERSION,
                **_present(api_key=environ.get("AZURE_OPENAI_API_KEY") or environ.get("AZURE_API_KEY")),
            }
        case "azure_ai":
            return _present(api_base=config.endpoint or config.base_url, api_version=config.api_version)
        case "bedrock":
            region = environ.get("AWS_DEFAULT_REGION") or environ.get("AWS_REGION") or "us-east-1"
            return {**_base(config), "aws_region_name": region}
        case "vertex_ai":
            return {
                **_base(config),
                **_present(
                    vertex_project=environ.get("GOOGLE_CLOUD_PROJECT"),
                    vertex_location=environ.get("GOOGLE_CLOUD_LOCATION"),
                ),
            }
        case _:
            return _base(config)


def _present(**arguments: str | None) -> dict[str, str]:
    return {name: value for name, value in arguments.items() if value}
