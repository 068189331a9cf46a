"""Readiness, metrics, their dashboard, and logs in JSON."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from ingestion.ground import Embedding
from memories.opening import execute
from prometheus_client.parser import text_string_to_metric_families

from kagent_memory.errors import ModelUnavailable
from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server import probes
from kagent_memory.server.auth import Access
from kagent_memory.testing import FrozenClock

from .ground import client_of, let_in

ROOT = Path(__file__).parents[2]
ADA = Scope("", "ada", "demo")
DASHBOARD = json.loads((ROOT / "deploy/grafana/kagent-memory.json").read_text(encoding="utf-8"))


async def values(client: httpx.AsyncClient, **headers: str) -> dict[str, float]:
    """Return every sample of /metrics by its name and labels."""
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        ",".join(
            [sample.name, *(f"{label}={value}" for label, value in sorted(sample.labels.items()))]
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


@pytest.fixture(autouse=True)
def asks_each_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "FRESH_SECONDS", 0.0)


# -- /readyz


async def test_a_server_that_can_serve_is_ready(memories: Memories, clock: FrozenClock):
    """Readiness needs no token, for a kubelet, and reveals no name."""
    async with client_of(memories, clock, Access(required=True)) as client:
        answer = await client.get("/readyz", headers={"host": "10.0.0.9"})
    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "database": "ok",
        "migrations": "ok",
        "embedder": "none: memories are found by words",
    }


async def test_without_its_embedder_a_server_is_ready_and_says_so(clock: FrozenClock):
    """A server without its embedder is ready, as it finds memories by words, and reports that."""
    embedder = Embedding()
    async with (
        await Memories.open("libsql:///:memory:", embedding=embedder, worker=False) as memories,
        client_of(memories, clock) as client,
    ):
        embedder.error = ModelUnavailable("no route to secret-host:11434")
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["embedder"]) == (200, "unavailable")
        assert "secret" not in answer.text
        embedder.error = None
        async with asyncio.timeout(60):
            while (answer := await client.get("/readyz")).json()["embedder"] != "ok":  # noqa: ASYNC110 after its pause
                await asyncio.sleep(0.1)
        count = len(embedder.calls)
        assert {(await client.get("/readyz")).status_code for _ in range(5)} == {200}
        assert len(embedder.calls) == count  # an embedder's calls may cost money


async def test_a_server_without_its_database_is_not_ready(
    postgres_server: str, postgres_uri: str, clock: FrozenClock
):
    """While the database is away, /readyz answers 503 without names; it recovers by itself."""
    name = urlsplit(postgres_uri).path.lstrip("/")

    async with (
        await Memories.open(postgres_uri, worker=False) as memories,
        client_of(memories, clock) as client,
    ):
        assert (await client.get("/readyz")).json()["ready"] is True
        let_in(postgres_server, postgres_uri, False)
        try:
            away = await client.get("/readyz")
            measured = await values(client)
        finally:
            let_in(postgres_server, postgres_uri, True)
        assert away.status_code == 503
        assert away.json()["ready"] is False
        assert away.json()["database"] in ("unavailable", "no answer in time")
        assert name not in away.text
        assert measured["kagent_memory_store_up"] == 0
        async with asyncio.timeout(60):
            while (await client.get("/readyz")).status_code != 200:  # noqa: ASYNC110 a pause between tries to connect
                await asyncio.sleep(0.2)
        assert (await client.get("/readyz")).json()["ready"] is True
        assert (await values(client))["kagent_memory_store_up"] == 1


async def test_a_schema_that_lacks_a_migration_is_not_ready(store_uri: str, clock: FrozenClock):
    """A schema older than the server's is not served."""
    async with (
        await Memories.open(store_uri, worker=False) as memories,
        client_of(memories, clock) as client,
    ):
        assert (await client.get("/readyz")).json()["migrations"] == "ok"
        execute(store_uri, "UPDATE schema_migration SET number = -1 WHERE number = 1")
        answer = await client.get("/readyz")
        execute(store_uri, "UPDATE schema_migration SET number = 1 WHERE number = -1")
    assert (answer.status_code, answer.json()["database"]) == (503, "ok")
    assert "migrate" in answer.json()["migrations"]


# -- /metrics


async def test_metrics_tell_operations_caches_deliveries_and_the_prune(
    client: httpx.AsyncClient, memories: Memories, clock: FrozenClock
):
    """Operations, lookups, deliveries and prunes are counted; a dry run of the prune is not."""
    assert (await values(client))["kagent_memory_store_up"] == 1
    old, jazz = await memories.add(ADA, ["Ada likes tea.", "Ada likes jazz."])
    await memories.recall(ADA, "tea")
    await memories.recall(ADA, "tea")
    await memories.drain(60)
    measured = await values(client)
    searches = (
        "kagent_memory_operation_duration_seconds_count,error=,mode=keyword,operation=search_memory"
    )
    adds = "kagent_memory_operation_duration_seconds_count,error=,mode=,operation=create_memory"
    assert (measured[searches], measured[adds]) == (2, 1)
    assert measured["kagent_memory_deliveries_total"] >= 2
    assert measured["kagent_memory_cache_lookups_total,cache=text,result=miss"] >= 1
    assert measured["kagent_memory_cache_lookups_total,cache=text,result=hit"] >= 1
    await memories.pin(ADA, jazz)
    clock.advance(days=400)
    assert (await memories.prune(dry_run=True)).deleted == 1
    # nothing was done
    assert "kagent_memory_pruned_memories_total,outcome=deleted" not in await values(client)
    assert (await memories.prune()).deleted == 1
    measured = await values(client)
    assert measured["kagent_memory_pruned_memories_total,outcome=deleted"] == 1
    assert measured["kagent_memory_prunes_total"] == 1
    assert old


async def test_metrics_name_nobody_and_quote_nothing(client: httpx.AsyncClient, memories: Memories):
    """No metric contains a name or a text of a user."""
    scope = Scope("acme-tenant", "grace-user", "shop-app")
    await memories.add(scope, ["Xylophones are what Grace collects."])
    await memories.recall(scope, "xylophones")
    text = (await client.get("/metrics")).text.lower()
    assert not [
        word for word in ("acme", "grace", "shop", "xylophone", "memory.db") if word in text
    ]


# -- the dashboard


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


async def test_the_dashboard_shows_every_metric_and_no_other(
    client: httpx.AsyncClient, memories: Memories
):
    """Every metric has a panel, and every panel an existing metric."""
    text = (await client.get("/metrics")).text
    samples = text_string_to_metric_families(text)
    families = {
        family.name: family.type for family in samples if not family.name.endswith("_created")
    }
    suffixes = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    there = {name + end: name for name, kind in families.items() for end in suffixes[kind]}
    shown = {name for text in expressions() for name in re.findall(r"kagent_memory_\w+", text)}
    assert shown <= set(there)
    assert {there[name] for name in shown} == set(families)


# -- structured logs
