"""A libSQL server on loopback: Hrana over HTTP 2 as published, over real databases of sqlite3, for
tests of the driver.

    with HranaServer(token="secret") as server:
        store = await open_store(server.uri())       # each call names a new database
        server.plan(500, b"not json", "cut", "drop", "expire", ready)
        server.requests                              # the bodies that came in

A step of the plan meets the next request: a status; bytes that are the whole answer; "cut": the
connection ends before anything is done, "drop": after all was done; "expire": every stream is
closed first; "hang": no answer until `server.released` is set; a function of the answer's JSON that
gives another; None: nothing unusual."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import socket
import sqlite3
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote


class HranaServer:
    def __init__(self, directory: Path, *, token: str = "") -> None:
        self.token = token
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self._directory = directory
        self._names = itertools.count()
        self._plan: list[Any] = []
        self.hung = 0
        self.released = threading.Event()
        self.streams: dict[str, sqlite3.Connection] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (Handler,), {"hrana": self})
        )
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HranaServer:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self.expire()

    def uri(self, name: str | None = None) -> str:
        given = f"?authToken={quote(self.token)}" if self.token else ""
        return f"libsql+http://{self.address}/{name or f'db{next(self._names)}'}{given}"

    def plan(self, *steps: Any) -> None:
        self._plan.extend(steps)

    def expire(self) -> None:
        """What a server does after some seconds: every stream ends, and what it had not committed
        is undone.
        """
        with self._lock:
            for connection in self.streams.values():
                connection.close()
            self.streams.clear()

    def step(self) -> Any:
        return self._plan.pop(0) if self._plan else None

    def connect(self, name: str) -> sqlite3.Connection:
        """Any client's connection to a database, the server's own included."""
        connection = sqlite3.connect(
            self._directory / f"{name}.db", isolation_level=None, timeout=0, check_same_thread=False
        )
        connection.execute("PRAGMA busy_timeout=60000")  # two that come first together
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA busy_timeout=0")
        if sqlite3.sqlite_version_info < (3, 41):
            connection.create_function("unhex", 1, bytes.fromhex, deterministic=True)
        return connection

    def answer(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            connection = (
                self.streams.pop(body["baton"], None) if body["baton"] else self.connect(name)
            )
        if connection is None:
            return 400, {
                "message": "The stream has expired due to inactivity",
                "code": "STREAM_EXPIRED",
            }
        results: list[dict[str, Any]] = []
        is_open = True
        for request in body["requests"]:
            assert is_open, "a request on a closed stream"
            if request["type"] == "close":
                connection.close()
                is_open = False
                results.append({"type": "ok", "response": {"type": "close"}})
            else:
                assert request["type"] == "batch", request
                done = {"type": "batch", "result": batch(connection, request["batch"]["steps"])}
                results.append({"type": "ok", "response": done})
        baton = None
        if is_open:
            baton = secrets.token_urlsafe()
            with self._lock:
                self.streams[baton] = connection
        return 200, {"baton": baton, "base_url": None, "results": results}


def batch(connection: sqlite3.Connection, steps: Iterable[dict[str, Any]]) -> dict[str, Any]:
    results: list[Any] = []
    errors: list[Any] = []
    for step in steps:
        condition = step.get("condition")
        assert condition is None or condition["type"] == "ok"
        result = error = None
        if condition is None or results[condition["step"]] is not None:
            try:
                result = execute(connection, **step["stmt"])
            except sqlite3.Error as wrong:
                error = {"message": f"SQLite error: {wrong}", "code": "SQLITE_ERROR"}
        results.append(result)
        errors.append(error)
    return {"step_results": results, "step_errors": errors}


def execute(
    connection: sqlite3.Connection, sql: str, named_args: list[dict[str, Any]]
) -> dict[str, Any]:
    if sql.upper().startswith(("PRAGMA", "ATTACH", "VACUUM")):  # Turso and sqld take none of them
        raise sqlite3.OperationalError("SQL not allowed statement")
    values = {given["name"]: decoded(given["value"]) for given in named_args}
    cursor = connection.execute(sql, values)
    rows = [[encoded(value) for value in row] for row in cursor.fetchall()]
    columns = [{"name": column[0], "decltype": None} for column in cursor.description or ()]
    count = max(cursor.rowcount, 0)
    return {
        "cols": columns,
        "rows": rows,
        "affected_row_count": count,
        "last_insert_rowid": str(cursor.lastrowid or 0),
    }


def decoded(value: dict[str, Any]) -> Any:
    kinds = {
        "null": lambda: None,
        "integer": lambda: int(value["value"]),
        "float": lambda: float(value["value"]),
        "text": lambda: value["value"],
        "blob": lambda: base64.b64decode(value["base64"]),
    }
    assert value["type"] != "integer" or isinstance(value["value"], str)
    return kinds[value["type"]]()


def encoded(value: Any) -> dict[str, Any]:
    if value is None:
        return {"type": "null"}
    if isinstance(value, bytes):  # as sqld does it: without padding
        return {"type": "blob", "base64": base64.b64encode(value).decode().rstrip("=")}
    if isinstance(value, int):
        return {"type": "integer", "value": str(value)}
    return {"type": "float" if isinstance(value, float) else "text", "value": value}


class Handler(BaseHTTPRequestHandler):
    hrana: HranaServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_POST(self) -> None:
        server = self.hrana
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        step = server.step()
        if self._is_met(step):
            return
        if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
            self._send(
                401, json.dumps({"error": f"no: {self.headers.get('Authorization')}"}).encode()
            )
            return
        *front, version, ending = self.path.strip("/").split("/")
        if (version, ending) != ("v2", "pipeline"):
            self._send(404, b"")
            return
        body = json.loads(raw)
        server.requests.append(body)
        server.paths.append(self.path)
        status, answer = server.answer("_".join(front) or "default", body)
        if step == "drop":
            self._hang_up()
            return
        self._send(status, json.dumps(step(answer) if callable(step) else answer).encode())

    def _is_met(self, step: Any) -> bool:
        """Whether the step of the plan was the whole answer."""
        if step == "hang":
            self.hrana.hung += 1
            self.hrana.released.wait(60)
        if step in ("cut", "hang"):
            self._hang_up()
        elif step == "expire":
            self.hrana.expire()
        elif isinstance(step, int):
            self._send(step, b"<html>A proxy says no.</html>")
        elif isinstance(step, bytes):
            self._send(200, step)
        return step in ("cut", "hang") or isinstance(step, (int, bytes))

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
