"""A TCP relay on loopback that can go bad the ways a network does, and a PgBouncer, for tests of
real clients.

    with Relay(postgres_uri) as relay:
        store = await open_store(relay.uri)
        relay.way = "swallow"    # what comes is read and acknowledged, nothing ever comes back
        relay.way = "stall"      # nothing is read any more
        relay.way = "refuse"     # who connects is reset
        relay.way = "garble"     # who connects gets an answer of no protocol
        relay.way = "halve"      # who connects gets half of the first answer
        relay.speed = 10_000     # so many bytes a second get through, each way
        relay.flow()             # as at the beginning
        relay.cut()              # every connection is reset

It runs on a thread of its own, so that a client's blocked event loop does not hold it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import socket
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


async def dial(uri: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a server by its socket or by TCP."""
    given = conninfo_to_dict(uri)
    host, port = str(given["host"]), int(given.get("port") or 5432)
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)


def at(uri: str, port: int) -> str:
    """The same database, reached by TCP at a port of this machine."""
    given = {name: str(value) for name, value in conninfo_to_dict(uri).items() if value is not None}
    given.pop("host")
    given.pop("port", None)
    user, password, name = (
        quote(given.pop(key, ""), safe="") for key in ("user", "password", "dbname")
    )
    rest = f"?{urlencode(given)}" if given else ""
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
        self.way = "flow" if uri else "swallow"
        self.speed = 0.0
        self._behind = uri
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(self._listen())
        self.port = self._server.sockets[0].getsockname()[1]
        self.uri = (
            at(uri, self.port) if uri else f"postgresql://nobody@127.0.0.1:{self.port}/nothing"
        )
        self.accepted = 0

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def flow(self) -> None:
        self.way, self.speed = "flow", 0.0

    def cut(self) -> None:
        self._run(self._cut())

    async def _listen(self) -> asyncio.Server:
        listening = socket.socket()
        # what crawls or stalls here is felt there
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
        listening.bind(("127.0.0.1", 0))
        return await asyncio.start_server(self._accept, sock=listening)

    async def _cut(self) -> None:
        while self._writers:
            self._writers.pop().transport.abort()

    async def _end(self) -> None:
        self.way = "flow"
        self._server.close()
        await asyncio.sleep(0.01)  # who was just accepted is served by now, and cut as well
        await self._cut()
        await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0)), *self._serving})
        await self._cut()  # what they opened meanwhile
        await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            if self.way == "refuse":
                writer.transport.abort()
                return
            if self.way == "garble":
                await reader.read(PIECE)
                writer.write(b"HTTP/1.1 418 I'm a teapot\r\n\r\n" * 100)
                return
            if self._behind is None or self.way == "swallow":
                while await reader.read(PIECE):
                    pass
                return
            back_reader, back_writer = await dial(self._behind)
            self._writers.add(back_writer)
            if self.way == "halve":
                back_writer.write(await reader.read(PIECE))
                answer = await back_reader.read(PIECE)
                writer.write(answer[: len(answer) // 2])
                back_writer.close()
                return
            ways = (self._forward(reader, back_writer), self._forward(back_reader, writer))
            await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            return
        finally:
            writer.close()  # which may wait until all is sent: `cut` resets it still

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            piece = b"more"
            while piece:
                while self.way == "stall":  # noqa: ASYNC110 another thread turns it
                    await asyncio.sleep(0.01)
                piece = await reader.read(PIECE)
                while self.way == "stall":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                if self.speed:
                    await asyncio.sleep(len(piece) / self.speed)
                if self.way == "flow":
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.close()  # which may wait until all is sent: `cut` resets it still


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
    found = shutil.which("pgbouncer", path=places)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in ("update -qq", "install -y -qq --no-install-recommends pgbouncer"):
            command = ["apt-get", *words.split()]
            subprocess.run(command, check=True, capture_output=True, timeout=300, env=environ)
        found = shutil.which("pgbouncer", path=places)
    return found or missing("pgbouncer")


SETTINGS = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 2000
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer:
    """Debian's PgBouncer before a PostgreSQL, in transaction mode, on a port of its own; `uri`
    names the same database through it.
    """

    def __init__(self, uri: str, folder: Path) -> None:
        self._program = installed()
        self._folder = folder
        self.port = free_port()
        self.uri = at(uri, self.port)
        behind = {"port": 5432, "user": "postgres", **conninfo_to_dict(uri)}
        folder.chmod(0o755)
        settings = SETTINGS.format(listen_port=self.port, **behind)
        (folder / "pgbouncer.ini").write_text(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        # As root it wants another user; the private server's socket belongs to that of the wheel.
        user = ["-u", "pgserver"] if os.geteuid() == 0 else []
        command = [self._program, *user, str(self._folder / "pgbouncer.ini")]
        with (self._folder / "pgbouncer.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError((self._folder / "pgbouncer.log").read_text())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextlib.contextmanager
def pgbouncer(uri: str, folder: Path) -> Iterator[PgBouncer]:
    """A PgBouncer for the length of a `with`."""
    running = PgBouncer(uri, folder)
    try:
        yield running
    finally:
        running.stop()
