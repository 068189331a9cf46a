"""kagent's memory configuration, read as settings: the controller's JSON, or an Agent with its
ModelConfigs. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from ..errors import ConfigurationError

Document: TypeAlias = Mapping[str, Any]

DIMENSIONS = 768
MIN_SCORE = 0.3
TTL_DAYS = 15
WITHOUT_EMBEDDINGS = frozenset({"anthropic", "gemini_anthropic", "sap_ai_core"})
_TYPES = {
    "OpenAI": "openai",
    "AzureOpenAI": "azure_openai",
    "Anthropic": "anthropic",
    "GeminiVertexAI": "gemini_vertex_ai",
    "AnthropicVertexAI": "gemini_anthropic",
    "Ollama": "ollama",
    "Gemini": "gemini",
    "Bedrock": "bedrock",
    "SAPAICore": "sap_ai_core",
    "Foundry": "foundry",
}
_ADDRESSES = {  # where a ModelConfig of each provider names its server
    "openai": ("openAI", "baseUrl"),
    "anthropic": ("anthropic", "baseUrl"),
    "sap_ai_core": ("sapAICore", "baseUrl"),
    "ollama": ("ollama", "host"),
    "azure_openai": ("azureOpenAI", "azureEndpoint"),
}


def options(config: object) -> dict[str, Any] | None:
    """The settings that a kagent configuration means; None when it leaves memory off.

    `config`: the controller's `memory` block (`{}` is on, None is off), its whole config.json, an
    Agent manifest with the ModelConfig manifests it names (as a sequence), or the text of any of
    these in JSON or YAML.

    Raises:
        ConfigurationError: a value does not fit, a ModelConfig is missing, or its provider has no
            embeddings.
    """
    documents = list(_documents(config))
    agents = [
        document
        for document in documents
        if "spec" in document and document.get("kind") != "ModelConfig"
    ]
    if agents:
        agent = agents[0]
        declarative = _mapping(
            _mapping(agent["spec"], "spec").get("declarative") or {}, "spec.declarative"
        )
        if declarative.get("memory") is None:
            return None
        memory = _mapping(declarative["memory"], "spec.declarative.memory")
        if memory.get("enabled") is False:
            return None
        name = memory.get("modelConfig")
        if not name:
            raise ConfigurationError(
                "spec.declarative.memory.modelConfig is missing; name a ModelConfig that embeds."
            )
        return _settings(
            memory.get("ttlDays") or 0, _embedding(_resolved(str(name), agent, documents))
        )
    if not documents:
        return None
    document = documents[0]
    is_whole = "memory" in document or "model" in document
    block = document.get("memory") if is_whole else document
    if block is None:
        return None
    memory = _mapping(block, "memory")
    embedding = memory.get("embedding")
    return _settings(
        memory.get("ttl_days") or 0,
        None if embedding is None else _embedding(_mapping(embedding, "memory.embedding")),
    )


def _documents(config: object) -> Iterator[Document]:
    if config is None:
        return
    if isinstance(config, str):
        import yaml

        try:
            config = list(yaml.safe_load_all(config))
        except yaml.YAMLError as error:
            raise ConfigurationError("kagent's configuration is neither JSON nor YAML.") from error
    if isinstance(config, bytes) or not isinstance(config, Mapping | Sequence):
        raise ConfigurationError(
            f"kagent's configuration must be objects or text, not {type(config).__name__}."
        )
    several = (
        [cast("object", config)]
        if isinstance(config, Mapping)
        else cast("Sequence[object]", config)
    )
    for document in several:
        if document is not None:
            yield _mapping(document, "the configuration")


def _resolved(name: str, agent: Document, documents: Sequence[Document]) -> Document:
    namespace = _metadata(agent).get("namespace")
    for document in documents:
        meta = _metadata(document)
        same_place = namespace is None or meta.get("namespace") in (None, namespace)
        if document.get("kind") == "ModelConfig" and meta.get("name") == name and same_place:
            return embedding_of_model(
                _mapping(document.get("spec") or {}, f"ModelConfig {name}: spec")
            )
    raise ConfigurationError(
        f"failed to resolve embedding config: the ModelConfig {name!r} is missing; pass it "
        "together with the Agent."
    )


def embedding_of_model(spec: Document) -> Document:
    """The embedding configuration of a ModelConfig's spec, as the controller renders it, and its
    server's address.
    """
    provider = _TYPES.get(str(spec.get("provider") or "OpenAI"))
    if provider is None:
        raise ConfigurationError(
            f"Unknown provider {spec.get('provider')!r}; known: {', '.join(sorted(_TYPES))}."
        )
    config: dict[str, Any] = {"provider": provider, "model": str(spec.get("model") or "")}
    section, key = _ADDRESSES.get(provider, ("", ""))
    if address := _mapping(spec.get(section) or {}, section).get(key):
        config["base_url"] = str(address)
    azure = _mapping(spec.get("azureOpenAI") or {}, "azureOpenAI")
    if provider == "azure_openai":
        pairs = {"deployment": azure.get("azureDeployment"), "api_version": azure.get("apiVersion")}
        config.update({name: str(value) for name, value in pairs.items() if value})
    return config


def _embedding(config: Document) -> Document:
    provider = config.get("provider") or config.get("type")
    if not provider or not config.get("model"):
        raise ConfigurationError("memory.embedding needs a provider (or type) and a model.")
    if provider in WITHOUT_EMBEDDINGS:
        raise ConfigurationError(
            f"{provider} has no embedding models; name one of openai, azure_openai, ollama, "
            "gemini, vertex_ai, "
            "bedrock or foundry for memory."
        )
    others = {
        name: value for name, value in config.items() if name != "type" and value not in (None, "")
    }
    return {**others, "provider": str(provider), "model": str(config["model"])}


def _settings(ttl_days: object, embedding: Document | None) -> dict[str, Any]:
    if isinstance(ttl_days, bool) or not isinstance(ttl_days, int):
        raise ConfigurationError(f"ttl_days must be a whole number of days, not {ttl_days!r}.")
    return {
        "embedding": embedding,
        "ttl_days": ttl_days if ttl_days > 0 else TTL_DAYS,
        "dimensions": DIMENSIONS,
        "min_score": MIN_SCORE,
    }


def _metadata(document: Document) -> Document:
    return _mapping(document.get("metadata") or {}, "metadata")


def _mapping(value: object, where: str) -> Document:
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be an object, not {type(value).__name__}.")
    return cast("Document", value)
