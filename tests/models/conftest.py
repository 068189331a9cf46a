from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from loopback import hang_up
from tenacity import wait_fixed


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    yield
    await hang_up()


@pytest.fixture(autouse=True)
def _retries_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.models.calls.BACKOFF", wait_fixed(0.01))
