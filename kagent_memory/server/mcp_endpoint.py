"""`/mcp`: find the scopes of an MCP request and pass it on.

The MCP SDK is imported at the first call.
"""

from __future__ import annotations

import asyncio
import importlib

from fastapi import HTTPException, Request
from starlette.types import Message, Receive, Send
from starlette.types import Scope as Connection

from ..errors import InvalidInput, NotFound, needs_extra
from ..records import Scope
from .dependencies import caller_of, media_type, memories_of, tenant_of, who

MAX_BESIDE_SCOPES = 20
MISSING = (
    "Name the agent and the user in the URL, /mcp?app=…&user=…; a user's token names the "
    "user by itself."
)
FOREIGN = "What the URL names (app, user, tenant) is not open to this caller."


class McpEndpoint:
    """The ASGI application of `/mcp`: streamable HTTP without sessions, in JSON."""

    async def __call__(self, connection: Connection, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(connection, receive)
        try:
            if request.method != "POST":  # no streams and no sessions
                raise HTTPException(405, "Only POST is answered here.", {"allow": "POST"})
            scopes = _scopes_of(request)
            if media_type(request) != "application/json":
                raise HTTPException(415, "A request of MCP has Content-Type: application/json.")
            # read here, so that a refusal of its length is answered properly
            body: bytes | None = await request.body()
            # in a thread, because the first import is slow
            await asyncio.to_thread(importlib.import_module, f"{__package__}.mcp_tools")
            from .mcp_tools import serve_http
        except ImportError:
            raise needs_extra("MCP", "mcp") from None
        except NotFound:  # 404 would mean to an MCP client that its session has ended
            raise HTTPException(403, FOREIGN) from None

        async def receive_again() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body}, None
            return message

        user = who("mcp", caller_of(request))
        await serve_http(memories_of(request), scopes, user, connection, receive_again, send)


def _scopes_of(request: Request) -> list[Scope]:
    """Return the scope of a request, from its URL and caller, and the further scopes to search.

    Raises:
        InvalidInput: the scope is incomplete.
        NotFound: the caller may not touch one of them.
    """
    caller, params = caller_of(request), request.query_params
    app, user = params.get("app", caller.app), params.get("user", caller.user)
    tenant = params.get("tenant", tenant_of(request))
    if not app or not user:
        raise InvalidInput(MISSING)
    apps, users = params.getlist("beside_app"), params.getlist("beside_user")
    if len(apps) != len(users) or len(apps) > MAX_BESIDE_SCOPES or not all((*apps, *users)):
        raise InvalidInput(
            f"beside_app and beside_user go in pairs, at most {MAX_BESIDE_SCOPES} of them."
        )
    pairs = ((app, user), *zip(apps, users, strict=True))
    return list(dict.fromkeys(caller.checked(Scope(tenant, user, app)) for app, user in pairs))
