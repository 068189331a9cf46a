from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from loopback import hang_up

from kagent_memory.concurrency import Backoff


@pytest.fixture(autouse=True)
async def _clients_hang_up() -> AsyncIterator[None]:
    yield
    await hang_up()


@pytest.fixture(autouse=True)
def _retries_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kagent_memory.models.calls.BACKOFF", Backoff(0.01, 0.01))
