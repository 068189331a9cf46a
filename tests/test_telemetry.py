"""Spans and metrics of memory, by the GenAI conventions; texts only when opted in."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from adk.scripted import APP, SCOPE, USER, Chat, assistant, call, scripted
from ingestion.ground import Replying, a_message, opened, stated
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kagent_memory import KagentMemoryService, LoadMemoryTool, StoreError, telemetry
from kagent_memory.ingestion import worker
from kagent_memory.testing import FrozenClock, in_memory_service


@pytest.fixture
async def service() -> AsyncIterator[KagentMemoryService]:
    async with in_memory_service() as opened:
        yield opened


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "tracer", provider.get_tracer("kagent_memory"))
    yield exporter
    provider.shutdown()


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """The reader of what is measured."""
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    meter = provider.get_meter("kagent_memory")
    monkeypatch.setattr(telemetry, "duration", meter.create_histogram("duration"))
    for name in ("open_jobs", "oldest_job_age"):
        monkeypatch.setattr(telemetry, f"_{name}", meter.create_gauge(name))
    yield reader
    provider.shutdown()


def points(metrics: InMemoryMetricReader) -> dict[str, Any]:
    """Return the measurements since the last look, by the name of the metric."""
    data = metrics.get_metrics_data()
    measures = data.resource_metrics[0].scope_metrics[0].metrics if data else []
    return {metric.name: point for metric in measures for point in metric.data.data_points}


def queue(metrics: InMemoryMetricReader) -> tuple[float, float]:
    """Return the number of open jobs, and the age of the oldest."""
    values = points(metrics)
    jobs, age = values["open_jobs"], values["oldest_job_age"]
    assert jobs.attributes["kagent_memory.store"] == "libsql"
    return jobs.value, age.value


def named(spans: InMemorySpanExporter, name: str) -> Any:
    return next(span for span in spans.get_finished_spans() if span.name == name)


async def test_operations_are_spans_without_users_or_texts(
    service: KagentMemoryService, spans: InMemorySpanExporter
):
    """A span tells what was done and how, and holds no user and no text."""
    await service.memories.add(SCOPE, ["Ada prefers dark mode"])
    await service.memories.recall(SCOPE, "dark mode")
    created, searched = named(spans, "create_memory"), named(spans, "search_memory")
    assert created.attributes["gen_ai.operation.name"] == "create_memory"
    assert created.attributes["gen_ai.memory.record.count"] == 1
    assert searched.attributes["gen_ai.memory.store.id"] == APP
    assert searched.attributes["kagent_memory.mode"] == "keyword"
    assert searched.attributes["kagent_memory.store"] == "libsql"
    for span in spans.get_finished_spans():
        attributes = str(dict(span.attributes or {}))
        assert "dark" not in attributes
        assert not re.search(rf"\b{USER}\b", attributes)


async def test_texts_are_recorded_when_opted_in(
    service: KagentMemoryService, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
):
    """Texts are recorded where the conventions' variable asks for it."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    await service.memories.add(SCOPE, ["Ada prefers dark mode"])
    await service.memories.recall(SCOPE, "dark mode")
    searched = named(spans, "search_memory")
    assert searched.attributes["gen_ai.memory.query.text"] == "dark mode"
    assert "Ada prefers dark mode" in searched.attributes["gen_ai.memory.records"]


@pytest.mark.parametrize(
    ("query", "attribute", "untold"),
    [("dark mode", "empty", "gated"), ("Hello!", "gated", "empty")],
)
async def test_latency_mode_and_empty_answers_are_measured(
    service: KagentMemoryService,
    metrics: InMemoryMetricReader,
    spans: InMemorySpanExporter,
    query: str,
    attribute: str,
    untold: str,
):
    """A search that the gate held back counts as gated, and not as empty."""
    await service.memories.recall(SCOPE, query, gate=True)
    searched = points(metrics)["duration"]
    assert searched.count == 1
    assert searched.attributes["gen_ai.operation.name"] == "search_memory"
    assert searched.attributes[f"kagent_memory.{attribute}"] is True
    assert f"kagent_memory.{untold}" not in searched.attributes
    traced = named(spans, "search_memory").attributes
    assert ("kagent_memory.gated" in traced) is (attribute == "gated")


async def test_the_oldest_jobs_age_shows_an_outage(
    metrics: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
):
    """The age of the oldest open job grows through an outage and falls to 0 after it."""
    monkeypatch.setattr(worker, "MEASURE_SECONDS", 0.0)
    clock, llm = FrozenClock(), Replying(ConnectionRefusedError("down"))
    options = {"llm": llm, "clock": clock, "worker": False}
    async with opened("libsql:///:memory:", **options) as memories:
        await memories.work(until_idle=True)
        assert queue(metrics) == (0, 0)
        await memories.remember(
            SCOPE, [a_message("Fact: The spare key is with Grace.", "e1")], "s1"
        )
        for age in (5400, 41_400):
            clock.advance(seconds=age - 5400 * (age > 5400))
            await memories.work(until_idle=True)
            assert queue(metrics) == (1, age)
        llm.reply = stated  # the model is back
        clock.advance(minutes=16)
        await memories.work(until_idle=True)
        assert queue(metrics) == (0, 0)


async def test_an_unmeasured_queue_is_worked_on(
    metrics: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """A queue that cannot be measured is worked on all the same."""

    async def away(**_: Any) -> Any:
        raise StoreError("memory unavailable")

    clock = FrozenClock()
    async with opened("libsql:///:memory:", clock=clock, worker=False) as memories:
        monkeypatch.setattr(memories.store.queue, "pending", away)
        await memories.remember(
            SCOPE, [a_message("Fact: The spare key is with Grace.", "e1")], "s1"
        )
        assert await memories.work(until_idle=True) == 1
    assert points(metrics).keys() <= {"duration"}
    assert "The queue cannot be measured" in caplog.text


async def test_a_search_nests_under_the_tool_that_made_it(
    service: KagentMemoryService, spans: InMemorySpanExporter
):
    """The span of a search lies under that of the tool that made it."""
    tool = LoadMemoryTool()
    tracer = telemetry.tracer
    inner = tool.run_async

    async def traced(**arguments: Any) -> Any:
        with tracer.start_as_current_span("execute_tool load_memory"):
            return await inner(**arguments)

    tool.run_async = traced
    await Chat(
        assistant(scripted(call("load_memory", query="x y"), "done"), tools=[tool]), service
    ).say("Hello")
    parent = named(spans, "execute_tool load_memory")
    assert named(spans, "search_memory").parent.span_id == parent.context.span_id


def test_a_failure_names_its_kind_and_keeps_its_message_out(spans: InMemorySpanExporter):
    """The span of a failure names its kind, and quotes nothing."""
    with (
        pytest.raises(StoreError),
        telemetry.operation("search_memory", store="libsql"),
    ):
        raise StoreError("secret words")
    span = named(spans, "search_memory")
    assert span.attributes["error.type"] == "StoreError"
    assert span.status.status_code is trace.StatusCode.ERROR
    assert "secret words" not in str(span.to_json())
