"""Running the application by uvicorn, with the limits that uvicorn has."""

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
BACKLOG = 2048  # connections that wait to be accepted
# longer than a proxy keeps an idle connection (nginx: 60), so that it never meets a closed one
KEEP_ALIVE_SECONDS = 75
SHUTDOWN_SECONDS = 5  # for requests to end when the server stops


class Server(uvicorn.Server):
    """A server that leaves signals to its caller: uvicorn raises them again before anything else is
    closed.
    """

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield


async def serve(app: ASGIApp, bound: socket.socket) -> None:
    """Serve an application on a socket until it is cancelled, then let running requests end.

    Raises:
        SystemExit: the application could not start.
    """
    config = uvicorn.Config(
        app,
        http="h11",  # the parser that bounds a request's head
        ws="none",
        access_log=False,  # its lines would hold what people search for
        server_header=False,
        log_config=None,
        backlog=BACKLOG,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        # X-Forwarded-For is believed from the addresses that uvicorn's own FORWARDED_ALLOW_IPS
        # names, and from no other
        proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        # no limit_concurrency: beyond it uvicorn answers health checks with 503 too; `Gate` limits
        # requests instead
    )
    server = Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; only bound, two servers could share an address.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        bound = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, dualstack_ipv6=dual
        )
    except OSError as error:
        raise ConfigurationError(
            f"{host}:{port} cannot be bound ({error.strerror}); choose another --host or --port."
        ) from error
    # Connections inherit it. asyncio sets it only on sockets that name TCP as their protocol;
    # without it each answer's body waits 40 ms for the client to acknowledge its head.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
