"""Connections to a libSQL server (Turso, sqld) by the published protocol Hrana over HTTP, version
2, which all speak.

A stream of the protocol is a connection to the database. Here each transaction has a stream of its
own, which its last request closes, so that none is left idle until the server ends it. BEGIN goes
along with the first statement. Python's global lock is free while a request is under way.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx
from typing_extensions import override

from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ..codec import from_base64
from ..sql.session import Answer
from .connection import Busy, Connection, Server, Statement, Value, mapped

TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # servers end a transaction after 5 or 10 seconds
# after a server did not answer in time: who waits behind that call need not wait as long again
REST_SECONDS = 1.0
MAX_QUOTED = 300  # characters of the server's words
_AGAIN = (408, 425, 429, 502, 503, 504)
_VALUES: Mapping[str, Callable[[Mapping[str, Any]], Value]] = {
    "null": lambda _: None,
    "integer": lambda cell: int(cell["value"]),
    "float": lambda cell: float(cell["value"]),
    "text": lambda cell: str(cell["value"]),
    "blob": lambda cell: from_base64(cell["base64"]),  # sqld leaves the padding out
}
_NOT_OURS = (
    ValueError, LookupError, TypeError, AttributeError, RecursionError, httpx.InvalidURL,
)  # fmt: skip


class ServerConnection(Connection):
    """Connection to one server, which makes no request before the first statement; all of its
    statements stand in transactions.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        self._writes = False
        self._resting_until = 0.0
        self._leave()

    def _leave(self) -> None:
        self._begin: Sequence[Statement] = ()  # goes along with the next statement
        self._baton: str | None = None
        self._url = self._server.url

    @override
    def run(self, *statements: Statement) -> Sequence[Answer]:
        begin, self._begin = self._begin, ()
        answers = self._request([*begin, *statements])
        if self._baton is None:
            raise Busy(
                f"The libSQL server {self._server.url} ended the transaction early; try again."
            )
        return answers[len(begin) :]

    @override
    def begin(self, *, write: bool) -> None:
        self._begin, self._writes = [("BEGIN IMMEDIATE" if write else "BEGIN", {})], write

    @override
    def commit(self) -> None:
        if self._baton is not None:
            self._request([("COMMIT", {})], ends=True)
        self._leave()

    @override
    def rollback(self) -> None:
        if self._baton is not None:
            with suppress(KagentMemoryError):  # a server that does not hear of it ends it by itself
                self._request([("ROLLBACK", {})], ends=True)
        self._leave()

    @override
    def close(self) -> None:
        self.rollback()
        self._client.close()

    def _request(self, statements: Sequence[Statement], *, ends: bool = False) -> Sequence[Answer]:
        """Return the answers to statements, each of which runs only when the one before it
        succeeded.

        Args:
            statements: with their values.
            ends: close the stream after them; without an answer it stays unknown whether what the
                transaction wrote was kept, else nothing was.

        Raises:
            Busy: the stream was lost, or the server has no time; nothing was kept.
            StoreError: the server cannot be reached, or its answer is none.
            ConfigurationError: it is not a libSQL server, or does not accept this token.
            KagentMemoryError: the database refused a statement.
        """
        at, unknown = self._server.url, ends and self._writes
        if self._baton is None and time.monotonic() < self._resting_until:
            raise StoreError(f"The libSQL server {at} did not answer in time a moment ago.")
        body = {
            "baton": self._baton,
            "requests": [_batch(statements), *([{"type": "close"}] if ends else [])],
        }
        try:
            response = self._client.post(f"{self._url}/v2/pipeline", json=body)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise self._lost(error, unknown=unknown) from error
        except (httpx.InvalidURL, UnicodeError) as error:  # of a host's name
            raise ConfigurationError(
                f"{at} is the address of no server; correct the host in the URI."
            ) from error
        try:
            refused, answers = self._read(response.json(), statements)
        except _NOT_OURS as error:
            self._leave()
            lost = " Whether this was written is unknown." if unknown else ""
            raise StoreError(
                f"What answers at {at} does not speak libSQL's protocol; check host and port in "
                f"the URI.{lost}"
            ) from error
        if refused:
            raise mapped(self._quoted(f"{refused['message']} ({refused.get('code')})"))
        return answers

    def _read(
        self, told: Any, statements: Sequence[Statement]
    ) -> tuple[Mapping[str, Any] | None, Sequence[Answer]]:
        """Return the error of the statement that failed, or the answers to all; go on where the
        server says, with its baton and at its address.

        Raises:
            _NOT_OURS: it is no answer to what was asked.
        """
        self._baton = told.get("baton")
        if base_url := told.get("base_url"):
            url = httpx.URL(base_url)
            is_safe = url.scheme in ("https", self._server.url.partition(":")[0])
            if not is_safe or url.userinfo or not url.host:
                raise ValueError("a base_url that the token must not be sent to")
            self._url = base_url.rstrip("/")
        [first, *_] = told["results"]
        if first["type"] == "error":
            return first["error"], ()
        result = first["response"]["result"]
        if errors := [*filter(None, result["step_errors"])]:
            return errors[0], ()
        answers = zip(result["step_results"], statements, strict=True)
        return None, [_answer(result) for result, _ in answers]

    def _lost(self, error: httpx.HTTPError, *, unknown: bool) -> KagentMemoryError:
        """Return our error for a request that failed; its stream is gone, says the protocol."""
        had_stream = self._baton is not None
        self._leave()
        at, cause, again = self._server.url, str(error) or type(error).__name__, True
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            cause = f"{status}: {error.response.text}"
            may_pass = had_stream or status >= 500 or status in _AGAIN
            if status in (401, 403) or not may_pass:
                return ConfigurationError(
                    f"{at} answered {status}, not as a libSQL server with a database of this name "
                    f"that accepts this authToken does: {self._quoted(error.response.text)}"
                )
            again = status < 500 or status in _AGAIN
        elif isinstance(error, httpx.TimeoutException | httpx.ConnectError):
            again = False
            unknown = unknown and not isinstance(error, httpx.ConnectTimeout | httpx.ConnectError)
            if isinstance(error, httpx.TimeoutException):
                self._resting_until = time.monotonic() + REST_SECONDS
        message = f"The libSQL server {at} cannot be reached or broke off ({self._quoted(cause)})"
        if unknown:
            return StoreError(
                f"{message}; whether this was written is unknown: read it again before you retry."
            )
        return (Busy if again else StoreError)(f"{message}; nothing was written.")

    def _quoted(self, told: str) -> str:
        """Shorten the words of a server or client, without the token."""
        shown = told.replace(self._server.token, "***") if self._server.token else told
        return " ".join(shown.split())[:MAX_QUOTED]


def _batch(statements: Sequence[Statement]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = []
    for number, (sql, values) in enumerate(statements):
        named = [{"name": name, "value": _value(value)} for name, value in values.items()]
        step: dict[str, Any] = {"stmt": {"sql": sql, "named_args": named}}
        if number:
            step["condition"] = {"type": "ok", "step": number - 1}
        steps.append(step)
    return {"type": "batch", "batch": {"steps": steps}}


def _answer(result: Mapping[str, Any]) -> Answer:
    columns = [column.get("name") or "" for column in result["cols"]]
    rows = [
        {column: _VALUES[cell["type"]](cell) for column, cell in zip(columns, row, strict=True)}
        for row in result["rows"]
    ]
    return Answer(rows, int(result.get("affected_row_count", 0)))


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
