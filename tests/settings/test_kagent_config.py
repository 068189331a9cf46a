"""kagent's configuration, the controller's JSON, as settings."""

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
        {"embedding": {"provider": "anthropic", "model": "claude"}},
        {"embedding": "openai"},
        {"embedding": {"provider": ["openai"], "model": "m"}},
        {"ttl_days": True},
        {"ttl_days": 1.5},
        {"memory": []},
        "{: no json",
        [1],
    ],
)
def test_what_does_not_fit_is_a_configuration_error(config: Any):
    """A block that does not fit is an error of configuration, whatever is wrong with it."""
    with pytest.raises(ConfigurationError):
        MemorySettings.from_kagent(config)
