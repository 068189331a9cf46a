"""Read kagent's memory configuration, the controller's JSON, as settings."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from ..checks import faults
from ..errors import ConfigurationError

Block = TypeVar("Block", bound=BaseModel)
logger = logging.getLogger(__name__)

DIMENSIONS = 768
MIN_SCORE = 0.3
TTL_DAYS = 15
WITHOUT_EMBEDDINGS = frozenset({"anthropic", "gemini_anthropic", "sap_ai_core"})


class EmbeddingConfig(BaseModel):
    """An embedding model as kagent's configuration names it.

    `type` is another name of `provider`, which wins if both are given. Unknown keys are ignored
    with a warning, so that the configuration of a newer controller still loads.

    Attributes:
        provider: kagent's name of the provider: openai, azure_openai, ollama, gemini, vertex_ai (or
            gemini_vertex_ai), bedrock, foundry, or one of LiteLLM's.
        model: the model; a name with a "/" is taken as LiteLLM's own.
        base_url: the URL of the provider, if it is not the usual one.
        api_key_passthrough: accepted, because kagent's JSON has it, but without effect: the key
            always comes from the provider's environment variable, since memory also works when
            there is no caller whose token it could pass on.
        endpoint, deployment, api_version: for Azure; the deployment replaces the model.
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
        """Parse kagent's JSON.

        Raises:
            ConfigurationError: a key is missing or invalid, or the provider has no embeddings.
        """
        return _read(cls, value)


class _MemoryBlock(BaseModel):
    """The `memory` block of the controller's configuration."""

    ttl_days: StrictInt | None = None
    embedding: EmbeddingConfig | None = None


def options(config: object) -> dict[str, Any] | None:
    """Return the settings for a kagent configuration; None if it leaves memory off.

    Args:
        config: the controller's `memory` block (`{}` is on, None is off), its whole config.json, or
            the text of either.

    Raises:
        ConfigurationError: a value is invalid, or the provider has no embeddings.
    """
    try:
        document = json.loads(config or "null") if isinstance(config, str) else config
    except ValueError as error:
        raise ConfigurationError("kagent's configuration is not JSON.") from error
    is_object = isinstance(document, Mapping)
    block = _memory_of(cast("Mapping[str, object]", document)) if is_object else document
    if block is None:
        return None
    memory = _read(_MemoryBlock, block)
    return {
        "embedding": memory.embedding,
        "ttl_days": max(0, memory.ttl_days or 0) or TTL_DAYS,
        "dimensions": DIMENSIONS,
        "min_score": MIN_SCORE,
    }


def _memory_of(document: Mapping[str, object]) -> object:
    """Return the `memory` block of a whole config.json; any other document is the block itself."""
    is_whole = "memory" in document or "model" in document
    return document.get("memory") if is_whole else document


def _read(kind: type[Block], value: object) -> Block:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        fault = ": ".join(filter(None, faults(error)[0]))
        raise ConfigurationError(f"Invalid configuration of kagent: {fault}.") from error
