"""A libSQL server on loopback: Hrana over HTTP 2 as published, over real databases of sqlite3, for
tests of the driver.

    with HranaServer(token="secret") as server:
        store = await open_store(server.uri())       # each call names a new database
        server.plan(500, b"not json", "cut", "drop", "expire", ready)

A step of the plan meets the next request: a status; bytes that are the whole answer; "cut": the
connection ends before anything is done, "drop": after all was done; "expire": every stream is
closed first; "hang": no answer until `server.ended` is set; a function of the answer's JSON that
gives another; None: nothing unusual."""

from __future__ import annotations

import json
import secrets
import socket
import sqlite3
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

from loopback import JsonHandler, JsonServer


class HranaServer(JsonServer):
    def __init__(self, directory: Path, *, token: str = "") -> None:
        super().__init__(Handler)
        self.token = token
        self.paths: list[str] = []
        self.steps: list[Any] = []
        self.streams: dict[str, sqlite3.Connection] = {}
        self.hung = 0
        self._directory = directory

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.expire()

    def uri(self, name: str | None = None) -> str:
        query = f"?authToken={quote(self.token)}" if self.token else ""
        return f"libsql+http://{self.address}/{name or secrets.token_hex(4)}{query}"

    def plan(self, *steps: Any) -> None:
        self.steps.extend(steps)

    def expire(self) -> None:
        """End every stream, as a server does after some seconds; what it had not committed is
        undone.
        """
        with self.lock:
            for connection in self.streams.values():
                connection.close()
            self.streams.clear()

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
        baton = body["baton"]
        with self.lock:
            connection = self.streams.pop(baton, None) if baton else self.connect(name)
        if connection is None:
            return 400, {"message": "The stream has expired", "code": "STREAM_EXPIRED"}
        results: list[dict[str, Any]] = []
        baton = secrets.token_urlsafe()
        for request in body["requests"]:
            assert baton, "a request on a closed stream"
            response: dict[str, Any] = {"type": request["type"]}
            if request["type"] == "close":
                connection.close()
                baton = None
            else:
                response["result"] = batch(connection, request["batch"]["steps"])
            results.append({"type": "ok", "response": response})
        if baton:
            with self.lock:
                self.streams[baton] = connection
        return 200, {"baton": baton, "base_url": None, "results": results}


def batch(connection: sqlite3.Connection, steps: list[dict[str, Any]]) -> dict[str, Any]:
    results: list[Any] = []
    errors: list[Any] = []
    for step in steps:
        result = error = None
        condition = step.get("condition")
        if not condition or results[condition["step"]] is not None:
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
    values = {argument["name"]: decoded(**argument["value"]) for argument in named_args}
    cursor = connection.execute(sql, values)
    return {
        "rows": [[encoded(value) for value in row] for row in cursor.fetchall()],
        "cols": [{"name": column[0], "decltype": None} for column in cursor.description or ()],
        "affected_row_count": max(cursor.rowcount, 0),
        "last_insert_rowid": None,
    }


def decoded(type: str, value: Any = None, base64: str = "") -> Any:
    if type == "integer":
        assert isinstance(value, str)
        return int(value)
    return b64decode(base64) if type == "blob" else value


def encoded(value: Any) -> dict[str, Any]:
    if value is None:
        return {"type": "null"}
    if isinstance(value, bytes):  # as sqld does it: without padding
        return {"type": "blob", "base64": b64encode(value).decode().rstrip("=")}
    if isinstance(value, int):
        return {"type": "integer", "value": str(value)}
    return {"type": "float" if isinstance(value, float) else "text", "value": value}


class Handler(JsonHandler):
    server: HranaServer
    wbufsize = -1

    def do_POST(self) -> None:
        body = self.body()
        step = self.server.steps.pop(0) if self.server.steps else None
        if step == "hang":
            self.server.hung += 1
            self.server.ended.wait(60)
        status, payload = (0, b"") if step in ("cut", "hang") else self._answer(body, step)
        if step in ("cut", "drop", "hang"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.reply(status, payload)

    def _answer(self, body: dict[str, Any], step: Any) -> tuple[int, bytes]:
        server, authorization = self.server, self.headers.get("Authorization")
        path, _, version = self.path.strip("/").rpartition("/v2/")
        if isinstance(step, int):
            return step, b"<html>A proxy says no.</html>"
        if isinstance(step, bytes):
            return 200, step
        if step == "expire":
            server.expire()
        if server.token and authorization != f"Bearer {server.token}":
            return 401, json.dumps({"error": f"no: {authorization}"}).encode()
        if version != "pipeline":
            return 404, b""
        server.paths.append(self.path)
        status, answer = server.answer(path or "default", body)
        return status, json.dumps(step(answer) if callable(step) else answer).encode()
