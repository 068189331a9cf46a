"""Hosts that accept, read everything and answer nothing: every call ends within its bound, and the
turn completes.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from google.adk.models.lite_llm import LiteLlm
from loopback import hang_up
from pydantic import BaseModel
from relay import Relay

from kagent_memory import KagentMemoryService, Memories, MemoryPlugin, enable_memory
from kagent_memory.adk.adk_llm import at_hand
from kagent_memory.errors import ModelError, StoreError
from kagent_memory.models.calls import litellm
from kagent_memory.models.embedding import EmbeddingConfig, open_embedder
from kagent_memory.models.llm import open_llm
from kagent_memory.models.reranking import open_reranker
from kagent_memory.records import Scope
from kagent_memory.remote import RemoteMemories
from kagent_memory.settings import MemorySettings
from kagent_memory.testing import HashEmbedder

from .scripted import Chat, assistant, call, responses, scripted

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
    """The base URL of a host that swallows everything."""
    for key in ("OPENAI_API_KEY", "COHERE_API_KEY", "JINA_AI_API_KEY"):
        monkeypatch.setenv(key, "not-a-key")
    with Relay() as relay:
        url = f"http://127.0.0.1:{relay.port}"
        monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
        monkeypatch.setenv("OLLAMA_API_BASE", url)
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", f"{url}/v1")
        yield url


async def embed(choice: Any, kind: Any) -> object:
    embedder = open_embedder(choice, SHORT)
    assert embedder is not None
    return await embedder.embed(["some text"], kind=kind)


async def complete(choice: Any) -> object:
    llm = open_llm(choice, SHORT)
    assert llm is not None
    return await llm.complete("What do I like?", schema=Facts)


async def rerank(model: str, base: str) -> object:
    reranker = open_reranker({"model": model, "api_base": base}, SHORT)
    assert reranker is not None
    return await reranker.rerank("tea", ["oolong", "coffee"])


def kagents(url: str) -> EmbeddingConfig:
    return EmbeddingConfig(provider="openai", model="any", base_url=f"{url}/v1")


CALLS: dict[str, Callable[[str], Awaitable[object]]] = {
    "embedding of documents": lambda url: embed("openai/any", "document"),
    "embedding of a query": lambda url: embed("ollama/any", "query"),
    "kagent's embedding": lambda url: embed(kagents(url), "document"),
    "language model": lambda url: complete("openai/any"),
    "own server's language model": lambda url: complete("hosted_vllm/any"),
    "agent's own model": lambda url: at_hand(
        LiteLlm(model="openai/any", api_base=f"{url}/v1"), SHORT
    ).complete("What do I like?", schema=Facts),
    "reranker": lambda url: rerank("hosted_vllm/any", url),
    "cohere's reranker": lambda url: rerank("cohere/any", url),
}


async def test_every_model_call_ends_within_its_bound(silent):
    async with asyncio.timeout(SOON):
        ended = await asyncio.gather(
            *(call_of(silent) for call_of in CALLS.values()), return_exceptions=True
        )
    assert {
        name: isinstance(one, ModelError) for name, one in zip(CALLS, ended, strict=True)
    } == dict.fromkeys(CALLS, True), ended


async def test_a_server_of_ours_that_answers_nothing_is_a_store_error(silent, monkeypatch):
    monkeypatch.setattr("kagent_memory.remote.ANSWER_SECONDS", 0.5)
    start = time.monotonic()
    with pytest.raises(StoreError):
        await RemoteMemories.open(silent)
    assert time.monotonic() - start < SOON


async def whole_turn(service: Any, **options: Any) -> dict[str, Any]:
    """A turn that searches, prefetches, saves and saves itself; what the tools answered in it."""
    model = scripted(
        call("load_memory", query="Which tea?"),
        call("save_memory", content="My favourite tea is oolong."),
        "done",
    )
    agent = enable_memory(assistant(model), **options)
    start = time.monotonic()
    events = await Chat(agent, service, plugins=[MemoryPlugin()]).say(
        "Which tea do I like best of all?"
    )
    assert time.monotonic() - start < SOON
    assert events[-1].content.parts[0].text == "done"
    loaded, saved = responses(model.requests[-1])
    return {"loaded": loaded, "saved": saved}


async def test_a_turn_completes_while_every_model_of_memory_is_silent(
    silent, tmp_path, monkeypatch
):
    """A turn answers by words and saves while embedder, model and reranker say nothing."""
    monkeypatch.setattr("kagent_memory.memories.opened.CLOSE_SECONDS", 0.05)
    async with KagentMemoryService(
        f"libsql:///{tmp_path}/memory.db",
        embedding="openai/any",
        llm="openai/any",
        rerank={"model": "hosted_vllm/any", "api_base": silent},
        rewrite=True,
        model_timeout_seconds=0.5,
        search_timeout_seconds=0.5,
    ) as service:
        await service.memories.add(Scope("", "ada", "app"), ["Ada likes oolong tea best."])
        answers = await whole_turn(service)
    assert "oolong" in str(answers["loaded"])
    assert answers["saved"]["status"] == "saved"


async def test_a_turn_on_a_frozen_database_ends_within_six_s(postgres_uri):
    """A database that accepts everything and answers nothing costs a turn seconds, and heals."""
    options: dict[str, Any] = {"embedding": HashEmbedder(), "settings": MemorySettings()}
    with Relay(postgres_uri) as relay:
        async with KagentMemoryService(relay.uri, **options) as service:
            assert (await whole_turn(service))["saved"]["status"] == "saved"
            relay.stall()
            start = time.monotonic()
            answers = await whole_turn(service)
            seconds = time.monotonic() - start
            relay.flow()
            assert answers == {
                "loaded": {"error": "memory unavailable"},
                "saved": {"error": "memory unavailable"},
            }
            assert seconds < 6
            assert (await whole_turn(service))["saved"]["status"] == "saved"


async def test_a_loading_model_delays_no_save(monkeypatch, tmp_path):
    """A local model that loads for ever delays a save no longer than its bound."""
    saved, waited = threading.Event(), list[bool]()

    def fetch(*_: str) -> None:
        waited.append(saved.wait(60))
        raise OSError("the hub did not answer")

    monkeypatch.setattr("kagent_memory.models.onnx.model_folder", fetch)
    options: dict[str, Any] = {
        "embedding": "local/any",
        "model_timeout_seconds": 0.3,
        "worker": False,
    }
    async with await Memories.open(f"libsql:///{tmp_path}/memory.db", **options) as memories:
        [id] = await memories.add(Scope("t", "u", "a"), ["Ada likes oolong."])
        assert waited == [], "the save waited until the loading was given up"
        saved.set()
        assert (await memories.get(Scope("t", "u", "a"), id)).content == "Ada likes oolong."
        assert "embed" in {job.kind for job in await memories.jobs()}
