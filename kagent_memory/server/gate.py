"""The door in front of every route: host, origin, size, rate, and who calls."""

from __future__ import annotations

import logging
import math
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import KagentMemoryError
from ..memories import Memories
from . import auth
from .auth import Access, Caller
from .limits import RateLimit, TooLarge, bounded
from .problems import failed, refused, unauthorized

logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/healthz", "/login", "/static/style.css"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class Gate:
    """ASGI middleware; what passes has `request.state.caller`."""

    def __init__(
        self, app: ASGIApp, *, access: Access, memories: Callable[[], Memories], clock: Callable[[], datetime]
    ) -> None:
        self._app, self._access, self._memories, self._clock = app, access, memories, clock
        self._rate = RateLimit(access.requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers itself when the call may not pass."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = self._refusal(request) or await self._admit(request)
        except KagentMemoryError as error:  # the token could not be looked up
            answer = failed(request, error)

        started = False

        async def hardened(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                present = Headers(scope=message)
                extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k not in present]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            await (answer or self._app)(scope, bounded(receive, self._access.max_body_bytes), hardened)
        except ClientDisconnect:
            return  # nobody is left to be told
        except Exception as error:
            if started:
                raise
            # where it broke, without the error's own words: those may quote what somebody wrote
            frames = "".join(traceback.format_tb(error.__traceback__))
            logger.error("%s after a request was let in:\n%s", type(error).__name__, frames)
            await refused(request, 500, "The server broke on this; its log says where.")(scope, receive, hardened)

    def _refusal(self, request: Request) -> Response | None:
        access = self._access
        if not (access.required or access.trusted_proxy) and _host(request) not in access.hosts:
            return refused(request, 403, "This server answers to its own host name only.")
        if request.method not in SAFE_METHODS and _is_foreign(request):
            return refused(request, 403, "Another web site sent this; nothing was done.")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > access.max_body_bytes:
            return refused(request, 413, TooLarge(access.max_body_bytes).detail)
        return None

    async def _admit(self, request: Request) -> Response | None:
        address = request.client.host if request.client else "unknown"
        secret = auth.bearer(request.headers, request.cookies)
        caller = await self._caller(request, secret)
        waits = self._rate.wait_seconds(caller.name if caller else f"address {address}", time.monotonic())
        if waits:
            text = "Too many requests; wait a little."
            return refused(request, 429, text, headers={"retry-after": str(math.ceil(waits))})
        if caller is None and request.url.path not in OPEN_PATHS:
            return unauthorized(request)
        request.state.caller = caller
        return None

    async def _caller(self, request: Request, secret: str) -> Caller | None:
        if secret.startswith(auth.PREFIX):  # one of ours: it must hold, also where none is needed
            return await auth.caller_of_token(self._memories().store, secret, self._clock())
        if self._access.trusted_proxy:
            return auth.caller_of_proxy(request.headers, self._memories().settings.tenant)
        return None if self._access.required else auth.LOCAL


def _host(request: Request) -> str:
    try:
        return (urlsplit(f"//{request.headers.get('host', '')}").hostname or "").lower()
    except ValueError:  # no host at all, such as "[": none of ours
        return ""


def _is_foreign(request: Request) -> bool:
    if request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
        return True
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host")
