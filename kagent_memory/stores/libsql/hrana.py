"""A libSQL server (Turso, sqld) as a driver, by the published protocol Hrana over HTTP, version 2,
which all speak.

A stream of the protocol is a connection to the database. Here each transaction has a stream of its
own, which its last request closes, so that none is left idle until the server ends it. BEGIN goes
along with the first statement. Python's global lock is free while a request is under way.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx

from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ..codec import from_base64
from .connection import Busy, Value
from .location import Server

TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # servers end a transaction after 5 or 10 seconds
# after a server did not answer in time: who waits behind that call need not wait as long again
REST_SECONDS = 1.0
SHOWN = 300  # characters of what a server says
_AGAIN = (408, 425, 429, 502, 503, 504)
_VALUES: Mapping[str, Callable[[Mapping[str, Any]], Value]] = {
    "null": lambda _: None,
    "integer": lambda given: int(given["value"]),
    "float": lambda given: float(given["value"]),
    "text": lambda given: str(given["value"]),
    "blob": lambda given: from_base64(given["base64"]),  # sqld leaves the padding out
}
_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class Failure(sqlite3.DatabaseError):
    """The database refused a statement; says so in its own words."""


class Cursor:
    """The whole answer to one statement.

    Raises:
        _NOT_OURS: it is none.
    """

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.rowcount = int(result.get("affected_row_count", 0))
        self.description = [(column.get("name") or "",) for column in result["cols"]]
        self._rows = [tuple(_VALUES[one["type"]](one) for one in row) for row in result["rows"]]
        if any(len(row) != len(self.description) for row in self._rows):
            raise ValueError("a row without its columns")

    def fetchall(self) -> list[tuple[Value, ...]]:
        """All rows."""
        return self._rows


_NOTHING = Cursor({"cols": [], "rows": []})


class Stream:
    """Connection to one server, as `connection.Driver` has it. It makes no request before the
    first statement.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._client = httpx.Client(
            timeout=TIMEOUT, headers={"Content-Type": "application/json", **headers}
        )
        self._begin: str | None = None  # goes along with the next statement
        self._writes = False
        self._resting_until = 0.0
        self._baton: str | None = None
        self._url = server.url

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""
        return self._begin is not None or self._baton is not None

    def execute(self, sql: str, values: Mapping[str, Value], /) -> Cursor:
        """Run one statement."""
        if sql.startswith("BEGIN"):
            self._begin, self._writes = sql, sql != "BEGIN"
        elif sql == "COMMIT":
            if self._baton is not None:
                self._request([_step("COMMIT", {})], ends=True, keeps=self._writes)
            self._leave()
        elif sql == "ROLLBACK":
            self._abandon()
        else:
            return self._run([_step(sql, values)])[0]
        return _NOTHING

    def executemany(self, sql: str, rows: Sequence[Mapping[str, Value]], /) -> Cursor:
        """Run one statement for each set of values, in one request."""
        return self._run([_step(sql, values) for values in rows])[-1]

    def execute_batch(self, statements: Sequence[str], /) -> None:
        """Run statements without values in one request, each only when the one before it
        succeeded.
        """
        self._run([_step(sql, {}) for sql in statements])

    def close(self) -> None:
        """Close; an open transaction is rolled back."""
        self._abandon()
        self._client.close()

    def _run(self, steps: Sequence[Mapping[str, Any]]) -> Sequence[Cursor]:
        begins = [_step(self._begin, {})] if self._begin else []
        alone = self._baton is None and not begins
        writes = any(not step["sql"].startswith("SELECT") for step in steps)
        try:
            done = self._request([*begins, *steps], ends=alone, keeps=alone and writes)
        except Failure:
            self._abandon()
            raise
        if self._baton is None and not alone:
            raise Busy(
                f"The libSQL server {self._server.url} ended the transaction early; try again."
            )
        self._begin = None
        return done[len(begins) :]

    def _abandon(self) -> None:
        """End the stream, and with it a transaction; where the server does not hear of it, it does
        so by itself.
        """
        if self._baton is not None:
            with suppress(KagentMemoryError, Failure):
                self._request([], ends=True, keeps=False)
        self._leave()

    def _leave(self) -> None:
        self._begin, self._baton, self._url = None, None, self._server.url

    def _request(
        self, steps: Sequence[Mapping[str, Any]], *, ends: bool, keeps: bool
    ) -> Sequence[Cursor]:
        """The answers to statements, each of which runs only when the one before it succeeded.

        Args:
            steps: the statements.
            ends: close the stream after them.
            keeps: when no answer comes, it stays unknown whether the writes were kept; else none
                were.

        Raises:
            Failure: the database refused a statement.
            Busy: the stream was lost, or the server has no time; nothing was kept.
            StoreError: the server cannot be reached, or its answer is none.
            ConfigurationError: it is not a libSQL server, or does not accept this token.
        """
        at = self._server.url
        if self._baton is None and time.monotonic() < self._resting_until:
            self._leave()
            raise StoreError(f"The libSQL server {at} did not answer in time a moment ago.")
        requests = [_batch(steps)] if steps else []
        if ends:
            requests.append({"type": "close"})
        body = json.dumps({"baton": self._baton, "requests": requests}, ensure_ascii=False)
        try:
            response = self._client.post(f"{self._url}/v2/pipeline", content=body)
        except httpx.HTTPError as error:
            if isinstance(error, httpx.TimeoutException):
                self._resting_until = time.monotonic() + REST_SECONDS
            if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
                self._leave()
                raise StoreError(
                    f"The libSQL server {at} cannot be reached: {self._said(error)}."
                ) from error
            self._lost(error, keeps=keeps, again=not isinstance(error, httpx.TimeoutException))
        if not response.is_success:
            self._refused(response, keeps=keeps)
        try:
            answer = json.loads(response.content)
            self._follow(answer.get("baton"), answer.get("base_url"))
            return self._cursors(answer["results"], len(steps), ends=ends)
        except _NOT_OURS as error:
            self._leave()
            unknown = " Whether this was written is unknown." if keeps else ""
            raise StoreError(
                f"What answers at {at} does not speak libSQL's protocol; check host and port in "
                f"the URI.{unknown}"
            ) from error

    def _follow(self, baton: object, base_url: object) -> None:
        """Go on where the server says: with its baton, and at its address."""
        if not isinstance(baton, str | None) or not isinstance(base_url, str | None):
            raise TypeError("a baton or base_url that is no text")
        self._baton = baton
        if base_url:
            given, own = urlsplit(base_url), urlsplit(self._server.url)
            is_safe = given.scheme in ("https", own.scheme) and "@" not in given.netloc
            if not is_safe or not given.hostname:
                raise ValueError("a base_url that the token must not be sent to")
            self._url = base_url.rstrip("/")

    def _cursors(
        self, results: Sequence[Mapping[str, Any]], steps: int, *, ends: bool
    ) -> Sequence[Cursor]:
        """The answers to so many statements.

        Raises:
            Failure: one of them failed.
            _NOT_OURS: the answer is not one to what was asked.
        """
        if len(results) != bool(steps) + ends:
            raise ValueError("not as many results as requests")
        errors = [one["error"] for one in results if one["type"] == "error"]
        batch = results[0]["response"]["result"] if steps and not errors else None
        if batch is not None:
            errors = [error for error in batch["step_errors"] if error is not None]
        if errors:
            code = f" ({errors[0]['code']})" if errors[0].get("code") else ""
            raise Failure(self._said(errors[0]["message"] + code))
        cursors = [Cursor(result) for result in batch["step_results"]] if batch else []
        if len(cursors) != steps:
            raise ValueError("a statement without a result")
        return cursors

    def _refused(self, response: httpx.Response, *, keeps: bool) -> NoReturn:
        """Raise what an HTTP error means; the stream is gone, says the protocol."""
        status, begun, at = response.status_code, self._baton is not None, self._server.url
        said = self._said(response.text)
        if status in (401, 403):
            self._leave()
            raise ConfigurationError(
                f"The libSQL server {at} does not accept this authToken ({status}): {said}"
            )
        if not begun and status < 500 and status not in _AGAIN:
            self._leave()
            raise ConfigurationError(
                f"{at} answered {status}, not as a libSQL server with a database of this name "
                f"and this authToken does: {said}"
            )
        self._lost(f"{status}: {said}", keeps=keeps, again=status < 500 or status in _AGAIN)

    def _lost(self, cause: object, *, keeps: bool, again: bool) -> NoReturn:
        self._leave()
        told = f"The libSQL server {self._server.url} broke off ({self._said(cause)})"
        if keeps:
            raise StoreError(
                f"{told}; whether this was written is unknown: read it again before you retry."
            )
        raise (Busy if again else StoreError)(f"{told}; nothing was written.")

    def _said(self, cause: object) -> str:
        """Shorten the words of a server or client, without the token."""
        told = str(cause) or type(cause).__name__
        if self._server.token:
            told = told.replace(self._server.token, "***")
        return " ".join(told.split())[:SHOWN]


def _batch(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *others = steps
    after = [
        {"stmt": statement, "condition": {"type": "ok", "step": number}}
        for number, statement in enumerate(others)
    ]
    return {"type": "batch", "batch": {"steps": [{"stmt": first}, *after]}}


def _step(sql: str, values: Mapping[str, Value]) -> dict[str, Any]:
    named = [{"name": name, "value": _value(value)} for name, value in values.items()]
    return {"sql": sql, "named_args": named}


def _value(value: Value) -> dict[str, Any]:
    match value:
        case None:
            return {"type": "null"}
        case bytes():
            return {"type": "blob", "base64": base64.b64encode(value).decode()}
        case int():
            return {"type": "integer", "value": str(value)}
        case float():
            return {"type": "float", "value": value}
        case str():
            return {"type": "text", "value": value}
