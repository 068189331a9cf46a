"""kagent's memory configuration, read as settings: the controller's JSON, or an Agent with its
ModelConfigs. Pure.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..checks import faults
from ..errors import ConfigurationError

logger = logging.getLogger(__name__)

DIMENSIONS = 768
MIN_SCORE = 0.3
TTL_DAYS = 15
WITHOUT_EMBEDDINGS = frozenset({"anthropic", "gemini_anthropic", "sap_ai_core"})
# of a ModelConfig: our name of its provider, and where the spec names a server
_PROVIDERS = {
    "OpenAI": ("openai", "openAI", "baseUrl"),
    "AzureOpenAI": ("azure_openai", "azureOpenAI", "azureEndpoint"),
    "Anthropic": ("anthropic",),
    "GeminiVertexAI": ("gemini_vertex_ai",),
    "AnthropicVertexAI": ("gemini_anthropic",),
    "Ollama": ("ollama", "ollama", "host"),
    "Gemini": ("gemini",),
    "Bedrock": ("bedrock",),
    "SAPAICore": ("sap_ai_core",),
    "Foundry": ("foundry",),
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
        fields: dict[str, Any] = {str(key): item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] raw JSON
        kind = fields.pop("type", None)
        fields["provider"] = fields.get("provider") or kind
        if unknown := sorted(set(fields) - set(cls.model_fields)):
            logger.warning(
                "Unknown keys in the embedding configuration are ignored: %s", ", ".join(unknown)
            )
        if str(fields["provider"]) in WITHOUT_EMBEDDINGS:
            raise ValueError(
                f"{fields['provider']} has no embedding models; choose one of openai, "
                "azure_openai, ollama, gemini, vertex_ai, bedrock or foundry"
            )
        return fields

    @classmethod
    def parsed(cls, value: object) -> Self:
        """Return the configuration in kagent's JSON.

        Raises:
            ConfigurationError: a key is missing or does not fit, or the provider has no embeddings.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            where, reason = faults(error)[0]
            what = ": ".join(filter(None, (where, reason)))
            raise ConfigurationError(f"Invalid embedding configuration: {what}.") from error


def options(config: object) -> dict[str, Any] | None:
    """Return the settings that a kagent configuration means; None when it leaves memory off.

    Args:
        config: the controller's `memory` block (`{}` is on, None is off), its whole config.json, an
            Agent manifest with the ModelConfig manifests it names (as a sequence), or the text of
            any of these in JSON or YAML.

    Raises:
        ConfigurationError: a value does not fit, a ModelConfig is missing, or its provider has no
            embeddings.
    """
    documents = [document for document in _documents(config) if document is not None]
    for document in documents:
        if _at(document, "spec") is not None and _at(document, "kind") != "ModelConfig":
            return _of_agent(document, documents)
    document = documents[0] if documents else {"memory": None}
    is_whole = not {"memory", "model"}.isdisjoint(document)
    memory = _at(document, "memory") if is_whole else document
    if memory is None:
        return None
    return _settings(_at(memory, "ttl_days"), _at(memory, "embedding"))


def _documents(config: object) -> Sequence[Any]:
    if config is None or isinstance(config, Mapping):
        return [config]
    if isinstance(config, str):
        import yaml

        try:
            return list(yaml.safe_load_all(config))
        except yaml.YAMLError as error:
            raise ConfigurationError("kagent's configuration is neither JSON nor YAML.") from error
    if not isinstance(config, list | tuple):
        raise ConfigurationError(
            f"kagent's configuration must be objects or text, not {type(config).__name__}."
        )
    return cast("Sequence[Any]", config)


def _of_agent(agent: object, documents: Sequence[object]) -> dict[str, Any] | None:
    memory = _at(agent, "spec", "declarative", "memory")
    if memory is None or _at(memory, "enabled") is False:
        return None
    wanted = _at(memory, "modelConfig")
    if not wanted:
        raise ConfigurationError(
            "spec.declarative.memory.modelConfig is missing; name a ModelConfig that embeds."
        )
    namespace = _at(agent, "metadata", "namespace")
    for document in documents:
        is_named = _at(document, "metadata", "name") == wanted
        places = {namespace, _at(document, "metadata", "namespace")} - {None}
        if _at(document, "kind") == "ModelConfig" and is_named and len(places) < 2:
            return _settings(_at(memory, "ttlDays"), embedding_of_model(_at(document, "spec")))
    raise ConfigurationError(
        f"failed to resolve embedding config: the ModelConfig {wanted!r} is missing; pass it "
        "together with the Agent."
    )


def embedding_of_model(spec: object) -> Mapping[str, Any]:
    """Return the embedding configuration of a ModelConfig's spec, as the controller renders it, and
    its server's address.
    """
    named = str(_at(spec, "provider") or "OpenAI")
    if named not in _PROVIDERS:
        known = ", ".join(sorted(_PROVIDERS))
        raise ConfigurationError(f"Unknown provider {named!r}; known: {known}.")
    provider, *address = _PROVIDERS[named]
    return {
        "provider": provider,
        "model": _at(spec, "model"),
        "base_url": _at(spec, *address) if address else None,
        "deployment": _at(spec, "azureOpenAI", "azureDeployment"),
        "api_version": _at(spec, "azureOpenAI", "apiVersion"),
    }


def _settings(ttl_days: Any, embedding: Any) -> dict[str, Any]:
    if type(ttl_days or 0) is not int:
        raise ConfigurationError(f"ttl_days must be a whole number of days, not {ttl_days!r}.")
    return {
        "embedding": None if embedding is None else EmbeddingConfig.parsed(embedding),
        "ttl_days": max(0, ttl_days or 0) or TTL_DAYS,
        "dimensions": DIMENSIONS,
        "min_score": MIN_SCORE,
    }


def _at(document: object, *path: str) -> Any:
    """Return what stands at a path of a document; None where a part of the path is missing."""
    for name in path:
        if document is None:
            break
        if not isinstance(document, Mapping):
            raise ConfigurationError(
                f"kagent's configuration has no object that holds {name}, but "
                f"{type(document).__name__}."
            )
        document = cast("Mapping[str, object]", document).get(name)
    return document
