"""LiteLLM's call for each configuration of an embedder: kagent's names in both spellings, and
LiteLLM's own.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kagent_memory.errors import ConfigurationError
from kagent_memory.models.calls import qualified
from kagent_memory.models.provider_embedder import route_of
from kagent_memory.settings import EmbeddingConfig


def config(**keys: object) -> EmbeddingConfig:
    return EmbeddingConfig.parsed(keys)


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "text-embedding-3-small", "openai/text-embedding-3-small"),
        ("azure_openai", "my-deployment", "azure/my-deployment"),
        ("ollama", "nomic-embed-text", "ollama/nomic-embed-text"),
        ("vertex_ai", "text-embedding-005", "vertex_ai/text-embedding-005"),
        ("gemini", "gemini-embedding-001", "gemini/gemini-embedding-001"),
        ("bedrock", "amazon.titan-embed-text-v2:0", "bedrock/amazon.titan-embed-text-v2:0"),
        ("foundry", "embed-v4", "azure_ai/embed-v4"),
        ("ollama", "ollama/nomic-embed-text", "ollama/nomic-embed-text"),
        ("somebody-new", "their-model", "openai/their-model"),
    ],
)
def test_each_provider_of_kagent_becomes_litellms_prefix(provider: str, model: str, expected: str):
    """A provider of kagent becomes LiteLLM's prefix, exactly once."""
    name, _ = route_of(config(provider=provider, model=model, base_url="http://h"), {})
    assert name == expected


@pytest.mark.parametrize("provider", ["anthropic", "gemini_anthropic", "sap_ai_core"])
def test_a_provider_without_embeddings_is_refused(provider: str):
    """A provider without embeddings is refused, with the names of those that have them."""
    message = rf"{provider} has no embedding models; .*gemini"
    with pytest.raises(ConfigurationError, match=message):
        config(provider=provider, model="m")
    with pytest.raises(ConfigurationError, match=message):
        route_of(f"{provider}/m", {})


def test_unknown_keys_are_ignored_and_named(caplog: pytest.LogCaptureFixture):
    """Unknown keys of a model's block are ignored with a warning that shows no value."""
    with caplog.at_level(logging.WARNING):
        parsed = config(
            provider="openai", model="m", api_key_passthrough=True, from_the_future="secret value"
        )
    assert parsed.api_key_passthrough
    assert "from_the_future" in caplog.text
    assert "secret value" not in caplog.text


def test_one_model_has_one_name_however_it_is_spelt():
    """An embedder has one name in all spellings."""
    name, whole = "text-embedding-3-small", "openai/text-embedding-3-small"
    of_kagent = (config(provider="openai", model=name), config(type="openai", model=whole))
    assert {route_of(choice, {})[0] for choice in (name, whole, *of_kagent)} == {whole}


AZURE = {"provider": "azure_openai", "model": "m", "deployment": "d"}
AT, DEFAULT = {"AZURE_OPENAI_ENDPOINT": "http://e/"}, "2024-02-15-preview"
PLACED = {"endpoint": "http://p", "base_url": "http://b", "api_version": "v2"}


@pytest.mark.parametrize(
    ("choice", "environ", "arguments"),
    [
        (AZURE | {"base_url": "http://b/"}, AT, ("http://b", DEFAULT)),
        (AZURE, AT, ("http://e", DEFAULT)),
        (AZURE, AT | {"OPENAI_API_VERSION": "v1"}, ("http://e", "v1")),
        (AZURE | PLACED, {}, ("http://p", "v2")),
        ("bedrock/m", {"AWS_DEFAULT_REGION": "a", "AWS_REGION": "b"}, ("a",)),
        ("bedrock/m", {"AWS_REGION": "b"}, ("b",)),
        ("bedrock/m", {}, ("us-east-1",)),
        (
            "vertex_ai/text-embedding-005",
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"},
            ("p", "l"),
        ),
    ],
)
def test_a_clouds_place_is_looked_for_in_order(
    choice: Any, environ: dict[str, str], arguments: tuple[str, ...]
):
    """Endpoint, version, region and project come from the configuration, then from the cloud's own
    variables.
    """
    _, options = route_of(choice if isinstance(choice, str) else config(**choice), environ)
    assert {*options.values()} == {*arguments}


@pytest.mark.parametrize("choice", [config(provider="azure_openai", model="m"), "azure/m"])
def test_azure_without_an_endpoint_is_refused(choice: str | EmbeddingConfig):
    """Azure without an endpoint is refused, with the places to set it."""
    with pytest.raises(ConfigurationError, match="set base_url or AZURE_OPENAI_ENDPOINT"):
        route_of(choice, {})


@pytest.mark.parametrize(
    ("name", "environ", "expected"),
    [
        ("gemini-embedding-001", {}, "gemini/gemini-embedding-001"),
        ("gemini-2.5-flash", {}, "gemini/gemini-2.5-flash"),
        ("gemini-2.5-flash", {"GOOGLE_GENAI_USE_VERTEXAI": "True"}, "vertex_ai/gemini-2.5-flash"),
        ("text-embedding-005", {}, "vertex_ai/text-embedding-005"),
        ("gpt-4o", {}, "gpt-4o"),
        ("anything/with/a/slash", {"GOOGLE_GENAI_USE_VERTEXAI": "1"}, "anything/with/a/slash"),
    ],
)
def test_bare_names_get_their_provider(name: str, environ: dict[str, str], expected: str):
    """A bare name gets its usual provider, or Vertex AI if the environment says so."""
    assert qualified(name, environ) == expected
