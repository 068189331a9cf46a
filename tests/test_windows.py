"""Windows: its usual event loop is none for psycopg, and its loops know no signals."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import sys
import threading
from typing import Any

import pytest
from memories.opening import ADA, contents, opened

from kagent_memory import KagentMemoryService
from kagent_memory.cli import main
from kagent_memory.errors import ConfigurationError


class Proactor(asyncio.SelectorEventLoop):
    """Stands in for Windows' usual loop."""


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose usual loop is a proactor, and whose loops take no signal handlers."""

    def none(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(asyncio, "ProactorEventLoop", Proactor, raising=False)
    monkeypatch.setattr(asyncio, "new_event_loop", Proactor)
    for kind in (asyncio.SelectorEventLoop, Proactor):
        monkeypatch.setattr(kind, "add_signal_handler", none)


@pytest.mark.usefixtures("windows")
async def test_the_service_works_on_a_selector_loop_of_its_own(postgres_uri: str):
    """psycopg answers, which it does on no proactor loop."""
    async with KagentMemoryService(postgres_uri, llm=False) as service:
        await service.memories.add(ADA, ["Ada likes oolong"])
        assert contents(await service.memories.recall(ADA, "oolong")) == ["Ada likes oolong"]


@pytest.mark.usefixtures("windows")
def test_a_worker_stops_without_signal_handlers(file_uri: str, capsys: pytest.CaptureFixture[str]):
    """Ctrl-C stops a worker in order without signal handlers of the loop."""
    asyncio.run(_made(file_uri))
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        assert main(["worker", "--uri", file_uri]) == 0
    finally:
        timer.cancel()
    assert "Stopping." in capsys.readouterr().err


async def _made(uri: str) -> None:
    async with await opened(uri):
        pass


def test_a_proactor_loop_of_the_caller_s_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, postgres_uri: str
):
    """Opening PostgreSQL on a proactor loop asks for a selector loop."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(asyncio, "ProactorEventLoop", Proactor, raising=False)

    async def refused() -> None:
        with pytest.raises(ConfigurationError, match="SelectorEventLoop"):
            await opened(postgres_uri)

    with asyncio.Runner(loop_factory=lambda: Proactor(selectors.DefaultSelector())) as runner:
        runner.run(refused())
