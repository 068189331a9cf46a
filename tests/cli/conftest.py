"""The ground of the tests of commands: a store that the environment names, and commands on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


def _address_line(lines: Iterable[str]) -> str:
    """Print what `serve` says, for a test that fails, up to the line with its address."""
    for line in lines:
        print(line, end="")
        if "http://" in line:
            return line
    return ""


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Give `serve` in a process of its own, and the line by which it says where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kagent_memory", "serve", "--port", "0", *words],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stderr
    try:
        yield process, _address_line(process.stderr)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def run(uri: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    return lambda *words: Run(capsys, *words)


async def dead_letter(memories: Memories, place: str) -> str:
    """Leave a dead job about a move; return its id."""
    message = Message(text=f"I moved to {place}", event_id="e")
    await memories.remember(SCOPE, [message], f"session {place[0]}")
    now = datetime.now(UTC)
    job = await memories.store.queue.claim("test", now=now, lease_seconds=5)
    assert job
    await memories.store.queue.release(job, run_after=now, error="it failed", dead=True)
    return job.id
