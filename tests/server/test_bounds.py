"""Every input is bounded before work is done on it, and none holds the server up for others."""

from __future__ import annotations

import base64
import json
import math
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

from .ground import item, live

S = "?app=demo&user=ada"
SCOPE = Scope("", "ada", "demo")
LONGEST_STALL_SECONDS = 10.0  # tens of milliseconds here; the machine may be busy. Without bounds it was 19


async def _opened() -> Memories:
    return await Memories.open("libsql:///:memory:", worker=False)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with live(_opened, Access(requests_per_minute=0)) as base:
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
HOSTILE: dict[str, tuple[str, str, Callable[[], Any], set[int]]] = {
    "a query of 1 MB": ("POST", f"/api/v1/memories/search{S}", lambda: {"query": "may " * 250_000}, {422}),
    "a query of 8 MB": ("POST", f"/api/v1/memories/search{S}", lambda: {"query": "may " * 2_000_000}, {413}),
    "a history of 800 KB": (
        "POST",
        f"/api/v1/memories/search{S}",
        lambda: {"query": "x", "history": ["may " * 4000] * 50},
        {200},
    ),
    "51 turns of history": (
        "POST",
        f"/api/v1/memories/search{S}",
        lambda: {"query": "x", "history": ["x"] * 51},
        {422},
    ),
    "60,000 keys in a filter": (
        "POST",
        f"/api/v1/memories/search{S}",
        lambda: {"query": "x", "filter": {"metadata": many(60_000)}},
        {422},
    ),
    "300,000 keys of metadata": (
        "POST",
        f"/api/v1/memories{S}",
        lambda: {"items": [{"text": "x", "metadata": many(300_000)}]},
        {422},
    ),
    "metadata 200,000 levels deep": (
        "POST",
        f"/api/v1/memories{S}",
        lambda: b'{"items":[{"text":"x","metadata":{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}}]}",
        {422},
    ),
    "240,000 unknown fields": ("POST", f"/api/v1/memories{S}", lambda: {"items": ["x"], **many(240_000)}, {422}),
    "4,000,000 numbers": ("POST", f"/api/v1/memories{S}", lambda: b'{"items":[' + b"1," * 4_000_000 + b"1]}", {422}),
    "a number of 8,000,000 digits": (
        "POST",
        f"/api/v1/memories{S}",
        lambda: b'{"items":' + b"1" * 8_000_000 + b"}",
        {422},
    ),
    "10,001 messages": (
        "POST",
        f"/api/v1/sessions{S}",
        lambda: {"session_id": "s", "messages": [{"text": "x"}] * 10_001},
        {422},
    ),
    "a session id of 1 MB": (
        "POST",
        f"/api/v1/sessions{S}",
        lambda: {"session_id": "s" * 1_000_000, "messages": []},
        {422},
    ),
    "an edit of 4 MB": (
        "PATCH",
        f"/api/v1/memories/0199a1b2-0000-7000-8000-000000000000{S}",
        lambda: {"content": "x" * 4_000_000},
        {413},
    ),
    "an address of 60 KB": ("GET", f"/api/v1/memories{S}&cursor={'x' * 60_000}", lambda: None, {400, 414, 422}),
    "a cursor of 10 KB": ("GET", f"/api/v1/memories{S}&cursor={'x' * 10_000}", lambda: None, {422}),
    "a cursor without bottom": ("GET", f"/api/v1/memories{S}&cursor={DEEP_CURSOR}", lambda: None, {400}),
    "a page's cursor without bottom": ("GET", f"/memories{S}&cursor={DEEP_CURSOR}", lambda: None, {400}),
    "a page's query of 50 KB": ("GET", f"/memories{S}&q={'may+' * 12_500}", lambda: None, {400}),
    "a page's user of 12 KB": ("GET", f"/memories?app=demo&user={'x' * 12_000}", lambda: None, {400}),
    "kagent's vector of 1,000,000 numbers": (
        "POST",
        "/api/memories/search",
        lambda: b'{"agent_name":"a","user_id":"u","vector":[' + b"1," * 400_000 + b"1]}",
        {400},
    ),
    "a form of 4 MB": ("POST", f"/memories/add{S}", lambda: b"content=" + b"x" * 4_000_000, {413}),
    "50,000 fields in a form": ("POST", f"/memories/add{S}", lambda: b"a=b&" * 50_000, {400}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_too_much_is_refused_and_holds_nobody_up(address: str, name: str):
    method, path, make, statuses = HOSTILE[name]
    given = make()
    raw = given if given is None or isinstance(given, bytes) else json.dumps(given).encode()
    form = path.startswith("/memories")
    kind = "application/x-www-form-urlencoded" if form else "application/json"
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client, Pulse(address) as pulse:
        answer = client.request(method, path, content=raw, headers={"content-type": kind})
    assert answer.status_code in statuses, answer.text[:300]
    assert len(answer.content) < 20_000  # what was sent is not given back
    assert pulse.worst < LONGEST_STALL_SECONDS


@pytest.mark.parametrize(
    "content",
    ["word " * 1_000_000, "日本語テキスト" * 100_000, "password= " * 50_000, "a" * 3_000_000],
    ids=["words", "Japanese", "secrets", "one word"],
)
def test_a_long_memory_by_kagents_door_holds_nobody_up(address: str, content: str):
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client, Pulse(address) as pulse:
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


# -- the JSON of a body


@pytest.mark.parametrize("levels", [250, 5_000, 1_000_000])
def test_a_body_without_bottom_is_refused_with_what_to_do(address: str, levels: int):
    raw = b'{"items": ' + b"[" * levels + b"]" * levels + b"}"
    answer = httpx.post(
        f"{address}/api/v1/memories{S}", content=raw, headers={"content-type": "application/json"}, timeout=60
    )
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:kagent-memory:invalid-input")
    assert "nested at most 200 levels" in answer.json()["detail"]


@pytest.mark.parametrize("padding", [0, 100_000])
def test_of_a_name_that_comes_twice_the_last_counts(address: str, padding: int):
    raw = b'{"who": "' + b"x" * padding + b'", "who": "", "items": ["Twice"]}'
    answer = httpx.post(
        f"{address}/api/v1/memories{S}", content=raw, headers={"content-type": "application/json"}, timeout=60
    )
    assert answer.status_code == 201


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("padding", [0, 100_000])
def test_what_json_cannot_say_is_refused_short_and_long(address: str, number: float, padding: int):
    raw = json.dumps({"items": [{"text": "x", "importance": number}], "who": " " * padding})
    answer = httpx.post(
        f"{address}/api/v1/memories{S}", content=raw, headers={"content-type": "application/json"}, timeout=60
    )
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:kagent-memory:invalid-input")


@pytest.mark.parametrize("raw", [b"\xff\xfe", b'{"items": ["x"]} trailing', b"", b"{", b"null", b"[]", b'"text"'])
def test_a_body_that_is_none_is_told_so(address: str, raw: bytes):
    answer = httpx.post(
        f"{address}/api/v1/memories{S}", content=raw, headers={"content-type": "application/json"}, timeout=60
    )
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    bom = httpx.post(
        f"{address}/api/v1/memories{S}",
        content=b'\xef\xbb\xbf{"items": ["x"]}',
        headers={"content-type": "application/json; charset=utf-8"},
    )
    assert bom.status_code == 201
