"""`/healthz` and `/readyz`: whether requests can be served, in fixed words, so that anybody may
ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Mapping

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ..errors import KagentMemoryError
from ..memories import Memories
from ..stores.sql import migrations
from .dependencies import memories_of

logger = logging.getLogger(__name__)
FRESH_SECONDS = 5.0  # so many who ask do not ask the database
EMBEDDER_FRESH_SECONDS = 60.0  # its calls may cost money
PATIENCE_SECONDS = 2.0
OK, AWAY, SLOW = "ok", "unavailable", "no answer in time"


class Readiness:
    """Result of the last check, with its time."""

    def __init__(self) -> None:
        self._asking = asyncio.Lock()
        self._found: dict[str, str] = {}
        self._at = self._embedder_at = float("-inf")

    async def of(self, memories: Memories) -> Mapping[str, str]:
        """The state of each part; one asks for all who wait."""
        async with self._asking:
            now = time.monotonic()
            if now - self._at >= FRESH_SECONDS:
                told = await asyncio.gather(self._store(memories), self._embedder(memories, now))
                self._found = {**told[0], "embedder": told[1]}
                self._at = time.monotonic()
            return self._found

    async def _store(self, memories: Memories) -> Mapping[str, str]:
        applied: list[Mapping[str, str]] = []

        async def ask() -> None:
            applied.append(await memories.store.memories.about())

        database = await _outcome("database", ask())
        # it is away, or a store of others with its own schema
        if not applied or "migrations" not in applied[0]:
            return {"database": database, "migrations": database}
        known = set(applied[0]["migrations"].split(", "))
        dialect = (
            "libsql"
            if memories.location.removeprefix("kagent+").startswith("libsql")
            else "postgres"
        )
        if all(f"{one.number} {one.name}" in known for one in migrations(dialect)):
            return {"database": database, "migrations": OK}
        return {"database": database, "migrations": "missing: run kagent-memory migrate"}

    async def _embedder(self, memories: Memories, now: float) -> str:
        former = self._found.get("embedder", AWAY)
        if former == OK and now - self._embedder_at < EMBEDDER_FRESH_SECONDS:
            return former
        if (embedder := memories.parts.vectors) is None:
            return "none: memories are found by words"
        self._embedder_at = now
        return await _outcome("embedder", embedder.ping())


async def _outcome(part: str, attempt: Awaitable[object]) -> str:
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await attempt
    except TimeoutError:
        logger.warning("Not ready: the %s does not answer within %s s.", part, PATIENCE_SECONDS)
        return SLOW
    except KagentMemoryError as error:
        logger.warning("Not ready: the %s is unavailable (%s).", part, type(error).__name__)
        return AWAY
    return OK


async def healthy() -> Response:
    """Answer `/healthz`: the process is there; what it needs is checked by `/readyz` and
    `kagent-memory doctor`.
    """
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """Answer `/readyz`: 503 while the database cannot serve. Without its embedder a server finds
    by words.
    """
    kept: Readiness = request.app.state.readiness
    parts = await kept.of(memories_of(request))
    is_ready = parts["database"] == parts["migrations"] == OK
    return JSONResponse({"ready": is_ready, **parts}, 200 if is_ready else 503)
