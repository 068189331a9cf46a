"""What one caller can hold of a server: requests in progress, bytes of bodies, time; and health whatever the load."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kagent_memory.memories import Memories
from kagent_memory.server import middleware as gate
from kagent_memory.server.auth import Access

from .ground import served

S = "?app=demo&user=ada"
POST = f"POST /api/v1/memories{S} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PATIENCE = 60.0  # of the test; what it waits for takes a second or two


async def _opened() -> Memories:
    return await Memories.open("libsql:///:memory:", worker=False)


LONG = 640 * 65_536  # bytes; far more than the kernel keeps for a connection


async def long_answer(request: Request) -> Response:
    return StreamingResponse(b"x" * 65_536 for _ in range(LONG // 65_536))


async def long_answer_at_once(request: Request) -> Response:
    return Response(b"x" * LONG)


MANY = httpx.Limits(max_connections=None)
LONG_ROUTES = {"/long": long_answer, "/long-at-once": long_answer_at_once}


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
    with served(_opened, Access(requests_per_minute=0, max_body_bytes=4_000_000), routes=LONG_ROUTES) as base:
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


def is_well(address: str) -> bool:
    answer = httpx.post(f"{address}/api/v1/memories{S}", json={"items": ["small"]}, trust_env=False, timeout=PATIENCE)
    return answer.status_code == 201


def test_a_body_without_end_is_refused_at_its_bound(address: str):
    with closing(connected(address)) as connection:
        connection.sendall((POST + "Transfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        for _ in range(4_000_000 // 65_536 + 1):
            connection.sendall(chunk)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")
        assert is_well(address)


def test_many_half_bodies_at_once_leave_room_for_others_and_are_not_all_held(address: str):
    half = b"[" + b"1," * 1_750_000
    room = 32_000_000 // 2 // len(half)  # 32 MB, half of it for one caller, whose all of these are
    with ExitStack() as stack:
        held: list[socket.socket] = []
        for _ in range(24):
            connection = stack.enter_context(closing(connected(address)))
            connection.sendall((POST + "Content-Length: 4000000\r\n\r\n").encode())
            connection.sendall(half)
            held.append(connection)
        while len(held) > room:
            answered, _, _ = select.select(held, [], [], PATIENCE)
            assert answered, f"{len(held)} are held"
            assert {connection.recv(100)[:13] for connection in answered} == {b"HTTP/1.1 503 "}
            held = [connection for connection in held if connection not in answered]
            assert is_well(address)
    assert is_well(address)


@pytest.mark.parametrize("path", LONG_ROUTES)
def test_an_answer_that_is_taken_slowly_but_steadily_comes_whole(address: str, path: str):
    with closing(connected(address)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        taken = 0
        while part := connection.recv(1_000_000):
            taken += len(part)
            time.sleep(0.1)
    assert taken > LONG


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.setattr(gate, "REQUESTS_AT_ONCE", 8)
    monkeypatch.setattr(gate, "MAX_OPEN_REQUESTS", 40)
    made = Held()
    yield made
    made.go.set()


async def test_a_caller_has_half_of_what_is_worked_on_and_half_of_what_may_wait(held: Held):
    access = Access(trusted_proxy=True, requests_per_minute=0)
    served_here = served(_opened, access, routes={"/held": held.answer})
    base = await asyncio.to_thread(served_here.__enter__)
    try:
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=PATIENCE, limits=MANY) as client:

            async def ask(user: str, path: str = "/held") -> httpx.Response:
                return await client.get(path, headers={"x-user-id": user})

            greedy = [asyncio.ensure_future(ask("greedy")) for _ in range(21)]
            refused, _ = await asyncio.wait(greedy, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
            [answer] = [one.result() for one in refused]
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            for _ in range(4):
                assert await asyncio.to_thread(held.begun.acquire, timeout=PATIENCE)
            assert not await asyncio.to_thread(held.begun.acquire, timeout=0.3)  # four of eight are one caller's
            assert (await ask("modest", "/api/v1/info")).status_code == 200
            assert (await client.get("/healthz")).status_code == 200
            held.go.set()
            answers = await asyncio.gather(*greedy)
            assert sorted(answer.status_code for answer in answers) == [200] * 20 + [503]
    finally:
        held.go.set()
        await asyncio.to_thread(served_here.__exit__, None, None, None)


async def test_health_is_told_when_no_other_request_has_a_turn(held: Held):
    access = Access(trusted_proxy=True, requests_per_minute=0)
    served_here = served(_opened, access, routes={"/held": held.answer})
    base = await asyncio.to_thread(served_here.__enter__)
    try:
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=PATIENCE, limits=MANY) as client:
            users = [f"user {number % 3}" for number in range(45)]
            asked = [asyncio.ensure_future(client.get("/held", headers={"x-user-id": user})) for user in users]
            refused, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
            assert {one.result().status_code for one in refused} == {503}
            for path in ("/healthz", "/readyz"):
                assert (await client.get(path)).status_code == 200
            held.go.set()
            assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200, 503}
    finally:
        held.go.set()
        await asyncio.to_thread(served_here.__exit__, None, None, None)


def test_a_call_ends_in_time(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gate, "CALL_SECONDS", 1.0)
    for framing in ("Content-Length: 100000\r\n\r\n[1,2,", "Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n"):
        with closing(connected(address)) as connection:
            connection.sendall((POST + framing).encode())
            answer = connection.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 504 ")
        assert is_well(address)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_health_is_told_to_whoever_asks_however_plainly(address: str, version: str):
    with closing(connected(address)) as connection:
        host = "Host: 10.0.0.7\r\n" if version == "1.1" else ""
        connection.sendall(f"GET /healthz HTTP/{version}\r\n{host}Connection: close\r\n\r\n".encode())
        assert b"\r\n\r\nok\n" in answer_of(connection)


def test_without_a_host_nothing_else_is_told(address: str):
    with closing(connected(address)) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert answer_of(connection).startswith(b"HTTP/1.1 403 ")


def test_a_refusal_comes_through_while_the_body_is_still_on_its_way(address: str):
    for path in (f"/api/v1/memories/search{S}", f"/api/v1/memories{S}"):
        answer = httpx.post(f"{address}{path}", content=b" " * 6_000_000, trust_env=False, timeout=PATIENCE)
        assert answer.status_code == 413
    with httpx.Client(base_url=address, trust_env=False, timeout=PATIENCE) as client:
        for _ in range(3):  # on one connection
            assert client.post(f"/api/v1/memories/search{S}", content=b" " * 2_000_000).status_code == 413
            assert client.post(f"/api/v1/memories{S}", json={"items": ["x"]}).status_code == 201


def test_huge_headers_are_refused(address: str):
    for lines in ("X-Many: 1\r\n" * 20_000, "X-Long: " + "z" * 200_000 + "\r\n"):
        with closing(connected(address)) as connection:
            try:
                connection.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
            except OSError:
                continue
            assert answer_of(connection)[9:12] in (b"", b"400", b"431")
    assert is_well(address)


def test_a_server_on_ipv6_answers_to_its_names():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with served(_opened, host="::1") as base:
        port = urlsplit(base.replace("::1", "[::1]")).port
        for name in (f"[::1]:{port}", f"localhost:{port}", "127.0.0.1"):
            answer = httpx.get(
                f"http://[::1]:{port}/api/v1/info", headers={"host": name}, trust_env=False, timeout=PATIENCE
            )
            assert answer.status_code == 200
