"""What one caller can hold of a server: requests in progress, bytes of bodies, time; and health
whatever the load.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from kagent_memory.memories import Memories
from kagent_memory.server import admission, middleware
from kagent_memory.server.auth import Access

from .ground import served

S = "?app=demo&user=ada"
POST = f"POST /api/v1/memories{S} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATIENCE = 60.0  # of the test; what it waits for takes a second or two


async def _opened() -> Memories:
    return await Memories.open("libsql:///:memory:", worker=False)


class Held:
    """A route whose calls wait until the test lets them go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    async def answer(self, request: Request) -> Response:
        self.begun.release()
        await asyncio.to_thread(self.go.wait, PATIENCE)
        return Response("done")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served(_opened, Access(max_body_bytes=4_000_000)) as base:
        yield base


def connected(address: str) -> socket.socket:
    parts = urlsplit(address)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)


def answer_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts: list[bytes] = []
    try:
        while part := connection.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def is_well(address: str, headers: dict[str, str] | None = None) -> bool:
    answer = httpx.post(
        f"{address}/api/v1/memories{S}",
        json={"items": ["small"]},
        headers=headers,
        trust_env=False,
        timeout=PATIENCE,
    )
    return answer.status_code == 200


def test_a_body_without_end_is_refused_at_its_bound(address: str):
    with closing(connected(address)) as connection:
        connection.sendall((POST + "Transfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        for _ in range(4_000_000 // 65_536 + 1):
            connection.sendall(chunk)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
        assert is_well(address)


def test_half_sent_bodies_leave_room_for_others():
    """Bodies that never end hold their own caller's share alone."""
    access = Access(trusted_proxy=True)
    with ExitStack() as stack:
        address = stack.enter_context(served(_opened, access))
        for _ in range(100):
            connection = stack.enter_context(closing(connected(address)))
            connection.sendall(f"{POST}X-User-Id: eve\r\nContent-Length: 4000\r\n\r\n[".encode())
        assert is_well(address, {"x-user-id": "ada"})


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
async def many(held: Held, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A client with any number of connections to a server with few slots and the held route."""
    monkeypatch.setattr(admission, "MAX_RUNNING", 32)
    monkeypatch.setattr(admission, "MAX_OPEN", 20)
    access = Access(trusted_proxy=True)
    server = served(_opened, access, routes={"/held": held.answer})
    base = await asyncio.to_thread(server.__enter__)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=base, trust_env=False, timeout=PATIENCE, limits=limits
    ) as client:
        yield client
        held.go.set()
    await asyncio.to_thread(server.__exit__, None, None, None)


def asked(client: httpx.AsyncClient, user: str) -> asyncio.Task[httpx.Response]:
    return asyncio.ensure_future(client.get("/held", headers={"x-user-id": user}))


async def test_requests_of_one_caller_are_bounded(held: Held, many: httpx.AsyncClient):
    """A caller's requests beyond the bound get 429; an eighth of the slots is one caller's."""
    greedy = [asked(many, "greedy") for _ in range(21)]
    refused, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    [answer] = [one.result() for one in refused]
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    for _ in range(4):
        assert await asyncio.to_thread(held.begun.acquire, timeout=PATIENCE)
    assert not await asyncio.to_thread(held.begun.acquire, timeout=0.3)
    modest = await many.get("/api/v1/info", headers={"x-user-id": "modest"})
    assert modest.status_code == 200
    assert (await many.get("/healthz")).status_code == 200
    held.go.set()
    answers = await asyncio.gather(*greedy)
    assert sorted(answer.status_code for answer in answers) == [200] * 20 + [429]


async def test_health_is_told_when_no_other_request_has_a_turn(held: Held, many: httpx.AsyncClient):
    """Health checks are answered while the requests of many callers fill every slot."""
    calls = [asked(many, f"user {number % 10}") for number in range(210)]
    refused, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    assert {one.result().status_code for one in refused} == {429}
    for path in ("/healthz", "/readyz"):
        assert (await many.get(path)).status_code == 200
    held.go.set()
    assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200, 429}


def test_a_call_ends_in_time(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(middleware, "CALL_SECONDS", 1.0)
    for framing in (
        "Content-Length: 100000\r\n\r\n[1,2,",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n",
    ):
        with closing(connected(address)) as connection:
            connection.sendall((POST + framing).encode())
            answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert is_well(address)


def test_without_a_host_nothing_else_is_told(address: str):
    with closing(connected(address)) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert answer_of(connection).startswith(b"HTTP/1.1 403 ")


def test_answers_do_not_wait_for_acknowledgements(address: str) -> None:
    """A kept connection answers in milliseconds: the body does not wait for the head's receipt."""
    with httpx.Client(base_url=address) as client:
        client.get("/healthz")
        seconds = min(client.get("/healthz").elapsed.total_seconds() for _ in range(10))
    assert seconds < 0.03


async def test_long_searches_of_one_caller_take_turns(held: Held, many: httpx.AsyncClient):
    """Of a caller's long requests one is worked on at a time; short ones and others' go on."""
    long, headers = b"a word " * 1_000, {"x-user-id": "greedy"}
    greedy = [
        asyncio.ensure_future(many.post("/held", content=long, headers=headers)) for _ in range(4)
    ]
    assert await asyncio.to_thread(held.begun.acquire, timeout=PATIENCE)
    assert not await asyncio.to_thread(held.begun.acquire, timeout=0.3)
    others = [asked(many, "greedy"), asked(many, "modest")]
    for _ in others:
        assert await asyncio.to_thread(held.begun.acquire, timeout=PATIENCE)
    held.go.set()
    answers = await asyncio.gather(*greedy, *others)
    assert {answer.status_code for answer in answers} == {200}
