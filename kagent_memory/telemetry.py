"""Traces and metrics by OpenTelemetry's GenAI memory conventions, with content only if opted in.

Span and attribute names follow open-telemetry/semantic-conventions-genai (status Development); the
released convention packages do not have them yet, hence the literals. Without an OpenTelemetry SDK
nothing is recorded.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from .records import Scope

OperationName: TypeAlias = Literal[
    "search_memory",
    "create_memory",
    "update_memory",
    "upsert_memory",
    "delete_memory",
]
CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CAPTURING = ("true", "1", "span_only", "span_and_event")
Attributes: TypeAlias = dict[str, str | int | bool]

tracer = trace.get_tracer("kagent_memory")
_meter = metrics.get_meter("kagent_memory")
duration = _meter.create_histogram(
    "kagent_memory.operation.duration",
    unit="s",
    description="How long operations took, by operation, mode, error, gated and empty.",
)
_open_jobs = _meter.create_gauge(
    "kagent_memory.queue.open_jobs",
    unit="{job}",
    description="Accepted jobs of the queue that are not done.",
)
_oldest_job_age = _meter.create_gauge(
    "kagent_memory.queue.oldest_job_age",
    unit="s",
    description="How long the oldest open job waits; 0 without one.",
)
COUNTERS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "cache_lookups": (
        "cache.lookups",
        "Looks into the caches of scopes (a hit held what the database holds) and of embeddings.",
        ("cache", "result"),
    ),
    "prunes": ("prunes", "Prunes that this process made.", ()),
    "pruned_memories": (
        "prune.memories",
        "Memories that prunes deleted, extended, evicted, or erased as faded.",
        ("outcome",),
    ),
    "deliveries": ("deliveries", "Memories that were handed over.", ()),
    "standby_reads": (
        "standby.reads",
        "Reads meant for the standby: it answered, or the primary, since it was behind or away.",
        ("outcome",),
    ),
}
"""The counters by their names in Prometheus: name in OpenTelemetry, meaning and labels."""
_counters = {
    name: _meter.create_counter(f"kagent_memory.{suffix}", description=meaning)
    for name, (suffix, meaning, _) in COUNTERS.items()
}


listeners = weakref.WeakSet[Any]()
"""Objects, such as a server's `/metrics`, whose method `measured(name, value, attributes)` receives
measurements, in any thread. They are held weakly.
"""


def _notify(name: str, value: float, attributes: Attributes) -> None:
    for listener in [*listeners]:
        listener.measured(name, value, attributes)


@dataclass(eq=False)
class Operation:
    """A running operation, to which the caller reports its outcome.

    Attributes:
        span: its span.
        measured: the attributes of its span and of its duration.
    """

    span: Span
    measured: Attributes

    def searched(self, mode: str, *, gated: bool) -> None:
        """Record the mode of a search, or that the gate skipped it: then it is neither a hit nor
        empty.
        """
        self.measured["kagent_memory.mode"] = mode
        if gated:
            self.measured["kagent_memory.gated"] = True

    def records(self, hits: Iterable[tuple[str, str, float | None]]) -> None:
        """Record the memories read or written as (id, content, score); content only if opted in."""
        rows = list(hits)
        self.measured["kagent_memory.empty"] = not rows
        self.span.set_attribute("gen_ai.memory.record.count", len(rows))
        if captures_content(self.span):
            self.span.set_attribute(
                "gen_ai.memory.records",
                json.dumps(
                    [{"id": id, "content": content, "score": score} for id, content, score in rows],
                    ensure_ascii=False,
                ),
            )


def captures_content(span: Span) -> bool:
    """Return True if a span is recorded and the operator allows content in it."""
    return span.is_recording() and os.environ.get(CAPTURE_CONTENT, "").lower() in _CAPTURING


@contextmanager
def operation(
    name: OperationName, *scopes: Scope, store: str, query: str = ""
) -> Generator[Operation, None, None]:
    """Record a span and a duration around one operation on memory.

    Args:
        name: the operation in the conventions: an add is create_memory, ingesting a session
            upsert_memory.
        scopes: the scopes; their common app is recorded, users never.
        store: the location without password, as in `Memories.location`.
        query: the masked text of a search; recorded only if opted in.
    """
    attributes: Attributes = {"gen_ai.operation.name": name, **_store_attributes(store)}
    match [*{scope.app for scope in scopes}]:
        case [app] if app:
            attributes["gen_ai.memory.store.id"] = app
        case _:
            pass
    started = time.perf_counter()
    with tracer.start_as_current_span(
        name,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        if query and captures_content(span):
            span.set_attribute("gen_ai.memory.query.text", query)
        running = Operation(span, {"gen_ai.operation.name": name})
        try:
            yield running
        except BaseException as error:
            running.measured["error.type"] = type(error).__qualname__
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            seconds = time.perf_counter() - started
            span.set_attributes(running.measured)
            duration.record(seconds, running.measured)
            _notify("operation", seconds, running.measured)


def queue(open_jobs: int, oldest_seconds: float, *, store: str) -> None:
    """Record the state of a queue.

    Args:
        open_jobs: accepted jobs that are not done.
        oldest_seconds: the age of the oldest job; 0 without one.
        store: the location without password, as in `Memories.location`.
    """
    attributes = _store_attributes(store)
    _open_jobs.set(open_jobs, attributes)
    _oldest_job_age.set(oldest_seconds, attributes)


def count(counter: str, number: int = 1, **attributes: str) -> None:
    """Add to one of `COUNTERS`, with its labels."""
    if number:
        _counters[counter].add(number, attributes)
        _notify(counter, number, {**attributes})


@lru_cache(maxsize=64)
def _store_attributes(store: str) -> Mapping[str, str | int]:
    uri = urlsplit(store)
    attributes: dict[str, str | int] = {"kagent_memory.store": uri.scheme or store}
    if uri.hostname:
        attributes["server.address"] = uri.hostname
    port = uri.netloc.rpartition(":")[2]
    if port.isdigit():  # `uri.port` raises for several hosts, which libpq accepts
        attributes["server.port"] = int(port)
    return attributes
