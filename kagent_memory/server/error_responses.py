"""Answers to failed requests: problem+json (RFC 9457), kagent's form, JSON-RPC's, or a page."""

from __future__ import annotations

import logging
import traceback
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.exceptions import HTTPException

from ..errors import KagentMemoryError
from .page_helpers import page

logger = logging.getLogger(__name__)
KAGENT_PREFIX = "/api/memories"
MCP_PATH = "/mcp"
FOR_PROGRAMS = ("/api/", "/openapi.json", "/metrics", MCP_PATH)
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603  # error codes of JSON-RPC
URN = "urn:kagent-memory:"


def printable(text: str) -> str:
    """Return the text without lone surrogates, which JSON cannot carry."""
    return text.encode(errors="replace").decode()


def message_of(error: KagentMemoryError) -> str:
    """Return an error's message, or the meaning of its class."""
    return str(error) or type(error).__doc__ or ""


def error_values(error: KagentMemoryError) -> dict[str, Any]:
    """Return the values of an error for a page: its message and status."""
    return {"problem": message_of(error), "status": error.family.http_status}


def log_defect(error: Exception) -> None:
    """Log where an unexpected error arose, without its message, which may quote user content."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s while answering a request:\n%s", type(error).__name__, frames)


async def answer_to(request: Request, error: Exception) -> Response:
    """Return the answer to a failed request, in the form of its route.

    It never echoes inputs, which may be private. A browser without a token is redirected to the
    login.
    """
    match error:
        case KagentMemoryError():
            family = error.family
            return _respond(request, family.http_status, message_of(error), kind=family.name)
        case HTTPException(status_code=status):
            kind = "not-found" if status == HTTPStatus.NOT_FOUND else ""
            answer = _respond(request, status, str(error.detail), kind=kind)
            answer.headers.update(error.headers or {})
            return answer
        case _:
            log_defect(error)
            return _respond(request, 500, "Internal server error; see the server's log.")


def _respond(request: Request, status: int, text: str, *, kind: str = "") -> Response:
    path, text, title = request.url.path, printable(text), HTTPStatus(status).phrase.capitalize()
    if path.startswith(KAGENT_PREFIX):
        if status == HTTPStatus.UNAUTHORIZED:
            return PlainTextResponse("Unauthorized\n", status)
        return JSONResponse({"error": text}, status)
    if path == MCP_PATH:
        code = INVALID_REQUEST if status < HTTPStatus.INTERNAL_SERVER_ERROR else INTERNAL_ERROR
        error = {"code": code, "message": text}
        return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, status)
    if path.startswith(FOR_PROGRAMS):
        about: dict[str, Any] = {"type": f"{URN}{kind}" if kind else "about:blank", "title": title}
        body = {**about, "status": status, "detail": text}
        return JSONResponse(body, status, media_type="application/problem+json")
    if status == HTTPStatus.UNAUTHORIZED and request.method == "GET":
        return RedirectResponse("/login", 303)
    return page(request, "failed.html", status, title=title, text=text)
