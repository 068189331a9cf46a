"""Running the application by uvicorn: connections that are given up in time, and an end that closes what was opened."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

log = logging.getLogger(__name__)

HEAD_SECONDS = 15.0  # for a request's head to come, and between two requests
STUCK_SECONDS = 60.0  # in which something of an answer must be taken
MAKING_ROOM = 50  # connections
BACKLOG = 2048  # connections that wait to be taken
END_SECONDS = 5  # for requests to end when the server stops


try:
    from resource import RLIMIT_NOFILE, getrlimit
except ImportError:  # Windows
    _files = 0
else:
    _files = getrlimit(RLIMIT_NOFILE)[0]  # connections are files, and the database wants some of them
MOST_CONNECTIONS = min(1_000, _files * 3 // 4) if _files > 0 else 1_000


class Connections(H11Protocol):
    """A connection that is given up when no request comes, or no answer is taken; for `uvicorn --http` too.

    When too many are open, those that have waited longest for their request make room.
    """

    _waits: asyncio.TimerHandle | None = None
    _unsent = 0

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [one for one in self.connections if isinstance(one, Connections) and one.is_waiting]
            for one in sorted(waiting, key=Connections.due)[:MAKING_ROOM] or [self]:
                one.transport.abort()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison] its type leaves out None

    def due(self) -> float:
        """When it is given up."""
        return self._waits.when() if self._waits else float("inf")

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._rest()

    def _watch(self) -> None:
        if not self.is_waiting:
            self._rest()
        elif self._waits is None:
            self._unsent = self.transport.get_write_buffer_size()
            self._waits = self.loop.call_later(STUCK_SECONDS if self._unsent else HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._waits = None
        unsent = self.transport.get_write_buffer_size()
        if unsent and unsent < self._unsent:
            self._watch()
        else:
            self.transport.abort()

    def _rest(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None


class Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it: uvicorn raises them again before anything else is closed."""

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Generator[None, None, None]:
        """Captures none."""
        yield


async def serve(app: ASGIApp, bound: socket.socket, stop: asyncio.Event) -> None:
    """Serves an application on a socket until told to stop, and lets what it answers come to its end.

    Raises:
        SystemExit: the application could not start.
    """
    # no access log: its lines would hold what people search for
    config = uvicorn.Config(
        app,
        http=Connections,
        ws="none",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=END_SECONDS,
    )
    server = Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        server.should_exit = True
        await serving


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address and port: two that are only bound may share them.

    Raises:
        OSError: it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
