"""Run the application with uvicorn and its limits."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override

from ..errors import ConfigurationError

MAX_HEAD_BYTES = 65_536
BACKLOG = 2048  # connections waiting to be accepted
# longer than proxies keep idle connections (nginx: 60), so that they never reuse a closed one
KEEP_ALIVE_SECONDS = 75
SHUTDOWN_SECONDS = 5  # for requests to finish when the server stops


class Server(uvicorn.Server):
    """A server that leaves signals to its caller, since uvicorn raises them again before the rest
    is closed.
    """

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture no signals."""
        yield


async def serve(app: ASGIApp, listener: socket.socket) -> None:
    """Serve an application on a socket until cancelled, then let running requests finish.

    Raises:
        SystemExit: the application could not start.
    """
    config = uvicorn.Config(
        app,
        http="h11",  # the parser that limits the size of headers
        ws="none",
        access_log=False,  # access logs would hold search queries
        server_header=False,
        log_config=None,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        # X-Forwarded-For is trusted only from the addresses in FORWARDED_ALLOW_IPS, as uvicorn
        # reads it
        proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        # no limit_concurrency: beyond it uvicorn answers health checks with 503 too; `Gate` limits
        # requests instead
    )
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(task)
    finally:
        server.should_exit = True
        await task


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, because two servers could share one that is only bound.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_dual_stack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=is_dual_stack
        )
    except OSError as error:
        raise ConfigurationError(
            f"{host}:{port} cannot be bound ({error.strerror}); choose another --host or --port."
        ) from error
    # Connections inherit the option. asyncio sets it only on sockets that name TCP as their
    # protocol; without it each answer's body waits 40 ms for the client to acknowledge the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
