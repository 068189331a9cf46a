"""Model names are checked when a store is opened, without a network."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from memories.opening import ADA

from kagent_memory import CompactionAwareSummary, KagentMemoryService, LlmSummary, Memories
from kagent_memory.errors import ConfigurationError
from kagent_memory.models import calls
from kagent_memory.models.embedding import open_embedder
from kagent_memory.models.llm import open_llm
from kagent_memory.models.reranking import open_reranker
from kagent_memory.settings import MemorySettings

MEMORY = "libsql:///:memory:"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("A name is looked up in the network.")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


UNKNOWN: list[dict[str, Any]] = [
    {"llm": "no_such_provider/x"},
    {"llm": "openai"},
    {"llm": "no-such-model"},
    {"summary": LlmSummary("openai")},
    {"summary": CompactionAwareSummary(LlmSummary("no_such_provider/x"))},
    {"embedding": "no_such_provider/x"},
    {"embedding": "no-such-embedder"},
    {"rerank": "no_such_provider/x"},
]


@pytest.mark.parametrize("options", UNKNOWN, ids=range(len(UNKNOWN)))
async def test_an_unknown_name_is_refused_at_open(options: dict[str, Any]):
    """A name without a known provider is refused at open, with advice on its form."""
    with pytest.raises(
        ConfigurationError, match="has no known provider; write it as <provider>/<model>"
    ):
        await Memories.open(MEMORY, worker=False, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"llm": "groq/any", "embedding": "ollama/nomic-embed-text"},
        {"llm": "gemini-2.5-flash", "embedding": "text-embedding-3-small"},
        {"llm": "gpt-4o", "rerank": "infinity/any"},
        {"embedding": {"provider": "a-gateway", "model": "any", "base_url": "http://localhost:1"}},
    ],
    ids=repr,
)
async def test_known_names_open_without_a_call(options: dict[str, Any]):
    """A store opens with any known model name without a call to its provider."""
    async with await Memories.open(MEMORY, worker=False, **options):
        pass


def test_common_providers_are_litellms():
    """LiteLLM knows every provider on the list of common ones."""
    import litellm

    assert set(litellm.provider_list) >= calls.COMMON_PROVIDERS


async def test_the_name_of_a_model_in_adks_registry_serves():
    """A name in ADK's model registry serves like one of LiteLLM's; no other is accepted."""

    class HouseModel(BaseLlm):
        @classmethod
        def supported_models(cls) -> list[str]:
            return ["house-model-.*"]

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            yield LlmResponse()

    LLMRegistry.register(HouseModel)
    async with KagentMemoryService(MEMORY, llm="house-model-1") as service:
        await service.memories.stats(ADA)
    service = KagentMemoryService(MEMORY, llm="foreign-model-1")
    with pytest.raises(ConfigurationError, match="foreign-model-1"):
        await service.memories.stats(ADA)
    await service.close()


@pytest.mark.parametrize("off", ["false", "False", "off"])
async def test_the_text_false_means_no_model(off: str):
    """The texts "false" and "off", in any case, mean no model."""
    async with await Memories.open(MEMORY, worker=False, llm=off) as memories:
        assert not memories.providers.needs_model


class Nameless:
    async def complete(self) -> None: ...

    embed = rerank = complete


NO_CHOICE = [
    *((open_model, choice) for open_model in (open_embedder, open_llm) for choice in (None, "")),
    (open_llm, False),
    (open_reranker, None),
]
UNFIT = [
    *(
        (open_model, choice)
        for open_model in (open_embedder, open_llm, open_reranker)
        for choice in (42, object(), Nameless, Nameless())
    ),
    (open_llm, True),
    (open_llm, " "),
    (open_reranker, "no-provider"),
]


@pytest.mark.parametrize(("open_model", "choice"), NO_CHOICE)
def test_no_choice_is_no_model(open_model: Any, choice: Any):
    """None, an empty text and, for a language model, False mean no model."""
    assert open_model(choice, MemorySettings()) is None


@pytest.mark.parametrize(("open_model", "choice"), UNFIT)
def test_what_is_no_model_is_refused_at_open(open_model: Any, choice: Any):
    """An object without a name or the method is refused when it is opened as a model."""
    with pytest.raises(ConfigurationError):
        open_model(choice, MemorySettings())
