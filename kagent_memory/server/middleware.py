"""The ASGI middleware before every route: who may connect, host, origin, sizes, rate, and who calls."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import KagentMemoryError
from ..memories import Memories
from . import auth
from .admission import Admission, TooOften
from .auth import Access
from .error_responses import MCP_PATH, failed, refused, unauthorized
from .rate_limit import SMALL_BODY, Body, Room, TooLarge

logger = logging.getLogger(__name__)

PROBES = frozenset({"/healthz", "/readyz"})
OPEN_PATHS = frozenset({"/login", "/static/style.css", "/static/icon.svg", "/favicon.ico"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
STORING = frozenset({"/api/memories/sessions", "/api/memories/sessions/batch", "/api/v1/memories", "/api/v1/sessions"})
SPOOLED = "/api/v1/import"
MOST_ELSEWHERE = 1024 * 1024  # bytes of a body of another route
LONGEST_HEAD = 65_536
BODIES_AT_ONCE = 8  # of the longest ones
LEAST_ROOM = 16 * 1024 * 1024
SEND_SECONDS = 60.0
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
NOT_FROM_HERE = (
    "Without auth this server answers its own machine only. Let others in with a token (`kagent-memory serve --auth`; "
    "`create_app(…, Access(required=True))`) or behind a proxy that sets X-User-Id (`--trusted-proxy`)."
)


class Gate:
    """ASGI middleware; what passes has `request.state.caller`."""

    def __init__(self, app: ASGIApp, *, access: Access, memories: Callable[[], Memories], admission: Admission) -> None:
        self._app, self._access, self._memories, self._admission = app, access, memories, admission
        self._room = Room(max(BODIES_AT_ONCE * access.max_body_bytes, LEAST_ROOM))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers itself when the call may not pass."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = self._refusal(request)
            if answer is None:
                secret = auth.bearer(request.headers, request.cookies)
                caller = await self._admission.caller(request.headers, secret, _address(request))
                request.state.caller = caller
                if caller is None and request.url.path not in OPEN_PATHS:
                    answer = unauthorized(request)
        except TooOften as error:
            answer = refused(request, 429, str(error), headers={"retry-after": str(error.seconds)})
        except KagentMemoryError as error:  # the token could not be looked up
            answer = failed(request, error)
        room = None if request.url.path == SPOOLED else self._room
        body = Body(receive, self._most(request), room, _address(request), time=time.monotonic)
        try:
            await self._answered(request, answer or self._app, body, send)
        finally:
            body.end()

    async def _answered(self, request: Request, answer: ASGIApp, body: Body, send: Send) -> None:
        started = False

        async def hardened(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = Headers(scope=message)
                extra = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await send(message)
            except TimeoutError as error:  # the client does not read the answer
                raise ClientDisconnect from error

        try:
            await answer(request.scope, body.receive, hardened)
        except ClientDisconnect:
            return  # the client is gone
        except Exception as error:
            if started:
                raise
            # where it broke, without the error's own words: those may quote what somebody wrote
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("%s after a request was let in:\n%s", type(error).__name__, frames)
            broken = refused(request, 500, "Internal server error; see the server's log.")
            await broken(request.scope, body.receive, hardened)

    def _most(self, request: Request) -> int:
        most = self._access.max_body_bytes
        if request.url.path == SPOOLED:
            return self._access.max_import_bytes
        if request.url.path == MCP_PATH:  # read on the event loop; one content, of which JSON may escape every letter
            return min(most, SMALL_BODY + 6 * self._memories().settings.max_content_bytes)
        return most if request.url.path in STORING else min(most, MOST_ELSEWHERE)

    def _refusal(self, request: Request) -> Response | None:
        access = self._access
        if not (access.required or access.trusted_proxy):
            if auth.is_elsewhere(_address(request)):
                return refused(request, 403, NOT_FROM_HERE)
            if _host(request) not in access.hosts:
                return refused(request, 403, "This server only answers requests for its own host name.")
        if request.method not in SAFE_METHODS and _is_foreign(request):
            return refused(request, 403, "Cross-site request refused; nothing was changed.")
        if sum(len(name) + len(value) for name, value in request.headers.raw) > LONGEST_HEAD:
            return refused(request, 431, "The headers are too long.")
        if len(request.scope.get("query_string", b"")) + len(request.scope["path"]) > LONGEST_HEAD:
            return refused(request, 414, "The request URI is too long.")
        length, most = request.headers.get("content-length", ""), self._most(request)
        if length.isdecimal() and int(length[:20]) > most:
            return refused(request, 413, TooLarge(most).detail)
        return None


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
