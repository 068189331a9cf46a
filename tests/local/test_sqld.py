"""A real sqld keeps the contract: `SQLD=/path/to/sqld pytest -m sqld tests/local`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from relay import free_port

from kagent_memory.stores import open_store
from kagent_memory.testing.contract import StoreContract
from kagent_memory.testing.fixtures import NOW, a_memory

pytestmark = pytest.mark.sqld


class Sqld:
    """One server with a database of its own."""

    def __init__(self, directory: Path) -> None:
        port = free_port()
        self.uri = f"libsql+http://127.0.0.1:{port}"
        command = [
            shutil.which(os.environ.get("SQLD") or "sqld") or "sqld",
            *("--db-path", str(directory), "--http-listen-addr", f"127.0.0.1:{port}"),
        ]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while self._process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return
            time.sleep(0.01)
        raise RuntimeError("sqld does not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def sqld(tmp_path):
    running = []

    def started():
        running.append(Sqld(tmp_path / f"sqld{len(running)}"))
        return running[-1]

    yield started
    for server in running:
        server.kill()


class TestSqld(StoreContract):
    @pytest.fixture(autouse=True)
    def _server(self, sqld):
        self.sqld = sqld

    async def open_store(self):
        return await open_store(self.sqld().uri)

    @pytest.mark.parametrize(
        "importance", [0.0, 0.5, 0.9452706955539223, 3.5409531738963717e-298, 1.0]
    )
    async def test_numbers_keep_their_last_digit(self, home, importance):
        """But for the last digit of a fraction, which sqld reads from JSON one too high or too
        low.
        """
        memory = a_memory("once", happened_at=NOW, importance=importance)
        await home.add(memory)
        stored = await home.get(memory.id)
        assert stored.happened_at == NOW
        assert stored.importance == pytest.approx(importance, rel=1e-15, abs=0)
