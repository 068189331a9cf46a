"""The ASGI middleware before every route: who may connect, host, origin, sizes, rate, share, time,
and who calls.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import KagentMemoryError
from ..memories import Memories
from . import auth
from .admission import Admission, TooOften
from .auth import Access, Caller
from .error_responses import MCP_PATH, failed, refused, unauthorized
from .rate_limit import LONG_BODY, SMALL_BODY, Body, BodyBudget, FairShare, TooLarge

logger = logging.getLogger(__name__)

PROBES = frozenset({"/healthz", "/readyz"})
OPEN_PATHS = frozenset({"/login", "/static/style.css", "/static/icon.svg", "/favicon.ico"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
STORING = frozenset(
    {
        "/api/memories/sessions",
        "/api/memories/sessions/batch",
        "/api/v1/memories",
        "/api/v1/sessions",
    }
)
SPOOLED = "/api/v1/import"
MAX_HEAD_BYTES = 65_536
STREAMED = frozenset({SPOOLED, "/api/v1/export", "/export"})  # as long as it takes
MAX_BODY_ELSEWHERE = 1024 * 1024  # bytes of a body of another route
MAX_REQUESTS_PER_CALLER = 128  # that are open
REQUESTS_AT_ONCE = 128  # that are worked on, of all callers
CALL_SECONDS = 300.0  # in which a request must be read, worked on and answered
BODIES_AT_ONCE = 8  # of the longest ones
MIN_BODY_BUDGET = 16 * 1024 * 1024
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri "
    "'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only. Let others in with a token "
    "(`kagent-memory serve --auth`; "
    "`create_app(…, Access(required=True))`) or behind a proxy that sets X-User-Id "
    "(`--trusted-proxy`)."
)


class Gate:
    """ASGI middleware; what passes has `request.state.caller`. Health checks pass whatever the
    load.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        memories: Callable[[], Memories],
        admission: Admission,
    ) -> None:
        self._app, self._access, self._memories, self._admission = app, access, memories, admission
        self._share = FairShare(per_caller=MAX_REQUESTS_PER_CALLER, at_once=REQUESTS_AT_ONCE)
        self._budget = BodyBudget(max(BODIES_AT_ONCE * access.max_body_bytes, MIN_BODY_BUDGET))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request and have it answered within its limits, or refuse it."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        request, answer = Request(scope, receive), HardenedAnswer(send)
        deadline = asyncio.timeout(None if request.url.path in STREAMED else CALL_SECONDS)
        try:
            async with deadline:
                if refusal := await self._admit(request):
                    await refusal(scope, receive, answer.send)
                else:
                    await self._answer(request, answer)
        except ClientDisconnect:
            return  # the client is gone
        except Exception as error:
            if answer.has_started:
                raise
            await _failure(request, error, timed_out=deadline.expired())(
                scope, receive, answer.send
            )

    async def _answer(self, request: Request, answer: HardenedAnswer) -> None:
        """Have the application answer when it is the caller's turn."""
        caller: Caller | str = request.state.caller or auth.network_of(_address(request))
        budget = None if request.url.path == SPOOLED else self._budget
        body = Body(request.receive, self._max_body_bytes(request), budget, caller)
        try:
            with self._share.open(caller):
                async with self._share.turn(caller, is_long=_is_long(request)):
                    await self._app(request.scope, body.receive, answer.send)
        finally:
            body.close()

    async def _admit(self, request: Request) -> Response | None:
        """Set the caller of a request, or return the answer that refuses it."""
        if refusal := self._refusal(request):
            return refusal
        try:
            secret = auth.bearer(request.headers, request.cookies)
            caller = await self._admission.caller(request.headers, secret, _address(request))
        except TooOften as error:
            return refused(request, 429, str(error), headers={"retry-after": str(error.seconds)})
        except KagentMemoryError as error:  # the token could not be looked up
            return failed(request, error)
        request.state.caller = caller
        return (
            unauthorized(request) if caller is None and request.url.path not in OPEN_PATHS else None
        )

    def _max_body_bytes(self, request: Request) -> int:
        most = self._access.max_body_bytes
        if request.url.path == SPOOLED:
            return self._access.max_import_bytes
        # read on the event loop; one content, of which JSON may escape every letter
        if request.url.path == MCP_PATH:
            return min(most, SMALL_BODY + 6 * self._memories().settings.max_content_bytes)
        return most if request.url.path in STORING else min(most, MAX_BODY_ELSEWHERE)

    def _refusal(self, request: Request) -> Response | None:
        access = self._access
        if not (access.required or access.trusted_proxy):
            if auth.is_elsewhere(_address(request)):
                return refused(request, 403, NOT_FROM_HERE)
            if _host(request) not in access.hosts:
                return refused(
                    request, 403, "This server only answers requests for its own host name."
                )
        if request.method not in SAFE_METHODS and _is_foreign(request):
            return refused(request, 403, "Cross-site request refused; nothing was changed.")
        if sum(len(name) + len(value) for name, value in request.headers.raw) > MAX_HEAD_BYTES:
            return refused(request, 431, "The headers are too long.")
        if (
            len(request.scope.get("query_string", b"")) + len(request.scope["path"])
            > MAX_HEAD_BYTES
        ):
            return refused(request, 414, "The request URI is too long.")
        length, most = request.headers.get("content-length", ""), self._max_body_bytes(request)
        if length.isdecimal() and int(length[:20]) > most:
            return refused(request, 413, TooLarge(most).detail)
        return None


def _is_long(request: Request) -> bool:
    """Return True if a request is searched with a text whose length takes time; of unknown length
    too.
    """
    length = request.headers.get("content-length", "")
    is_search = request.method == "POST" and request.url.path not in STORING | {SPOOLED}
    return is_search and not (length.isdecimal() and int(length) <= LONG_BODY)


class HardenedAnswer:
    """Sends an answer with the security headers that it lacks.

    Attributes:
        has_started: its status has been sent.
    """

    def __init__(self, send: Send) -> None:
        self._send, self.has_started = send, False

    async def send(self, message: Message) -> None:
        """Send a message of the answer."""
        if message["type"] == "http.response.start":
            self.has_started = True
            present = Headers(scope=message)
            missing = [
                (name.encode(), value.encode())
                for name, value in HEADERS.items()
                if name not in present
            ]
            message = {**message, "headers": [*message["headers"], *missing]}
        await self._send(message)


def _failure(request: Request, error: Exception, *, timed_out: bool) -> Response:
    """Return the answer to a request that did not come to an answer of its own."""
    if timed_out:
        return refused(request, 504, f"The request took longer than {CALL_SECONDS:g} seconds.")
    if isinstance(error, HTTPException):
        return refused(request, error.status_code, error.detail, headers=error.headers)
    # where it broke, without the error's own words: those may quote what somebody wrote
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s after a request was let in:\n%s", type(error).__name__, frames)
    return refused(request, 500, "Internal server error; see the server's log.")


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _host(request: Request) -> str:
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").lower()
    except ValueError:  # an invalid Host, such as "["
        return ""


def _is_foreign(request: Request) -> bool:
    if request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return True
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")
