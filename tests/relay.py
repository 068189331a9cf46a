"""A TCP relay on loopback that can go bad the ways a network does, and a PgBouncer, for tests of
real clients.

    with Relay(postgres_uri) as relay:
        store = await open_store(relay.uri)
        relay.way = "swallow"    # what comes is read and acknowledged, nothing ever comes back
        relay.way = "stall"      # what comes waits until it flows again
    relay.way = "refuse"     # who connects is reset
        relay.way = "garble"     # who connects gets an answer of no protocol
        relay.speed = 10_000     # so many bytes a second get through, each way
        relay.flow()             # as at the beginning
        relay.cut()              # every connection is lost

It runs on threads of its own, so that a client's blocked event loop does not hold it up.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from optional import missing
from psycopg.conninfo import conninfo_to_dict

PIECE = 65_536


RESET = struct.pack("ii", 1, 0)  # what lingers no second is reset


def dial(uri: str) -> socket.socket:
    """Connect to a server by its socket or by TCP."""
    parameters = conninfo_to_dict(uri)
    host, port = str(parameters["host"]), int(parameters.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    behind = socket.socket(socket.AF_UNIX)
    behind.connect(f"{host}/.s.PGSQL.{port}")
    return behind


def at(uri: str, port: int) -> str:
    """The same database, reached by TCP at a port of this machine."""
    parameters = {
        name: str(value) for name, value in conninfo_to_dict(uri).items() if value is not None
    }
    parameters.pop("host")
    parameters.pop("port", None)
    user, password, name = (
        quote(parameters.pop(key, ""), safe="") for key in ("user", "password", "dbname")
    )
    rest = f"?{urlencode(parameters)}" if parameters else ""
    return f"postgresql://{user}{f':{password}' if password else ''}@127.0.0.1:{port}/{name}{rest}"


def execute(uri: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements in our schema, each committed by itself; return the rows of the last.

    It holds up the event loop: in a thread where work of the same loop may hold a lock.
    """
    options = "-csearch_path=kagent_memory,public -clock_timeout=30s"
    with psycopg.connect(uri, autocommit=True, options=options) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class Relay:
    """Forwards a port of its own to a PostgreSQL, or swallows what comes when there is none behind
    it.
    """

    def __init__(self, uri: str | None = None) -> None:
        self._behind = uri
        self._open = set[socket.socket]()
        self._listening = socket.socket()
        # what crawls here is felt there
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(128)
        self.port = self._listening.getsockname()[1]
        self.uri = (
            at(uri, self.port) if uri else f"postgresql://nobody@127.0.0.1:{self.port}/nothing"
        )
        self.accepted = 0
        self.flow()
        self._threads = [self._start(self._accept)]

    def _start(self, work: Any, *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, daemon=True)
        thread.start()
        return thread

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.flow()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads.pop(0).join()
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def flow(self) -> None:
        self.way, self.speed = "flow", 0.0

    def cut(self) -> None:
        for end in [*self._open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                client = self._listening.accept()[0]
                self.accepted += 1
                if self.way == "refuse":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    client.close()
                    continue
                if self.way == "garble":
                    client.sendall(b"HTTP/1.1 418 I'm a teapot\r\n\r\n" * 100)
                behind = dial(self._behind) if self._behind else None
                for ends in ((client, behind), (behind, client)):
                    if ends[0]:
                        self._open.add(ends[0])
                        self._threads.append(self._start(self._forward, *ends))

    def _forward(self, source: socket.socket, target: socket.socket | None) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE):
                if self.speed:
                    time.sleep(len(piece) / self.speed)
                while self.way == "stall":
                    time.sleep(0.01)
                if self.way == "flow" and target:
                    target.sendall(piece)
        self._open.discard(source)
        if target:
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
        source.close()


def free_port() -> int:
    """A port of this machine for a program that cannot be told to take any that is free.

    None of those that the kernel gives away by itself: another test's connection could have it
    before the program."""
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return int(free.getsockname()[1])


def installed() -> str:
    """Return the path of Debian's PgBouncer; root installs it when it is missing."""
    places = f"{os.environ['PATH']}:/usr/sbin"
    path = shutil.which("pgbouncer", path=places)
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in ("update -qq", "install -y -qq --no-install-recommends pgbouncer"):
            command = ["apt-get", *words.split()]
            subprocess.run(command, check=True, capture_output=True, timeout=300, env=environ)
        path = shutil.which("pgbouncer", path=places)
    return path or missing("pgbouncer")


SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 2000
ignore_startup_parameters = extra_float_digits
"""


@contextlib.contextmanager
def pgbouncer(uri: str, folder: Path, pool_size: int = 4) -> Iterator[int]:
    """Run Debian's PgBouncer before a PostgreSQL, in transaction mode; give its port."""
    port, settings, log = free_port(), folder / "pgbouncer.ini", folder / "pgbouncer.log"
    behind = {"port": 5432, "user": "postgres", **conninfo_to_dict(uri)}
    folder.chmod(0o755)
    settings.write_text(SETTINGS.format(listen_port=port, pool_size=pool_size, **behind))
    # As root it wants another user; the private server's socket belongs to that of the wheel.
    user = ["-u", "pgserver"] if os.geteuid() == 0 else []
    with log.open("ab") as file:
        process = subprocess.Popen([installed(), *user, str(settings)], stdout=file, stderr=file)
    deadline = time.monotonic() + 60
    try:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        else:
            raise RuntimeError(log.read_text())
        yield port
    finally:
        process.kill()
        process.wait()
