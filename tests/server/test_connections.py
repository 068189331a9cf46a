"""Connections that send nothing, or slowly, or without end, or take no answer: given up, with bounded memory."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import repeat
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from kagent_memory.memories import Memories
from kagent_memory.server import middleware as gate
from kagent_memory.server import rate_limit as limits
from kagent_memory.server import serving
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


LONG_ROUTES = {"/long": long_answer, "/long-at-once": long_answer_at_once}


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for module, name, value in (
        (serving, "HEAD_SECONDS", 1.0),
        (serving, "STUCK_SECONDS", 1.0),
        (limits, "IDLE_SECONDS", 1.0),
        (limits, "FREE_SECONDS", 2.0),
        (gate, "SEND_SECONDS", 1.0),
    ):
        monkeypatch.setattr(module, name, value)
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


def hung_up(connection: socket.socket, parts: Iterable[bytes], pause: float = 0.0) -> bool:
    """Whether the server closes while the parts are sent."""
    try:
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def is_well(address: str) -> bool:
    answer = httpx.post(f"{address}/api/v1/memories{S}", json={"items": ["small"]}, trust_env=False, timeout=PATIENCE)
    return answer.status_code == 201


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nHost: local",
    ],
    ids=["nothing", "half a line", "half a head", "half of a second head"],
)
def test_a_connection_without_a_whole_request_is_closed(address: str, sent: bytes):
    with closing(connected(address)) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        answer = answer_of(connection)
        assert time.monotonic() - begun < PATIENCE / 2
        assert answer.count(b"HTTP/1.1") == sent.count(b"\r\n\r\n")


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(address: str):
    with closing(connected(address)) as connection:
        begun = time.monotonic()
        letters = (bytes([one]) for one in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"z" * 1000)
        assert hung_up(connection, letters, pause=0.05)
        assert time.monotonic() - begun < PATIENCE / 2


@pytest.mark.parametrize(
    "framing", ["Content-Length: 100000\r\n\r\n[1,2,", "Transfer-Encoding: chunked\r\n\r\n5\r\n[1,2,\r\n"]
)
def test_half_a_body_is_given_up_and_said_so(address: str, framing: str):
    with closing(connected(address)) as connection:
        connection.sendall((POST + framing).encode())
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"did not come in time" in answer
    assert is_well(address)


def test_a_body_that_drips_is_given_up(address: str):
    with closing(connected(address)) as connection:
        connection.sendall((POST + "Content-Length: 100000\r\n\r\n").encode())
        connection.settimeout(0.2)
        begun, answer = time.monotonic(), b""
        while not answer and time.monotonic() - begun < PATIENCE:
            connection.sendall(b" ")
            try:
                answer = connection.recv(65_536)
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_without_end_is_cut_off(address: str):
    with closing(connected(address)) as connection:
        connection.sendall((POST + "Transfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        assert hung_up(connection, repeat(chunk, 10_000))
    assert is_well(address)


def test_many_half_bodies_at_once_leave_room_for_others_and_are_not_all_held(address: str, monkeypatch):
    monkeypatch.setattr(limits, "IDLE_SECONDS", PATIENCE)
    monkeypatch.setattr(limits, "FREE_SECONDS", PATIENCE)
    half = b"[" + b"1," * 1_750_000
    room = 32_000_000 // 2 // len(half)  # 32 MB, half of it for one address, of which all of these come
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
def test_an_answer_that_nobody_takes_is_given_up(address: str, path: str, monkeypatch: pytest.MonkeyPatch):
    closed: list[object] = []
    lost = serving.Connections.connection_lost

    def seen(self: serving.Connections, exc: Exception | None) -> None:
        closed.append(self)
        lost(self, exc)

    monkeypatch.setattr(serving.Connections, "connection_lost", seen)
    with ExitStack() as stack:
        connections = [stack.enter_context(closing(connected(address))) for _ in range(5)]
        for connection in connections:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        until = time.monotonic() + 2 * PATIENCE
        while len(closed) < len(connections) and time.monotonic() < until:
            time.sleep(0.1)
        for connection in connections:
            assert len(answer_of(connection)) < LONG
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


def test_when_too_many_wait_the_oldest_make_room(address: str, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 60)
    monkeypatch.setattr(serving, "MAKING_ROOM", 10)
    monkeypatch.setattr(serving, "HEAD_SECONDS", 60.0)
    with ExitStack() as stack:
        held = [stack.enter_context(closing(connected(address))) for _ in range(200)]
        for _ in range(3):
            assert is_well(address)
        held[0].settimeout(PATIENCE)
        assert answer_of(held[0]) == b""


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
