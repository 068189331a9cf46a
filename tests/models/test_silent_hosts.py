"""Hosts that accept and read everything and never answer: every call ends within its time limit."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google.adk.models.lite_llm import LiteLlm
from loopback import hang_up
from pydantic import BaseModel
from relay import Relay

from kagent_memory.adk.adk_llm import checked_llm
from kagent_memory.errors import ModelError, StoreError
from kagent_memory.models.calls import litellm
from kagent_memory.models.embedding import open_embedder
from kagent_memory.models.llm import open_llm
from kagent_memory.models.reranking import open_reranker
from kagent_memory.remote import RemoteMemories
from kagent_memory.settings import EmbeddingConfig, MemorySettings

SHORT = MemorySettings(model_timeout_seconds=1, search_timeout_seconds=1)
SOON = 60.0  # generous: what is tested is that it ends at all


pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


class Facts(BaseModel):
    facts: list[str]


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    await litellm()  # its import takes seconds, which are not the network's
    yield
    await hang_up()
    gc.collect()  # LiteLLM, cancelled between two threads, drops a coroutine that it has not begun


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The base URL of a host that never answers."""
    for key in ("OPENAI_API_KEY", "COHERE_API_KEY", "JINA_AI_API_KEY"):
        monkeypatch.setenv(key, "not-a-key")
    with Relay() as relay:
        url = f"http://127.0.0.1:{relay.port}"
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        monkeypatch.setenv("OLLAMA_API_BASE", url)
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", f"{url}/v1")
        yield url


async def test_every_model_call_ends_within_its_bound(silent):
    """A call of any kind of model ends in a ModelError."""
    base, embeddings = f"{silent}/v1", [f"{name}/any" for name in ("openai", "ollama")]
    config = EmbeddingConfig(provider="openai", model="any", base_url=base)
    embedders: list[Any] = [open_embedder(choice, SHORT) for choice in (*embeddings, config)]
    llms: list[Any] = [open_llm(f"{name}/any", SHORT) for name in ("openai", "hosted_vllm")]
    llms.append(checked_llm(LiteLlm(model="openai/any", api_base=base), SHORT))
    rerankers: list[Any] = [
        open_reranker({"model": f"{name}/any", "api_base": silent}, SHORT)
        for name in ("hosted_vllm", "cohere")
    ]
    calls = [
        *(embedder.embed(["some text"], kind="document") for embedder in embedders),
        *(llm.complete("What do I like?", schema=Facts) for llm in llms),
        *(reranker.rerank("tea", ["oolong", "coffee"]) for reranker in rerankers),
    ]
    async with asyncio.timeout(SOON):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(end) for end in ended if not isinstance(end, ModelError)] == [], ended


async def test_a_silent_server_of_ours_is_a_store_error(silent, monkeypatch):
    """A memory server that never answers is a StoreError, in time."""
    monkeypatch.setattr("kagent_memory.remote.ANSWER_SECONDS", 0.5)
    start = time.monotonic()
    with pytest.raises(StoreError):
        await RemoteMemories.open(silent)
    assert time.monotonic() - start < SOON
