"""Shared fixtures of server tests: memories in a real database, a client, a live server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import psycopg
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server import serving
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access
from kagent_memory.server.serving import bound_socket, serve
from kagent_memory.server.tokens import create_token
from kagent_memory.testing.fixtures import a_job

START = datetime(2026, 3, 1, 12, 0, 0, 123450, tzinfo=UTC)


def client_of(
    memories: Memories, clock: Callable[[], datetime], access: Access = Access()
) -> httpx.AsyncClient:
    app = create_app(memories, access, clock=clock)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


async def bearing(memories: Memories, **bound: Any) -> dict[str, str]:
    """Return the header of a new token; the arguments are those of `Tokens.create`."""
    secret, _ = await create_token(memories, **bound)
    return {"authorization": f"Bearer {secret}"}


async def dead_letter(memories: Memories, scope: Scope, now: datetime) -> str:
    """Leave a job that no retry repairs, and return its id."""
    job = a_job(scope, now=now)
    await memories.store.queue.enqueue([job])
    claimed: Any = await memories.store.queue.claim("tests", now=now, lease_seconds=5)
    await memories.store.queue.release(claimed, run_after=now, error="it failed", dead=True)
    return job.id


def axis(number: int, tilt: float = 0.0) -> list[float]:
    """Return a unit vector along one of 768 axes, tilted towards the last one."""
    vector = np.zeros(768)
    vector[number], vector[767] = np.cos(tilt), np.sin(tilt)
    return vector.tolist()


def item(
    content: str = "likes tea", vector: Sequence[float] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "agent_name": "shop__NS__my-agent",
        "user_id": "ada",
        "content": content,
        "vector": axis(0) if vector is None else vector,
        **more,
    }


@contextmanager
def served(
    opener: Callable[[], Any],
    access: Access = Access(),
    host: str = "127.0.0.1",
    routes: Mapping[str, Callable[..., Any]] = {},
) -> Iterator[str]:
    """A server as `kagent-memory serve` runs it, in a thread with its own event loop; gives its
    address.

    Args:
        opener: opens the memories.
        access: who may call.
        host: the address it is bound to.
        routes: further ones, by their paths.
    """
    bound = bound_socket(host, 0)
    started = threading.Event()
    running: list[Any] = []

    async def run() -> None:
        running.extend((asyncio.get_running_loop(), asyncio.current_task()))
        async with await opener() as memories:
            app = create_app(memories, access)
            for path, route in routes.items():
                app.add_route(path, route, methods=["GET", "POST"])
            started.set()  # who connects now waits in the socket's queue
            with suppress(asyncio.CancelledError):
                await serve(app, bound)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="served", daemon=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(serving, "SHUTDOWN_SECONDS", 1)  # for requests that a test left open
        thread.start()
        assert started.wait(120), "the server did not start"
        try:
            yield f"http://{host}:{bound.getsockname()[1]}"
        finally:
            loop, task = running
            loop.call_soon_threadsafe(task.cancel)
            thread.join(120)
            assert not thread.is_alive(), "the server did not stop"


async def in_memory() -> Memories:
    """Open memories of their own, without a worker."""
    return await Memories.open("libsql:///:memory:", worker=False)


def let_in(server: str, uri: str, may: bool) -> None:
    """Allow or refuse new connections to a database, and close open ones."""
    name = urlsplit(uri).path.lstrip("/")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {str(may).lower()}".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s",
            [name],
        )
