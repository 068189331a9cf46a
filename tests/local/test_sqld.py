"""A real sqld: the contract, its tokens, and its death: `SQLD=/path/to/sqld pytest -m sqld
tests/local`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from relay import free_port

from kagent_memory.errors import ConfigurationError, StoreError
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.stores import open_store, store_exists
from kagent_memory.testing.contract import StoreContract
from kagent_memory.testing.fixtures import NOW, a_memory

pytestmark = pytest.mark.sqld
SCOPE = Scope("", "ada", "notes")


class Sqld:
    """One server with a database of its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self._port = free_port()
        self.uri = f"libsql+http://127.0.0.1:{self._port}"
        self._command = [
            shutil.which(os.environ.get("SQLD") or "sqld") or "sqld",
            *("--db-path", str(directory), "--http-listen-addr", f"127.0.0.1:{self._port}"),
            *options,
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def sqld(tmp_path):
    running = []

    def started(*options):
        running.append(Sqld(tmp_path / f"sqld{len(running)}", *options))
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
    async def test_times_and_numbers_keep_their_last_digit(self, home, importance):
        """But for the last digit of a fraction, which sqld reads from JSON one too high or too
        low.
        """
        memory = a_memory("once", happened_at=NOW, importance=importance)
        await home.add(memory)
        stored = await home.get(memory.id)
        assert stored.happened_at == NOW
        assert stored.importance == pytest.approx(importance, rel=1e-15, abs=0)


async def test_what_was_acknowledged_outlives_the_death_of_the_server_and_the_client_heals(sqld):
    server = sqld()
    assert not await store_exists(server.uri)
    async with await Memories.open(server.uri, llm=False) as memories:
        (id,) = await memories.add(SCOPE, ["Ada likes green tea"])
        server.kill()
        with pytest.raises(StoreError):
            await memories.get(SCOPE, id)
        server.start()
        assert (await memories.get(SCOPE, id)).content == "Ada likes green tea"
        await memories.add(SCOPE, ["Ada plays chess"])
    async with await Memories.open(server.uri, llm=False) as memories:
        assert [hit.memory.content for hit in (await memories.recall(SCOPE, "tea")).hits] == [
            "Ada likes green tea"
        ]
        assert (await memories.stats(SCOPE)).visible == 2


async def test_two_that_write_at_once_lose_nothing(sqld):
    uri = sqld().uri
    async with (
        await Memories.open(uri, llm=False) as one,
        await Memories.open(uri, llm=False) as other,
    ):
        await asyncio.gather(
            *(
                memories.add(SCOPE, [f"note {n} of {who}"])
                for n in range(20)
                for who, memories in enumerate((one, other))
            )
        )
        assert (await one.stats(SCOPE)).visible == 40


def signed(key: Ed25519PrivateKey) -> str:
    def part(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    body = f"{part(json.dumps({'alg': 'EdDSA', 'typ': 'JWT'}).encode())}.{part(json.dumps({'a': 'rw'}).encode())}"  # noqa: E501
    return f"{body}.{part(key.sign(body.encode()))}"


async def test_it_lets_in_by_the_token_in_the_uri_alone(sqld, tmp_path):
    key = Ed25519PrivateKey.generate()
    public = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=")
    (tmp_path / "key").write_bytes(public)
    uri = sqld("--auth-jwt-key-file", str(tmp_path / "key")).uri
    async with await Memories.open(f"{uri}?authToken={quote(signed(key))}", llm=False) as memories:
        await memories.add(SCOPE, ["Ada likes green tea"])
        assert (await memories.stats(SCOPE)).visible == 1
    for wrong in ("", f"?authToken={signed(Ed25519PrivateKey.generate())}"):
        with pytest.raises(ConfigurationError, match="authToken"):
            await Memories.open(uri + wrong, llm=False)
