"""Errors as HTTP answers: problem+json (RFC 9457), kagent's form, JSON-RPC's, or a page."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.exceptions import HTTPException

from ..errors import KagentMemoryError, family_of
from .templating import render

PROBLEM = "application/problem+json"
KAGENT_PREFIX = "/api/memories"
MCP_PATH = "/mcp"
FOR_PROGRAMS = ("/api/", "/openapi.json", "/metrics")
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603  # of JSON-RPC
URN = "urn:kagent-memory:"
TITLES: Mapping[int, str] = {
    400: "Invalid input",
    401: "Unauthorized",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    414: "URI too long",
    429: "Too many requests",
    431: "Headers too long",
    500: "Internal server error",
    501: "Not configured",
    502: "Model unavailable",
    503: "Unavailable",
    504: "Timed out",
}


def problem(
    status: int, detail: str, *, kind: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A problem+json answer; `kind` is the error family that a client turns back into an
    exception.
    """
    body = {
        "type": f"{URN}{kind}" if kind else "about:blank",
        "title": TITLES.get(status, "Error"),
        "status": status,
    }
    return JSONResponse(
        {**body, "detail": printable(detail)},
        status,
        headers=dict(headers or {}),
        media_type=PROBLEM,
    )


def printable(text: str) -> str:
    """The text without lone surrogates, which no JSON body can carry."""
    return text.encode(errors="replace").decode()


def refused(
    request: Request,
    status: int,
    text: str,
    *,
    kind: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A failure in the form that the route's callers read: kagent's, JSON-RPC's, problem+json, or a
    page.
    """
    path = request.url.path
    if path.startswith(KAGENT_PREFIX):
        return JSONResponse({"error": printable(text)}, status, headers=dict(headers or {}))
    if path == MCP_PATH:
        error = {
            "code": INVALID_REQUEST if status < 500 else INTERNAL_ERROR,
            "message": printable(text),
        }
        return JSONResponse(
            {"jsonrpc": "2.0", "id": None, "error": error}, status, headers=dict(headers or {})
        )
    if path.startswith(FOR_PROGRAMS):
        return problem(status, text, kind=kind, headers=headers)
    values = {"title": TITLES.get(status, "Error"), "text": text, "status": status}
    return HTMLResponse(render("failed.html", values), status, headers=dict(headers or {}))


def failed(request: Request, error: KagentMemoryError) -> Response:
    """`refused` for an error of ours."""
    family = family_of(error)
    return refused(request, family.http_status, message_of(error), kind=family.name)


def message_of(error: KagentMemoryError) -> str:
    """Return an error's message; without one, the meaning of its class."""
    return str(error) or type(error).__doc__ or ""


def unauthorized(request: Request) -> Response:
    """Ask for a token; a browser is redirected to the login page."""
    challenge = {"www-authenticate": "Bearer"}
    path = request.url.path
    if path.startswith(KAGENT_PREFIX):
        return PlainTextResponse("Unauthorized\n", 401, challenge)
    if request.method == "GET" and not path.startswith((*FOR_PROGRAMS, MCP_PATH)):
        return RedirectResponse("/login", 303)
    return refused(request, 401, "Send `Authorization: Bearer <token>`.", headers=challenge)


async def _answered(request: Request, error: Exception) -> Response:
    match error:
        case KagentMemoryError():
            return failed(request, error)
        case HTTPException(status_code=status):
            kind = "not-found" if status == 404 else None
            return refused(request, status, str(error.detail), kind=kind, headers=error.headers)
        case _:
            raise error


def install(app: FastAPI) -> None:
    """Let the app answer every failure in this form; inputs are never echoed, they may be
    private.
    """
    for family in (KagentMemoryError, HTTPException):
        app.add_exception_handler(family, _answered)
