"""A libSQL server (Turso, sqld) as a driver, by the published protocol Hrana over HTTP, version 2,
which all speak.

A stream of the protocol is a connection to the database. Here each transaction has a stream of its
own, which its last request closes, so that none is left idle until the server ends it. BEGIN goes
along with the first statement. Python's global lock is free while a request is under way.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NoReturn, TypeAlias
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from ...errors import ConfigurationError, KagentMemoryError, StoreError
from ..codec import from_base64
from .driver import Busy, Value
from .location import Server

TIMEOUT = httpx.Timeout(10.0, connect=5.0)  # servers end a transaction after 5 or 10 seconds
# after a server did not answer in time: who waits behind that call need not wait as long again
REST_SECONDS = 1.0
SHOWN = 300  # characters of what a server says
_AGAIN = (408, 425, 429, 502, 503, 504)


class Failure(Exception):
    """The database refused a statement; says so in its own words."""


class _Null(TypedDict):
    type: Literal["null"]


class _Integer(TypedDict):
    type: Literal["integer"]
    value: int


class _Float(TypedDict):
    type: Literal["float"]
    value: float


class _Text(TypedDict):
    type: Literal["text"]
    value: str


class _Blob(TypedDict):
    type: Literal["blob"]
    base64: Annotated[bytes, BeforeValidator(from_base64)]  # sqld leaves the padding out


_Given: TypeAlias = Annotated[
    _Null | _Integer | _Float | _Text | _Blob, Field(discriminator="type")
]


class _Column(BaseModel):
    name: str | None = None


class _Result(BaseModel):
    cols: list[_Column]
    rows: list[list[_Given]]
    affected_row_count: int = 0


class _Error(BaseModel):
    message: str
    code: str | None = None


class _Results(BaseModel):
    step_results: list[_Result | None]
    step_errors: list[_Error | None]


class _Batch(BaseModel):
    type: Literal["batch"]
    result: _Results


class _Close(BaseModel):
    type: Literal["close"]


class _Done(BaseModel):
    type: Literal["ok"]
    response: Annotated[_Batch | _Close, Field(discriminator="type")]


class _Refused(BaseModel):
    type: Literal["error"]
    error: _Error


class _Answer(BaseModel):
    baton: str | None = None
    base_url: str | None = None
    results: list[Annotated[_Done | _Refused, Field(discriminator="type")]]


_ANSWER = TypeAdapter(_Answer)


class Cursor:
    """The whole answer to one statement."""

    def __init__(self, result: _Result | None = None) -> None:
        self.rowcount = result.affected_row_count if result else 0
        columns = result.cols if result else []
        self.description: Sequence[tuple[str, None, None, None, None, None, None]] | None = [
            (column.name or "", None, None, None, None, None, None) for column in columns
        ]
        self._rows: list[tuple[Any, ...]] = (
            [tuple(value.get("base64", value.get("value")) for value in row) for row in result.rows]
            if result
            else []
        )  # a null has neither

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self._rows


class Connection:
    """Connection to one server, as `driver.Driver` has it. It makes no request before the first
    statement.
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

    def execute(self, sql: str, parameters: Sequence[Value], /) -> Cursor:
        """Runs one statement."""
        if sql.startswith("BEGIN"):
            self._begin, self._writes = sql, sql != "BEGIN"
        elif sql == "COMMIT":
            if self._baton is not None:
                self._request([_step("COMMIT", ())], ends=True, keeps=self._writes)
            self._leave()
        elif sql == "ROLLBACK":
            self._abandon()
        else:
            return Cursor(self._run([_step(sql, parameters)])[0])
        return Cursor()

    def executemany(self, sql: str, parameters: Sequence[Sequence[Value]], /) -> Cursor:
        """Runs one statement for each row of values, in one request."""
        return (
            Cursor(self._run([_step(sql, row) for row in parameters])[-1])
            if parameters
            else Cursor()
        )

    def execute_batch(self, statements: Sequence[str], /) -> None:
        """Runs statements without values in one request, each only when the one before it
        succeeded.
        """
        if statements:
            self._run([_step(sql, ()) for sql in statements])

    def close(self) -> None:
        """Closes; an open transaction is rolled back."""
        self._abandon()
        self._client.close()

    def _run(self, steps: Sequence[dict[str, Any]]) -> Sequence[_Result]:
        begins = [_step(self._begin, ())] if self._begin else []
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
        """Ends the stream, and with it a transaction; where the server does not hear of it, it does
        so by itself.
        """
        if self._baton is not None:
            with suppress(KagentMemoryError, Failure):
                self._request([], ends=True, keeps=False)
        self._leave()

    def _leave(self) -> None:
        self._begin, self._baton, self._url = None, None, self._server.url

    def _request(
        self, steps: Sequence[dict[str, Any]], *, ends: bool, keeps: bool
    ) -> Sequence[_Result]:
        """The results of statements, each of which runs only when the one before it succeeded.

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
        if self._baton is None and time.monotonic() < self._resting_until:
            self._leave()
            raise StoreError(
                f"The libSQL server {self._server.url} did not answer in time a moment ago."
            )
        requests: list[dict[str, Any]] = []
        if steps:  # each runs only when the one before it succeeded
            first, *others = steps
            after = [
                {"stmt": statement, "condition": {"type": "ok", "step": number}}
                for number, statement in enumerate(others)
            ]
            requests = [{"type": "batch", "batch": {"steps": [{"stmt": first}, *after]}}]
        body = {
            "baton": self._baton,
            "requests": [*requests, {"type": "close"}] if ends else requests,
        }
        try:
            response = self._client.post(
                f"{self._url}/v2/pipeline", content=json.dumps(body, ensure_ascii=False)
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            self._leave()
            self._rest(error)
            raise StoreError(
                f"The libSQL server {self._server.url} cannot be reached: {self._said(error)}."
            ) from error
        except httpx.HTTPError as error:
            self._rest(error)
            self._lost(error, keeps=keeps, again=not isinstance(error, httpx.TimeoutException))
        if not response.is_success:
            self._refused(response, keeps=keeps)
        try:
            answer = _ANSWER.validate_json(response.content)
            self._follow(answer)
            return _results(answer, len(steps), ends=ends)
        except Failure as error:
            raise Failure(self._said(error)) from None
        except ValueError as error:  # pydantic's is one
            self._leave()
            raise StoreError(
                (
                    f"What answers at {self._server.url} does not speak libSQL's protocol; check "
                    "host and port in the URI."
                )
                + (" Whether this was written is unknown." if keeps else "")
            ) from error

    def _rest(self, error: httpx.HTTPError) -> None:
        if isinstance(error, httpx.TimeoutException):
            self._resting_until = time.monotonic() + REST_SECONDS

    def _follow(self, answer: _Answer) -> None:
        """Goes on where the server says: with its baton, and at its address."""
        self._baton = answer.baton
        if answer.base_url:
            given, own = urlsplit(answer.base_url), urlsplit(self._server.url)
            if (
                given.scheme not in ("https", own.scheme)
                or not given.hostname
                or "@" in given.netloc
            ):
                raise ValueError("a base_url that the token must not be sent to")
            self._url = answer.base_url.rstrip("/")

    def _refused(self, response: httpx.Response, *, keeps: bool) -> NoReturn:
        """Raises what an HTTP error means; the stream is gone, says the protocol."""
        status, begun, said = (
            response.status_code,
            self._baton is not None,
            self._said(response.text),
        )
        at = self._server.url
        if status in (401, 403):
            self._leave()
            raise ConfigurationError(
                f"The libSQL server {at} does not accept this authToken ({status}): {said}"
            )
        if not begun and status < 500 and status not in _AGAIN:
            self._leave()
            raise ConfigurationError(
                f"{at} answered {status}, not as a libSQL server with a database of this name "
                "and this authToken "
                f"does: {said}"
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


def connect(server: Server) -> Connection:
    """A connection that begins no transaction by itself, and makes no request yet."""
    return Connection(server)


def is_failure(error: BaseException) -> bool:
    """Return True if an error is the database's own."""
    return isinstance(error, Failure)


def _step(sql: str, parameters: Sequence[Value]) -> dict[str, Any]:
    arguments: list[dict[str, Any]] = []
    for value in parameters:
        match value:
            case None:
                arguments.append({"type": "null"})
            case bytes():
                arguments.append({"type": "blob", "base64": base64.b64encode(value).decode()})
            case int():
                arguments.append({"type": "integer", "value": str(value)})
            case float():
                arguments.append({"type": "float", "value": value})
            case str():
                arguments.append({"type": "text", "value": value})
    return {"sql": sql, "args": arguments}


def _results(answer: _Answer, steps: int, *, ends: bool) -> Sequence[_Result]:
    """The results of so many statements.

    Raises:
        Failure: one of them failed.
        ValueError: the answer is not one to what was asked.
    """
    if len(answer.results) != bool(steps) + ends:
        raise ValueError("not as many results as requests")
    if refused := next((one for one in answer.results if isinstance(one, _Refused)), None):
        raise Failure(_told(refused.error))
    if not steps:
        return []
    done = answer.results[0]
    if not isinstance(done, _Done) or not isinstance(done.response, _Batch):
        raise ValueError("not the result of a batch")
    found = done.response.result
    if error := next(filter(None, found.step_errors), None):
        raise Failure(_told(error))
    results = [one for one in found.step_results if one is not None]
    if len(results) != steps or any(
        len(row) != len(one.cols) for one in results for row in one.rows
    ):
        raise ValueError("a statement without a result, or a row without its columns")
    return results


def _told(error: _Error) -> str:
    return f"{error.message} ({error.code})" if error.code else error.message
