"""The web application: kagent's contract, /api/v1, /mcp and the page over one `Memories`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from ..errors import KagentMemoryError
from ..memories import Memories, utc_now
from . import (
    api,
    error_responses,
    kagent,
    openapi,
    oversight,
    pages,
)
from .auth import Access, Admission
from .mcp_endpoint import McpEndpoint
from .middleware import Gate
from .probes import add_probes

ROUTES = APIRouter()
"""The routes of every application of this process; they are prepared once, by the first request."""
for _router in (
    kagent.router,
    api.router,
    pages.router,
    oversight.router,
):
    ROUTES.include_router(_router)


def create_app(
    memories: Memories | Callable[[], Awaitable[Memories]],
    access: Access = Access(),
    *,
    clock: Callable[[], datetime] = utc_now,
) -> FastAPI:
    """Return the ASGI application.

    Args:
        memories: open memories, which the app leaves open; or a function that opens them, called
            when the app starts; these the app closes at its end.
        access: the rules of access.
        clock: returns the current time (aware UTC).
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        if isinstance(memories, Memories):
            yield
            return
        app.state.memories = await memories()
        try:
            yield
        finally:
            await app.state.memories.close()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None)
    app.openapi = openapi.document
    app.state.clock = clock
    app.state.access = access
    if isinstance(memories, Memories):
        app.state.memories = memories
    app.router.routes.extend(ROUTES.routes)
    add_probes(app)
    app.mount("/static", StaticFiles(packages=[("kagent_memory.server", "static")]))
    app.router.routes.append(Route(error_responses.MCP_PATH, McpEndpoint()))
    for kind in (KagentMemoryError, HTTPException):
        app.add_exception_handler(kind, error_responses.answer_to)
    app.state.admission = Admission(access, lambda: app.state.memories)
    app.add_middleware(Gate, admission=app.state.admission)
    return app


def create_probes(memories: Memories) -> FastAPI:
    """Return an application for a worker that serves only `/healthz`, `/readyz` and `/metrics`."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.memories = memories
    add_probes(app)
    return app
