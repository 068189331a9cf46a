"""Every input is bounded before work is done on it, and none holds the server up for others."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import MAX_QUERY_CHARS, Scope
from kagent_memory.server.auth import Access

from .ground import item, served

S = "?app=demo&user=ada"
SCOPE = Scope("", "ada", "demo")
# tens of milliseconds here; the machine may be busy. Without bounds it was 19
LONGEST_STALL_SECONDS = 10.0


async def _opened() -> Memories:
    return await Memories.open("libsql:///:memory:", worker=False)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(_opened, Access()) as base:
        yield base


class Pulse:
    """Asks again and again whether the server lives, and remembers the longest wait."""

    def __init__(self, address: str) -> None:
        self.worst = 0.0
        self._address, self._stop = address, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        with httpx.Client(base_url=self._address, timeout=60, trust_env=False) as client:
            while not self._stop.wait(0.01):
                begun = time.perf_counter()
                assert client.get("/healthz").status_code == 200
                self.worst = max(self.worst, time.perf_counter() - begun)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)


def many(count: int) -> dict[str, int]:
    return {f"k{number}": number for number in range(count)}


DEEP_CURSOR = base64.urlsafe_b64encode(b"[" * 3_000).decode()
SEARCH, ADD = ("POST", f"/api/v1/memories/search{S}"), ("POST", f"/api/v1/memories{S}")
LIST, PAGE = ("GET", f"/api/v1/memories{S}"), ("GET", f"/memories{S}")
DEEP = b"[" * 200_000 + b"]" * 200_000
HOSTILE: dict[str, tuple[tuple[str, str], Callable[[], Any], int]] = {
    "a query of 1 MB": (SEARCH, lambda: {"query": "may " * 250_000}, 400),
    "a long history": (SEARCH, lambda: {"query": "x", "history": ["may " * 4000] * 50}, 200),
    "60,000 filter keys": (
        SEARCH,
        lambda: {"query": "x", "filter": {"metadata": many(60_000)}},
        400,
    ),
    "deep metadata": (
        ADD,
        lambda: b'{"items":[{"text":"x","metadata":{"a":' + DEEP + b"}}]}",
        400,
    ),
    "4,000,000 numbers": (ADD, lambda: b'{"items":[' + b"1," * 4_000_000 + b"1]}", 400),
    "10,001 messages": (
        ("POST", f"/api/v1/sessions{S}"),
        lambda: {"session_id": "s", "messages": [{"text": "x"}] * 10_001},
        400,
    ),
    "a deep cursor": ((LIST[0], f"{LIST[1]}&cursor={DEEP_CURSOR}"), lambda: None, 400),
    "400,000 kagent numbers": (
        ("POST", "/api/memories/search"),
        lambda: b'{"agent_name":"a","user_id":"u","vector":[' + b"1," * 400_000 + b"1]}",
        400,
    ),
    "50,000 form fields": (("POST", f"/memories/add{S}"), lambda: b"a&" * 50_000, 400),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_too_much_is_refused_and_holds_nobody_up(address: str, name: str):
    (method, path), make, status = HOSTILE[name]
    given = make()
    raw = given if given is None or isinstance(given, bytes) else json.dumps(given).encode()
    form = path.startswith("/memories")
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    with (
        httpx.Client(base_url=address, timeout=60, trust_env=False) as client,
        Pulse(address) as pulse,
    ):
        answer = client.request(method, path, content=raw, headers={"content-type": kind})
    assert answer.status_code == status, answer.text[:300]
    assert len(answer.content) < 20_000  # what was sent is not given back
    assert pulse.worst < LONGEST_STALL_SECONDS


@pytest.mark.parametrize(
    "content",
    ["word " * 1_000_000, "日本語テキスト" * 100_000, "password= " * 50_000, "a" * 3_000_000],
    ids=["words", "Japanese", "secrets", "one word"],
)
def test_a_long_memory_by_kagents_door_holds_nobody_up(address: str, content: str):
    with (
        httpx.Client(base_url=address, timeout=120, trust_env=False) as client,
        Pulse(address) as pulse,
    ):
        one = {**item(content), "user_id": content[:4]}
        assert client.post("/api/memories/sessions", json=one).status_code == 201
        found = client.post("/api/memories/search", json={**one, "content": None})
        assert len(found.json()) == 1
    assert pulse.worst < LONGEST_STALL_SECONDS


async def test_a_query_is_bounded_in_the_process_too():
    async with await _opened() as memories:
        assert not await memories.recall(SCOPE, "x" * MAX_QUERY_CHARS)
        with pytest.raises(InvalidInput, match="16,384"):
            await memories.recall(SCOPE, "x" * (MAX_QUERY_CHARS + 1))
