"""The ground of the tests of commands: a store that the environment names, and commands on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kagent_memory.cli import main
from kagent_memory.memories import Memories
from kagent_memory.records import Message, Scope

SCOPE = Scope("", "ada", "demo")
OF_ADA = ("--app", "demo", "--user", "ada")


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    uri = f"libsql:///{tmp_path}/memory.db"
    monkeypatch.setenv("KAGENT_MEMORY_URI", uri)
    return uri


class Run:
    """One command: exit code, standard output, error stream."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *words: str) -> None:
        capsys.readouterr()
        self.code = main(words)
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(uri: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    return lambda *words: Run(capsys, *words)


async def dead_letter(memories: Memories, place: str) -> str:
    """Leave a dead job about a move; return its id."""
    said = Message(text=f"I moved to {place}", event_id="e")
    await memories.remember(SCOPE, [said], f"session {place[0]}")
    now = datetime.now(UTC)
    job = await memories.store.queue.claim("test", now=now, lease_seconds=5)
    assert job
    await memories.store.queue.release(job, run_after=now, error="it failed", dead=True)
    return job.id
