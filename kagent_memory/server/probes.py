"""Answer `/healthz`, `/readyz` and `/metrics` with fixed words and numbers that name nobody."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .. import telemetry
from ..errors import KagentMemoryError
from ..memories import Memories, utc_now
from ..stores.sql import migrations
from ..telemetry import Attributes
from .dependencies import memories_of

T = TypeVar("T")
logger = logging.getLogger(__name__)
FRESH_SECONDS = 5.0  # spares the database frequent probes
EMBEDDER_FRESH_SECONDS = 60.0  # its calls may cost money
PATIENCE_SECONDS = 2.0
QUEUE_PATIENCE_SECONDS = 5.0
OK, UNAVAILABLE, SLOW = "ok", "unavailable", "no answer in time"
MAX_DEAD = 1000
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PREFIX = "kagent_memory_"
UP = "store_up"
GAUGES: Mapping[str, str] = {
    "queue_open_jobs": "Accepted jobs that are not done.",
    "queue_oldest_job_age_seconds": "How long the oldest open job waits; 0 without one.",
    "queue_dead_letters": f"Jobs that no retry mends, up to {MAX_DEAD:,}.",
    UP: "Whether the database answered when last asked.",
}


class Fresh(Generic[T]):
    """Cache an answer for some seconds; concurrent callers share one request.

    Args:
        ask: gets the answer.
        seconds: returns how many seconds an answer is valid.
    """

    def __init__(
        self,
        ask: Callable[[Memories], Awaitable[T]],
        seconds: Callable[[T], float] = lambda _: FRESH_SECONDS,
    ) -> None:
        self._ask, self._seconds = ask, seconds
        self._lock = asyncio.Lock()
        self._answer: T
        self._expires_at = 0.0  # of the monotonic clock

    async def of(self, memories: Memories) -> T:
        """Return the answer about these memories."""
        async with self._lock:
            if time.monotonic() >= self._expires_at:
                self._answer = await self._ask(memories)
                self._expires_at = time.monotonic() + self._seconds(self._answer)
            return self._answer


def readiness() -> Fresh[Mapping[str, str]]:
    """Return the cached states of the parts that a server needs."""
    embedder = Fresh(_embedder, lambda state: EMBEDDER_FRESH_SECONDS if state == OK else 0.0)

    async def ask(memories: Memories) -> Mapping[str, str]:
        store, state = await asyncio.gather(_store(memories), embedder.of(memories))
        return {**store, "embedder": state}

    return Fresh(ask)


async def _embedder(memories: Memories) -> str:
    if (embedder := memories.vectors) is None:
        return "none: memories are found by words"
    return (await _outcome("embedder", embedder.ping()))[0]


async def _store(memories: Memories) -> Mapping[str, str]:
    database, about = await _outcome("database", memories.store.memories.about())
    # unavailable, or a third-party store with its own schema
    if about is None or "migrations" not in about:
        return {"database": database, "migrations": database}
    applied = set(about["migrations"].split(", "))
    is_libsql = memories.location.startswith("libsql")
    required = migrations("libsql" if is_libsql else "postgres")
    is_migrated = all(f"{step.number} {step.name}" in applied for step in required)
    return {
        "database": database,
        "migrations": OK if is_migrated else "missing: run kagent-memory migrate",
    }


async def _outcome(part: str, attempt: Awaitable[T]) -> tuple[str, T | None]:
    """Return the state of a part, and its answer if it came in time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return OK, await attempt
    except TimeoutError:
        logger.warning("Not ready: the %s does not answer within %s s.", part, PATIENCE_SECONDS)
        return SLOW, None
    except KagentMemoryError as error:
        logger.warning("Not ready: the %s is unavailable (%s).", part, type(error).__name__)
        return UNAVAILABLE, None


class PrometheusMetrics:
    """The metrics of this process, and the state of its store's queue."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._seconds = Histogram(
            f"{PREFIX}operation_duration_seconds",
            "How long operations took, by operation, mode of a search, and error.",
            ("operation", "mode", "error"),
            buckets=BUCKETS,
            registry=registry,
        )

        self._counters = {
            name: Counter(PREFIX + name, meaning, labels, registry=registry)
            for name, (_, meaning, labels) in telemetry.COUNTERS.items()
        }
        self._gauges = {
            name: Gauge(PREFIX + name, meaning, registry=registry)
            for name, meaning in GAUGES.items()
        }
        self._queue = Fresh(self._ask)
        telemetry.listeners.add(self)

    def measured(self, name: str, value: float, attributes: Attributes) -> None:
        """Record a measurement or a count; see `telemetry.listeners`."""
        if name == "operation":
            names = ("gen_ai.operation.name", "kagent_memory.mode", "error.type")
            labels = [str(attributes.get(label, "")) for label in names]
            self._seconds.labels(*labels).observe(value)
        elif counter := self._counters.get(name):
            (counter.labels(**attributes) if attributes else counter).inc(value)

    async def exposition(self, memories: Memories) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        await self._queue.of(memories)
        return generate_latest(self._registry)

    async def _ask(self, memories: Memories) -> None:
        """Ask the store for the state of its queue."""
        queue, now = memories.store.queue, utc_now()
        try:
            async with asyncio.timeout(QUEUE_PATIENCE_SECONDS):
                pending = await queue.pending(now=now)
                dead = await queue.jobs(state="dead", limit=MAX_DEAD, payloads=False)
        except (KagentMemoryError, TimeoutError):
            self._gauges[UP].set(0)
            return
        age = max(0.0, (now - pending.oldest_at).total_seconds()) if pending.oldest_at else 0.0
        for name, value in zip(GAUGES, (pending.count, age, len(dead), 1), strict=True):
            self._gauges[name].set(value)


def add_probes(app: FastAPI) -> None:
    """Add the probes to an app and start counting its metrics."""
    app.state.readiness = readiness()
    app.state.metrics = PrometheusMetrics()
    for path, answer in (("/healthz", healthy), ("/readyz", ready), ("/metrics", metrics)):
        app.add_api_route(path, answer, include_in_schema=False)


async def healthy() -> Response:
    """Answer `/healthz`: the process runs; `/readyz` and `kagent-memory doctor` check the rest."""
    return PlainTextResponse("ok\n")


async def ready(request: Request) -> Response:
    """Answer `/readyz`: 503 if the database is unavailable; without the embedder the server still
    searches by keywords.
    """
    parts = await request.app.state.readiness.of(memories_of(request))
    is_ready = parts["database"] == parts["migrations"] == OK
    return JSONResponse({"ready": is_ready, **parts}, 200 if is_ready else 503)


async def metrics(request: Request) -> Response:
    """Answer `/metrics`."""
    text = await request.app.state.metrics.exposition(memories_of(request))
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
