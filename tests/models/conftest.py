from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from loopback import Loopback, hang_up

KEYS = ("OPENAI_API_KEY", "AZURE_API_KEY", "JINA_AI_API_KEY", "COHERE_API_KEY", "VOYAGE_API_KEY", "TOGETHERAI_API_KEY")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for key in KEYS:
        monkeypatch.setenv(key, "not-a-key")
    with Loopback() as provider:
        monkeypatch.setenv("OPENAI_API_BASE", provider.url)
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", provider.url)
        monkeypatch.setenv("OLLAMA_API_BASE", provider.root)
        yield provider


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    yield
    await hang_up()


@pytest.fixture(autouse=True)
def _retries_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.model_calls.MAX_DELAY_SECONDS", 0.01)
