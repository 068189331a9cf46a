"""`/metrics` for Prometheus: what this process measures, and how its store's queue stands. Names
nobody.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import HTTPException, Request, Response

from .. import telemetry
from ..errors import KagentMemoryError
from ..memories import Memories, utc_now
from ..telemetry import Attributes
from .dependencies import memories_of

FRESH_SECONDS = 5.0  # of what is asked of the database
PATIENCE_SECONDS = 5.0
MOST_DEAD = 1000
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
NO_EXTRA = (
    'Metrics need an extra where this server is installed: pip install "kagent-memory[metrics]".'
)


class PrometheusMetrics:
    """This process's metrics; the queue's are asked of the store, at most every few seconds.

    Raises:
        ImportError: prometheus-client is not installed.
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = registry = CollectorRegistry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"kagent_memory_{name}", meaning, labels, registry=registry)

        self._seconds = Histogram(
            "kagent_memory_operation_duration_seconds",
            "How long operations took, by operation, mode of a search, and error.",
            ("operation", "mode", "error"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._counters = {
            "cache": counter(
                "cache_lookups",
                "Looks into the caches of scopes (a hit held what the database holds) and of "
                "embeddings.",
                "cache",
                "result",
            ),
            "prune": counter("prunes", "Prunes that this process made."),
            "pruned": counter(
                "pruned_memories",
                "Memories that prunes deleted, extended, evicted, or erased as faded or "
                "unimportant.",
                "outcome",
            ),
            "delivered": counter("deliveries", "Memories that were handed over."),
            "standby": counter(
                "standby_reads",
                "Reads meant for the standby: it answered, or the primary, since it was behind "
                "or away.",
                "outcome",
            ),
        }
        self._open = Gauge(
            "kagent_memory_queue_open_jobs", "Accepted jobs that are not done.", registry=registry
        )
        age = "How long the oldest open job waits; 0 without one."
        self._age = Gauge("kagent_memory_queue_oldest_job_age_seconds", age, registry=registry)
        dead = f"Jobs that no retry mends, up to {MOST_DEAD:,}."
        self._dead = Gauge("kagent_memory_queue_dead_letters", dead, registry=registry)
        self._up = Gauge(
            "kagent_memory_store_up",
            "Whether the database answered when last asked.",
            registry=registry,
        )
        self._asking = asyncio.Lock()
        self._asked_at = -FRESH_SECONDS
        telemetry.listen(self)

    def measured(self, name: str, value: float, attributes: Attributes) -> None:
        """See `telemetry.Listener`."""
        if name == "operation":
            named = ("gen_ai.operation.name", "kagent_memory.mode", "error.type")
            labels = (str(attributes.get(label, "")) for label in named)
            self._seconds.labels(*labels).observe(value)
        elif counter := self._counters.get(name):
            labelled = ("cache", "result", "outcome")
            labels = {label: attributes[label] for label in labelled if label in attributes}
            (counter.labels(**labels) if labels else counter).inc(value)

    async def ask(self, memories: Memories) -> None:
        """Ask the store how its queue stands; one asks for all who wait."""
        async with self._asking:
            if time.monotonic() - self._asked_at < FRESH_SECONDS:
                return
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    pending = await memories.store.queue.pending(now=(now := utc_now()))
                    dead = await memories.store.queue.jobs(
                        state="dead", limit=MOST_DEAD, payloads=False
                    )
            except (KagentMemoryError, TimeoutError):
                self._up.set(0)
            else:
                self._up.set(1)
                self._open.set(pending.count)
                self._age.set(
                    max(0.0, (now - pending.oldest_at).total_seconds())
                    if pending.oldest_at
                    else 0.0
                )
                self._dead.set(len(dead))
            self._asked_at = time.monotonic()

    def written(self) -> tuple[bytes, str]:
        """All metrics as Prometheus reads them, and the content type."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        return generate_latest(self._registry), CONTENT_TYPE_LATEST


def metrics_or_none() -> PrometheusMetrics | None:
    """The metrics of an app, which count from now on; None without the extra."""
    try:
        return PrometheusMetrics()
    except ImportError:
        return None


async def metrics(request: Request) -> Response:
    """Answer `/metrics`."""
    kept: PrometheusMetrics | None = request.app.state.metrics
    if kept is None:
        raise HTTPException(501, NO_EXTRA)
    await kept.ask(memories_of(request))
    text, content_type = kept.written()
    return Response(text, headers={"content-type": content_type})
