"""kagent's configuration as settings: the controller's JSON, and an Agent with its ModelConfig."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.settings import EmbeddingConfig, MemorySettings

OPENAI = {"provider": "openai", "model": "text-embedding-3-small"}


def on(config: Any) -> MemorySettings:
    settings = MemorySettings.from_kagent(config)
    assert settings is not None
    return settings


@pytest.mark.parametrize(
    ("block", "embedding", "ttl_days"),
    [
        ({}, None, 15),
        ({"embedding": OPENAI}, OPENAI, 15),
        ({"ttl_days": 30, "embedding": OPENAI}, OPENAI, 30),
        ({"embedding": {"type": "openai", "model": "m"}}, {"provider": "openai", "model": "m"}, 15),
        (
            {"embedding": {"provider": "", "type": "ollama", "model": "m"}},
            {"provider": "ollama", "model": "m"},
            15,
        ),
        ({"embedding": {**OPENAI, "type": "ollama"}}, OPENAI, 15),
        (
            {"embedding": {**OPENAI, "base_url": "http://x/v1"}},
            {**OPENAI, "base_url": "http://x/v1"},
            15,
        ),
    ],
)
@pytest.mark.parametrize("shape", [lambda b: b, lambda b: {"memory": b, "model": {}}, json.dumps])
def test_the_controllers_block_becomes_settings(
    block: Any, embedding: Any, ttl_days: int, shape: Any
):
    """The controller's block, bare, nested or as JSON, gives the embedder and the TTL."""
    settings = on(shape(block))
    assert settings.embedding == (EmbeddingConfig(**embedding) if embedding else None)
    assert settings.ttl_days == ttl_days
    assert (settings.dimensions, settings.min_score) == (768, 0.3)


@pytest.mark.parametrize(
    "config", [None, {"memory": None}, {"model": {"type": "openai"}}, "null", ""]
)
def test_memory_is_off_without_a_block(config: Any):
    """A configuration that has no memory block gives no settings."""
    assert MemorySettings.from_kagent(config) is None


@pytest.mark.parametrize(
    "config",
    [
        {"embedding": {"provider": "openai"}},
        {"embedding": {"model": "m"}},
        {"embedding": {"provider": "anthropic", "model": "claude"}},
        {"embedding": "openai"},
        {"embedding": {"provider": ["openai"], "model": "m"}},
        {"ttl_days": "soon"},
        {"ttl_days": True},
        {"ttl_days": 1.5},
        {"memory": []},
        "{: not yaml",
        [1],
        7,
        b"{}",
    ],
)
def test_what_does_not_fit_is_a_configuration_error(config: Any):
    """A block that does not fit is an error of configuration, whatever is wrong with it."""
    with pytest.raises(ConfigurationError):
        MemorySettings.from_kagent(config)


def manifests(memory: str, spec: str) -> str:
    return f"""
apiVersion: kagent.dev/v1alpha2
kind: Agent
metadata: {{name: helper, namespace: shop}}
spec:
  type: Declarative
  declarative:
    memory: {memory}
---
apiVersion: kagent.dev/v1alpha2
kind: ModelConfig
metadata: {{name: embed, namespace: shop}}
spec: {spec}
"""


MEMORY = "{modelConfig: embed, ttlDays: 7}"


@pytest.mark.parametrize(
    ("spec", "embedding"),
    [
        ("{provider: OpenAI, model: m}", {"provider": "openai", "model": "m"}),
        (
            '{provider: OpenAI, model: m, openAI: {baseUrl: "http://x"}}',
            {"provider": "openai", "model": "m", "base_url": "http://x"},
        ),
        (
            '{provider: Ollama, model: m, ollama: {host: "http://o:11434"}}',
            {"provider": "ollama", "model": "m", "base_url": "http://o:11434"},
        ),
        (
            '{provider: AzureOpenAI, model: m, azureOpenAI: {azureEndpoint: "https://a", '
            'apiVersion: "1", '
            "azureDeployment: d}}",
            {
                "provider": "azure_openai",
                "model": "m",
                "base_url": "https://a",
                "deployment": "d",
                "api_version": "1",
            },
        ),
        ("{provider: GeminiVertexAI, model: m}", {"provider": "gemini_vertex_ai", "model": "m"}),
    ],
)
def test_an_agents_model_config_becomes_its_embedder(spec: str, embedding: dict[str, Any]):
    """The ModelConfig that an Agent's memory names becomes its embedder, address included."""
    settings = on(manifests(MEMORY, spec))
    assert (settings.embedding, settings.ttl_days) == (EmbeddingConfig(**embedding), 7)
    assert (settings.dimensions, settings.min_score) == (768, 0.3)


def test_enabled_is_accepted_and_false_means_off():
    """An Agent's memory is on where it has a block, unless that says `enabled: false`."""
    spec = "{provider: Ollama, model: m}"
    assert on(manifests("{enabled: true, modelConfig: embed}", spec)).ttl_days == 15
    assert (
        MemorySettings.from_kagent(manifests("{enabled: false, modelConfig: embed}", spec)) is None
    )
    assert MemorySettings.from_kagent(manifests("null", spec)) is None


@pytest.mark.parametrize(
    ("memory", "spec", "text"),
    [
        ("{ttlDays: 7}", "{provider: Ollama, model: m}", "modelConfig is missing"),
        (
            "{modelConfig: other}",
            "{provider: Ollama, model: m}",
            "failed to resolve embedding config",
        ),
        (MEMORY, "{provider: Anthropic, model: m}", "anthropic has no embedding models"),
        (
            MEMORY,
            "{provider: AnthropicVertexAI, model: m}",
            "gemini_anthropic has no embedding models",
        ),
        (MEMORY, "{provider: Unheard, model: m}", "Unknown provider"),
    ],
)
def test_an_unresolvable_embedder_is_a_clear_error(memory: str, spec: str, text: str):
    """An Agent's memory without a usable embedder is refused with the reason."""
    with pytest.raises(ConfigurationError, match=text):
        MemorySettings.from_kagent(manifests(memory, spec))
