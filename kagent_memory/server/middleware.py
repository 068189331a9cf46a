"""The ASGI middleware before every route: caller, host, origin, size, share and time."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .auth import LONG_BODY, Admission, Caller
from .error_responses import answer_to

PROBES = frozenset({"/healthz", "/readyz"})
LOGIN_PATH, STATIC_PATHS = "/login", "/static/"  # public
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
STORE_PATHS = frozenset(
    {
        "/api/memories/sessions",
        "/api/memories/sessions/batch",
        "/api/v1/memories",
        "/api/v1/sessions",
    }
)
IMPORT_PATH = "/api/v1/import"
UNTIMED_PATHS = frozenset({IMPORT_PATH, "/api/v1/export"})  # without a time limit
CALL_SECONDS = 300.0  # to read, process and answer a request
SMALL_BODY = 65_536
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action "
    "'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}


class Gate:
    """ASGI middleware that admits requests and sets `request.state.caller`; health checks always
    pass.
    """

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        self._app, self._admission, self._access = app, admission, admission.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request and pass it to the application within its limits, or refuse it."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        send = hardened(request, send)
        deadline = asyncio.timeout(None if scope["path"] in UNTIMED_PATHS else CALL_SECONDS)
        try:
            async with deadline:
                await self._answer(request, send)
        except ClientDisconnect:
            return  # the client has gone
        except Exception as error:
            if request.state.has_started:
                raise
            timeout = HTTPException(504, f"The request took longer than {CALL_SECONDS:g} seconds.")
            answer = await answer_to(request, timeout if deadline.expired() else error)
            await answer(scope, receive, send)

    async def _answer(self, request: Request, send: Send) -> None:
        """Pass a request to the application when it is the caller's turn.

        Raises:
            HTTPException: the request is refused.
            StoreError: the caller cannot be looked up.
        """
        path, max_bytes = request.scope["path"], self._max_body_bytes(request)
        self._check(request, max_bytes)
        address = request.client.host if request.client else "unknown"
        caller: Caller | None = None
        if path != LOGIN_PATH and not path.startswith(STATIC_PATHS):
            caller = await self._admission.caller(request.headers, request.cookies, address)
        request.state.caller = caller
        receive = bounded(request.receive, max_bytes)
        with self._admission.open(caller or address):
            async with self._admission.turn(caller or address, is_long=_is_long(request)):
                await self._app(request.scope, receive, send)

    def _check(self, request: Request, max_body_bytes: int) -> None:
        """Refuse requests whose headers no page or client of ours would send.

        Raises:
            HTTPException: 403, or 413 if the declared length is too large.
        """
        if (_length(request) or 0) > max_body_bytes:
            raise too_large(max_body_bytes)
        if not self._access.is_guarded and _host(request) not in self._access.hosts:
            raise HTTPException(403, "This server only answers requests for its own host name.")
        if request.method not in SAFE_METHODS and _is_foreign(request):
            raise HTTPException(403, "Cross-site request refused; nothing was changed.")

    def _max_body_bytes(self, request: Request) -> int:
        path, max_bytes = request.scope["path"], self._access.max_body_bytes
        if path == IMPORT_PATH:
            return self._access.max_import_bytes
        if path.startswith("/api/"):
            return max_bytes
        # bodies read on the event loop: one content, in which JSON may escape every letter
        return min(
            max_bytes, SMALL_BODY + 6 * self._admission.memories().settings.max_content_bytes
        )


def hardened(request: Request, send: Send) -> Send:
    """Return a `send` that adds missing security headers and sets `request.state.has_started`."""
    request.state.has_started = False

    async def send_hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            request.state.has_started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_hardened


def too_large(max_bytes: int) -> HTTPException:
    """Return the refusal of a body that is too large."""
    return HTTPException(413, f"The body is longer than {max_bytes} bytes.")


def bounded(receive: Receive, max_bytes: int) -> Receive:
    """Return a `receive` that refuses a body of more than `max_bytes`."""
    received = 0

    async def receive_bounded() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise too_large(max_bytes)
        return message

    return receive_bounded


def _is_long(request: Request) -> bool:
    """Return True if the body of a search is long, or of unknown length, so that parsing it takes
    time.
    """
    is_search = request.method == "POST" and request.scope["path"] not in STORE_PATHS | {
        IMPORT_PATH
    }
    length = _length(request)
    return is_search and (length is None or length > LONG_BODY)


def _length(request: Request) -> int | None:
    """Return the declared length of a body."""
    length = request.headers.get("content-length", "")
    return int(length[:20]) if length.isdecimal() else None


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
