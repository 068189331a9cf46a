"""Limits per caller (requests, bytes, time), health under any load, and no content in answers or
logs.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from kagent_memory.concurrency import LONG, run_in_thread
from kagent_memory.memories import Memories
from kagent_memory.server import auth, middleware
from kagent_memory.server.auth import Access
from kagent_memory.testing import FrozenClock

from .ground import axis, client_of, in_memory, item, served

S = "?app=demo&user=ada"
SAVE, ADD, FORM, MCP = (
    "/api/memories/sessions",
    f"/api/v1/memories{S}",
    f"/memories/add{S}",
    f"/mcp{S}",
)
POST = f"POST {ADD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATIENCE = 60.0  # of the test; what it waits for takes a second or two
# two seconds here; the machine may be busy. Without bounds one body held the server up for 19
LONGEST_STALL_SECONDS = 15.0


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(in_memory, Access(max_body_bytes=4_000_000)) as base:
        yield base


# -- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", [SAVE, ADD, FORM, MCP])
async def test_another_site_can_write_nothing(
    client: httpx.AsyncClient, headers: dict[str, str], path: str
):
    """A browser's cross-site request is refused at every interface."""
    answer = await client.post(
        path, content="{}", headers={"content-type": "text/plain", **headers}
    )
    assert answer.status_code == 403


async def test_a_form_needs_the_secret_of_its_cookie(client: httpx.AsyncClient):
    """A form of the page is accepted only with the secret of an HttpOnly cookie."""
    refused = await client.post(FORM, data={"content": "x"})
    assert refused.status_code == 400
    cookie = refused.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    csrf = client.cookies["kagent_memory_csrf"]
    for sent, status in (("guess", 400), (csrf, 303)):
        answer = await client.post(FORM, data={"content": "x", "csrf": sent})
        assert answer.status_code == status


async def test_every_answer_forbids_foreign_scripts_frames_and_caches(client: httpx.AsyncClient):
    """The headers of every answer forbid scripts but our own file, framing and caching, and only
    that file has the type of a script.
    """
    for path in ("/", "/nothing", "/api/v1/info", f"/api/v1/export{S}", "/static/times.js"):
        headers = (await client.get(path)).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert ("javascript" in headers["content-type"]) == path.endswith("js")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


# -- sizes


@pytest.mark.parametrize("path", [SAVE, ADD, FORM, MCP])
async def test_a_long_body_is_413_with_and_without_its_length(
    memories: Memories, clock: FrozenClock, path: str
):
    """A body over the limit is refused at every interface, also without a declared length."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    kind = "application/x-www-form-urlencoded" if path == FORM else "application/json"
    async with client_of(memories, clock, Access(max_body_bytes=1000)) as client:
        for content in (b"x" * 1001, pieces()):
            answer = await client.post(path, content=content, headers={"content-type": kind})
            assert answer.status_code == 413


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)


DEEP = b"[" * 200_000 + b"]" * 200_000
SEARCH, SESSIONS = f"/api/v1/memories/search{S}", f"/api/v1/sessions{S}"
HOSTILE: dict[str, tuple[str, Callable[[], Any], int]] = {
    "a query of 1 MB": (SEARCH, lambda: {"query": "may " * 250_000}, 400),
    "a long history": (SEARCH, lambda: {"query": "x", "history": ["may " * 4000] * 50}, 200),
    "deep metadata": (ADD, lambda: b'{"items":[{"text":"x","metadata":{"a":' + DEEP + b"}}]}", 400),
    "1,900,000 numbers": (ADD, lambda: b'{"items":[' + b"1," * 1_900_000 + b"1]}", 400),
    "10,001 messages": (
        SESSIONS,
        lambda: {"session_id": "s", "messages": [{"text": "x"}] * 10_001},
        400,
    ),
    "400,000 kagent numbers": (
        "/api/memories/search",
        lambda: b'{"agent_name":"a","user_id":"u","vector":[' + b"1," * 400_000 + b"1]}",
        400,
    ),
    "50,000 form fields": (FORM, lambda: b"a&" * 50_000, 400),
    "a memory of many secrets": (SAVE, lambda: item("password= " * 10_000), 201),
    "a memory of one word": (SAVE, lambda: item("a" * 1_000_000), 201),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_too_much_is_refused_and_holds_nobody_up(address: str, name: str):
    """A hostile body blocks the server for seconds at most, and is not quoted."""
    path, make, status = HOSTILE[name]
    body = make()
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/x-www-form-urlencoded" if path == FORM else "application/json"
    with httpx.Client(base_url=address, timeout=120, trust_env=False) as client:
        answer = client.post(path, content=raw, headers={"content-type": kind})
    assert answer.status_code == status, answer.text[:300]
    assert len(answer.content) < 20_000
    assert answer.elapsed.total_seconds() < LONGEST_STALL_SECONDS


# -- shares


class Held:
    """A route whose calls wait until the test releases them."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    def hold(self) -> None:
        self.begun.release()
        self.go.wait(PATIENCE)

    async def answer(self, request: Request) -> Response:
        works = request.url.path == "/work"
        await (run_in_thread(LONG, self.hold) if works else asyncio.to_thread(self.hold))
        return Response("done")

    async def begins(self, *, within: float = PATIENCE) -> bool:
        """Return True if one more call has begun."""
        return await asyncio.to_thread(self.begun.acquire, timeout=within)


@pytest.fixture
def gate() -> Held:
    return Held()


@pytest.fixture
async def many(gate: Held, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client with unlimited connections to a server with few slots and the waiting
    route.
    """
    monkeypatch.setattr(auth, "MAX_RUNNING", 32)
    monkeypatch.setattr(auth, "MAX_OPEN", 8)
    routes: dict[str, Any] = dict.fromkeys(("/held", "/work"), gate.answer)
    limits = httpx.Limits(max_connections=None)
    with served(in_memory, Access(trusted_proxy=True), routes=routes) as base:
        async with httpx.AsyncClient(
            base_url=base, trust_env=False, timeout=PATIENCE, limits=limits
        ) as client:
            yield client
            gate.go.set()


def asked(
    client: httpx.AsyncClient, user: str, content: bytes = b"", path: str = "/held"
) -> asyncio.Task[Any]:
    return asyncio.ensure_future(client.post(path, content=content, headers={"x-user-id": user}))


async def test_requests_of_one_caller_are_bounded(gate: Held, many: httpx.AsyncClient):
    """Requests of one caller beyond an eighth of the slots get 429."""
    greedy = [asked(many, "greedy") for _ in range(9)]
    refused, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    [answer] = [task.result() for task in refused]
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    for _ in range(4):
        assert await gate.begins()
    assert not await gate.begins(within=0.3)
    gate.go.set()
    answers = await asyncio.gather(*greedy)
    assert sorted(answer.status_code for answer in answers) == [200] * 8 + [429]


@pytest.mark.parametrize(("path", "words"), [("/held", 1_000), ("/work", 1)])
async def test_long_work_of_one_caller_takes_turns(
    gate: Held, many: httpx.AsyncClient, path: str, words: int
):
    """One long request per caller runs at a time, and one piece of work in a thread; short requests
    and other callers' go on.
    """
    greedy = [asked(many, "greedy", b"a word " * words, path) for _ in range(3)]
    assert await gate.begins()
    assert not await gate.begins(within=0.3)
    others = [asked(many, "greedy"), asked(many, "modest", path=path)]
    for _ in others:
        assert await gate.begins()
    gate.go.set()
    answers = await asyncio.gather(*greedy, *others)
    assert {answer.status_code for answer in answers} == {200}


async def test_health_is_told_when_no_other_request_has_a_turn(gate: Held, many: httpx.AsyncClient):
    """Health checks are answered while requests of many callers fill every slot."""
    calls = [asked(many, f"user {number % 10}") for number in range(90)]
    refused, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    assert {task.result().status_code for task in refused} == {429}
    for path in ("/healthz", "/readyz"):
        assert (await many.get(path)).status_code == 200
    gate.go.set()
    assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200, 429}


def test_half_sent_bodies_leave_room_for_others():
    """Unfinished bodies occupy only their own caller's share."""
    with ExitStack() as stack:
        address = stack.enter_context(served(in_memory, Access(trusted_proxy=True)))
        for _ in range(100):
            connection = stack.enter_context(closing(connected(address)))
            connection.sendall(f"{POST}X-User-Id: eve\r\nContent-Length: 4000\r\n\r\n[".encode())
        answer = httpx.post(
            f"{address}{ADD}",
            json={"items": ["small"]},
            headers={"x-user-id": "ada"},
            trust_env=False,
            timeout=PATIENCE,
        )
    assert answer.status_code == 200


# -- time


@pytest.mark.parametrize(
    "framing",
    ["Content-Length: 100000\r\n\r\n[1,2,", "Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n"],
)
def test_a_call_ends_in_time(address: str, monkeypatch: pytest.MonkeyPatch, framing: str):
    """A call ends at its time limit if its body does not arrive."""
    monkeypatch.setattr(middleware, "CALL_SECONDS", 1.0)
    with closing(connected(address)) as connection:
        connection.sendall((POST + framing).encode())
        assert connection.recv(65_536).startswith(b"HTTP/1.1 504 ")


def test_answers_do_not_wait_for_acknowledgements(address: str) -> None:
    """A kept-alive connection answers in milliseconds: the body does not wait for the head's
    acknowledgement.
    """
    with httpx.Client(base_url=address) as client:
        client.get("/healthz")
        seconds = min(client.get("/healthz").elapsed.total_seconds() for _ in range(10))
    assert seconds < 0.03


# -- logs


async def test_logs_hold_no_content(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture):
    """Neither content nor queries of a caller are logged."""
    caplog.set_level(logging.DEBUG)
    await client.post(SAVE, json=item("the launch code is 0000"))
    await client.post("/api/memories/search", json={**item(), "vector": axis(0)})
    for content in ("the launch code is 0000", {"text": "launch code", "wrong": 1}):
        await client.post(ADD, json={"items": [content]})
    await client.get(f"/memories{S}&q=launch code")
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
    assert not any("launch" in line for line in ours)
