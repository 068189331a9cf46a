"""Connections to a libSQL server (Turso, sqld) by the published protocol Hrana over HTTP, version
2, which all speak.

A stream of the protocol is a connection to the database. Here each transaction has a stream of its
own, which its last request closes, so that none is left idle until the server ends it. BEGIN goes
along with the first statement. Python's global lock is free while a request is under way.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx
from typing_extensions import override

from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ..codec import from_base64
from .connection import Answer, Busy, Connection, Server, Value, Values, mapped

TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # servers end a transaction after 5 or 10 seconds
# after a server did not answer in time: who waits behind that call need not wait as long again
REST_SECONDS = 1.0
MAX_QUOTED = 300  # characters of the server's words
_AGAIN = (408, 425, 429, 502, 503, 504)
_VALUES: Mapping[str, Callable[[Mapping[str, Any]], Value]] = {
    "null": lambda _: None,
    "integer": lambda given: int(given["value"]),
    "float": lambda given: float(given["value"]),
    "text": lambda given: str(given["value"]),
    "blob": lambda given: from_base64(given["base64"]),  # sqld leaves the padding out
}
_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


class ServerConnection(Connection):
    """Connection to one server, which makes no request before the first statement."""

    def __init__(self, server: Server) -> None:
        self._server = server
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._client = httpx.Client(
            timeout=TIMEOUT, headers={"Content-Type": "application/json", **headers}
        )
        self._begin: Sequence[tuple[str, Values]] = ()  # goes along with the next statement
        self._writes = False
        self._resting_until = 0.0
        self._baton: str | None = None
        self._url = server.url

    @override
    def run(self, *statements: tuple[str, Values]) -> Sequence[Answer]:
        alone = self._baton is None and not self._begin
        writes = any(not sql.startswith("SELECT") for sql, _ in statements)
        asked = [*self._begin, *statements]
        try:
            answers = self._request(asked, ends=alone, unknown=alone and writes)
        except KagentMemoryError:
            self.rollback()
            raise
        if self._baton is None and not alone:
            raise Busy(
                f"The libSQL server {self._server.url} ended the transaction early; try again."
            )
        self._begin = ()
        return answers[len(asked) - len(statements) :]

    @override
    def begin(self, *, write: bool) -> None:
        self._begin, self._writes = [("BEGIN IMMEDIATE" if write else "BEGIN", {})], write

    @override
    def commit(self) -> None:
        if self._baton is not None:
            self._request([("COMMIT", {})], ends=True, unknown=self._writes)
        self._leave()

    @override
    def rollback(self) -> None:
        if self._baton is not None:
            with suppress(KagentMemoryError):  # a server that does not hear of it ends it by itself
                self._request([], ends=True, unknown=False)
        self._leave()

    @override
    def close(self) -> None:
        self.rollback()
        self._client.close()

    def _leave(self) -> None:
        self._begin, self._baton, self._url = (), None, self._server.url

    def _request(
        self, statements: Sequence[tuple[str, Values]], *, ends: bool, unknown: bool
    ) -> Sequence[Answer]:
        """Return the answers to statements, each of which runs only when the one before it
        succeeded.

        Args:
            statements: with their values.
            ends: close the stream after them.
            unknown: without an answer it stays unknown whether the writes were kept; else none
                were.

        Raises:
            Busy: the stream was lost, or the server has no time; nothing was kept.
            StoreError: the server cannot be reached, or its answer is none.
            ConfigurationError: it is not a libSQL server, or does not accept this token.
            KagentMemoryError: the database refused a statement.
        """
        at = self._server.url
        if self._baton is None and time.monotonic() < self._resting_until:
            self._leave()
            raise StoreError(f"The libSQL server {at} did not answer in time a moment ago.")
        requests = [_batch(statements)] if statements else []
        if ends:
            requests.append({"type": "close"})
        body = json.dumps({"baton": self._baton, "requests": requests}, ensure_ascii=False)
        response = self._post(body, unknown=unknown)
        if not response.is_success:
            self._refuse(response.status_code, response.text, unknown=unknown)
        try:
            refused, answers = self._read(response.content, statements)
        except _NOT_OURS as error:
            self._leave()
            lost = " Whether this was written is unknown." if unknown else ""
            raise StoreError(
                f"What answers at {at} does not speak libSQL's protocol; check host and port in "
                f"the URI.{lost}"
            ) from error
        if refused:
            raise mapped(self._quoted(refused))
        return answers

    def _post(self, body: str, *, unknown: bool) -> httpx.Response:
        """Send a request; return whatever answers it."""
        try:
            return self._client.post(f"{self._url}/v2/pipeline", content=body)
        except httpx.HTTPError as error:
            is_slow = isinstance(error, httpx.TimeoutException)
            if is_slow:
                self._resting_until = time.monotonic() + REST_SECONDS
            is_away = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            self._lose(error, unknown=unknown and not is_away, again=not is_slow and not is_away)
        except (httpx.InvalidURL, UnicodeError) as error:  # of a host's name
            self._leave()
            raise ConfigurationError(
                f"{self._server.url} is the address of no server; correct the host in the URI."
            ) from error

    def _read(
        self, content: bytes, statements: Sequence[object]
    ) -> tuple[str | None, Sequence[Answer]]:
        """Return the error of the statement that failed, or the answers to all.

        Raises:
            _NOT_OURS: the content is no answer to what was asked.
        """
        told = json.loads(content)
        self._follow(told.get("baton"), told.get("base_url"))
        errors = [one["error"] for one in told["results"] if one["type"] == "error"]
        batch: Mapping[str, Any] = {}
        if statements and not errors:
            batch = told["results"][0]["response"]["result"]
        errors += filter(None, batch.get("step_errors", ()))
        if errors:
            return f"{errors[0]['message']} ({errors[0].get('code')})", ()
        results = zip(batch.get("step_results", ()), statements, strict=True)
        return None, [_answer(result) for result, _ in results]

    def _follow(self, baton: str | None, base_url: str | None) -> None:
        """Go on where the server says: with its baton, and at its address."""
        self._baton = baton
        if base_url:
            given, own = urlsplit(base_url), urlsplit(self._server.url)
            is_safe = given.scheme in ("https", own.scheme) and "@" not in given.netloc
            if not is_safe or not given.hostname:
                raise ValueError("a base_url that the token must not be sent to")
            self._url = base_url.rstrip("/")

    def _refuse(self, status: int, text: str, *, unknown: bool) -> NoReturn:
        """Raise the meaning of an HTTP error; the stream is gone, says the protocol."""
        may_pass = self._baton is not None or status >= 500 or status in _AGAIN
        if status in (401, 403) or not may_pass:
            self._leave()
            raise ConfigurationError(
                f"{self._server.url} answered {status}, not as a libSQL server with a database of "
                f"this name that accepts this authToken does: {self._quoted(text)}"
            )
        again = status < 500 or status in _AGAIN
        self._lose(f"{status}: {text}", unknown=unknown, again=again)

    def _lose(self, cause: object, *, unknown: bool, again: bool) -> NoReturn:
        self._leave()
        told = (
            f"The libSQL server {self._server.url} cannot be reached or broke off "
            f"({self._quoted(cause)})"
        )
        if unknown:
            raise StoreError(
                f"{told}; whether this was written is unknown: read it again before you retry."
            )
        raise (Busy if again else StoreError)(f"{told}; nothing was written.")

    def _quoted(self, cause: object) -> str:
        """Shorten the words of a server or client, without the token."""
        told = str(cause) or type(cause).__name__
        if self._server.token:
            told = told.replace(self._server.token, "***")
        return " ".join(told.split())[:MAX_QUOTED]


def _batch(statements: Sequence[tuple[str, Values]]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for number, (sql, values) in enumerate(statements):
        named = [{"name": name, "value": _value(value)} for name, value in values.items()]
        step: dict[str, Any] = {"stmt": {"sql": sql, "named_args": named}}
        if number:
            step["condition"] = {"type": "ok", "step": number - 1}
        steps.append(step)
    return {"type": "batch", "batch": {"steps": steps}}


def _answer(result: Mapping[str, Any]) -> Answer:
    """Return the answer to one statement.

    Raises:
        _NOT_OURS: it is none.
    """
    columns = [column.get("name") or "" for column in result["cols"]]
    rows = [
        [_VALUES[one["type"]](one) for one, _ in zip(row, columns, strict=True)]
        for row in result["rows"]
    ]
    return Answer(columns, rows, int(result.get("affected_row_count", 0)))


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
