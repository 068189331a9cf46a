from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from loopback import Loopback, hang_up
from tenacity import wait_fixed


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    yield
    await hang_up()


@pytest.fixture(params=["litellm", "direct"])
def provider(
    provider: Loopback, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Loopback:
    """The provider, reached through LiteLLM and as where that is not installed."""
    if request.param == "direct":
        monkeypatch.setattr("kagent_memory.models.openai_api.has_litellm", lambda: False)
    return provider


@pytest.fixture(autouse=True)
def _retries_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.models.calls.BACKOFF", wait_fixed(0.01))
