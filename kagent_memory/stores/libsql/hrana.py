"""Connections to a libSQL server (Turso, sqld) by the published protocol Hrana over HTTP, version
2, which all servers know. The package `libsql` would block the whole process while it waits.

A stream of the protocol is a connection to the database. Each transaction has its own stream, which
its last request closes, so that none stays idle. BEGIN is sent with the first statement.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
from typing_extensions import override

from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ..codec import from_base64
from ..sql.row_codec import Row
from .connection import COMMIT, Busy, Connection, Server, Statement, Value, mapped

TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # servers end a transaction after 5 or 10 seconds
# after a timeout, so that queued calls do not each wait as long
REST_SECONDS = 1.0
MAX_MESSAGE = 500  # characters
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout)
_AGAIN = (408, 425, 429)
_DENIED = (401, 403)
_NOT_OURS = (ValueError, LookupError, TypeError, AttributeError, RecursionError, httpx.InvalidURL)


class ServerConnection(Connection):
    """Connection to one server. Every statement belongs to a transaction, whose first statement
    makes the first request.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        self._baton: str | None = None
        self._begin: Sequence[Statement] = ()  # sent with the next statement
        self.resting_until = 0.0

    @override
    def run(self, *statements: Statement) -> Sequence[Sequence[Row]]:
        begin, self._begin = self._begin, ()
        answers = self._request([*begin, *statements])
        if self._baton is None:
            raise Busy(
                f"The libSQL server {self.server.url} ended the transaction early; try again."
            )
        return answers[len(begin) :]

    @override
    def begin(self, sql: str) -> None:
        self._baton = None
        self._begin = [(sql, {})]

    @override
    def end(self, sql: str) -> None:
        if self._baton is not None:  # else nothing was sent, or the server ended it
            self._request([(sql, {})], {"type": "close"})

    @override
    def close(self) -> None:
        self._client.close()

    def _request(
        self, statements: Sequence[Statement], *last: Mapping[str, str]
    ) -> Sequence[Sequence[Row]]:
        """Run statements in order until one fails; return the rows of each.

        Args:
            statements: the statements with their values.
            last: further requests of the stream.

        Raises:
            Busy: the stream was lost, or the server is busy; nothing was written.
            StoreError: the server cannot be reached, or its answer is invalid. After a lost COMMIT
                it is unknown whether the transaction was written.
            ConfigurationError: it is not a libSQL server, or refuses this token.
            KagentMemoryError: the database refused a statement.
        """
        if self._baton is None and time.monotonic() < self.resting_until:
            raise StoreError(
                f"The libSQL server {self.server.url} did not answer in time a moment ago."
            )
        body = {"baton": self._baton, "requests": [_batch(statements), *last]}
        try:
            response = self._client.post(f"{self.server.url}/v2/pipeline", json=body)
            response.raise_for_status()
            return self._read(response.json(), statements)
        except (httpx.HTTPError, *_NOT_OURS) as error:
            raise self._lost(error, commits=statements[0][0] == COMMIT) from error

    def _read(self, told: Any, statements: Sequence[Statement]) -> Sequence[Sequence[Row]]:
        """Return the rows of all statements, and store the server's baton.

        Raises:
            KagentMemoryError: the database refused one of them.
            _NOT_OURS: the answer does not fit the protocol.
        """
        self._baton = told.get("baton")
        told_url = (told.get("base_url") or self.server.url).rstrip("/")
        if httpx.URL(told_url) != httpx.URL(self.server.url):
            raise ValueError("it sends its clients on, and the token goes nowhere else")
        first: Any = told["results"][0]
        failed = {"step_errors": [first.get("error")]}
        result: Any = failed if first["type"] == "error" else first["response"]["result"]
        for error in filter(None, result["step_errors"]):
            raise mapped(self._shown(f"{error['message']} ({error.get('code')})"))
        answers = zip(result["step_results"], statements, strict=True)
        return [_answer(answer) for answer, _ in answers]

    def _lost(self, error: Exception, *, commits: bool) -> KagentMemoryError:
        """Return our error for a failed request, which by the protocol ends the stream."""
        had_stream, self._baton = self._baton is not None, None
        kind: type[KagentMemoryError] = Busy
        advice, cause = "cannot be reached or broke off", str(error) or type(error).__name__
        was_sent = not isinstance(error, _NEVER_SENT)
        match error:
            case httpx.HTTPStatusError(response=response):
                status, cause = response.status_code, response.text
                advice = f"answered {status}"
                is_lost = had_stream and status not in _DENIED
                if not (status in _AGAIN or status >= 500 or is_lost):
                    kind = ConfigurationError
                    advice += (
                        ", not as a libSQL server with a database of this name that accepts this "
                        "authToken does"
                    )
            case httpx.TimeoutException():
                kind = StoreError
                self.resting_until = time.monotonic() + REST_SECONDS
            case httpx.HTTPError():
                kind = Busy if was_sent else StoreError
            case _:
                kind = StoreError
                advice = "does not speak libSQL's protocol; check host and port in the URI"
        fate = "nothing was written"
        if commits and was_sent:
            kind = StoreError
            fate = "whether this was written is unknown: read it again before you retry"
        return kind(self._shown(f"The libSQL server {self.server.url} {advice}; {fate} ({cause})"))

    def _shown(self, message: str) -> str:
        """Return a message in one short line, without the token."""
        shown = message.replace(self.server.token, "***") if self.server.token else message
        return " ".join(shown.split())[:MAX_MESSAGE]


def _batch(statements: Sequence[Statement]) -> dict[str, Any]:
    steps = [
        {
            "stmt": {
                "sql": sql,
                "named_args": [
                    {"name": name, "value": _encoded(value)} for name, value in values.items()
                ],
            },
            "condition": {"type": "ok", "step": number - 1} if number else None,
        }
        for number, (sql, values) in enumerate(statements)
    ]
    return {"type": "batch", "batch": {"steps": steps}}


def _answer(result: Mapping[str, Any]) -> Sequence[Row]:
    columns = [column["name"] for column in result["cols"]]
    return [dict(zip(columns, map(_decoded, row), strict=True)) for row in result["rows"]]


def _encoded(value: Value) -> dict[str, Any]:
    match value:
        case None:
            return {"type": "null"}
        case bytes():
            return {"type": "blob", "base64": base64.b64encode(value).decode()}
        case int():
            return {"type": "integer", "value": str(int(value))}  # True is 1
        case _:
            return {"type": "text" if isinstance(value, str) else "float", "value": value}


def _decoded(cell: Mapping[str, Any]) -> Value:
    match cell["type"]:
        case "integer":
            return int(cell["value"])
        case "blob":
            return from_base64(cell["base64"])  # sqld leaves the padding out
        case _:
            return cell.get("value")
