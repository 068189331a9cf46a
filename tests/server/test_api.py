"""/api/v1: the verbs over HTTP, their errors as problem+json, and fuzzing against the OpenAPI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope
from kagent_memory.server.app import create_app
from kagent_memory.server.auth import Access

from .ground import Clock, served

S = "?app=demo&user=ada"
SEED = 20_260_301
EXAMPLES = [20, pytest.param(200, marks=pytest.mark.slow)]


async def added(client: httpx.AsyncClient, *items: Any) -> list[str]:
    answer = await client.post(f"/api/v1/memories{S}", json={"items": list(items)})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_life_of_a_memory_over_http(client: httpx.AsyncClient):
    """Each verb of a memory is a route with its arguments and its answer."""
    new = {"text": "Ada likes tea", "topics": ["tea"], "metadata": {"a": {"b": 1}}, "ttl_days": 3}
    id, other = await added(client, new, "Ada lives in Oslo")
    one = f"/api/v1/memories/{id}"
    assert (await client.get(one + S)).json()["metadata"] == {"a": {"b": 1}}
    edited = await client.patch(
        one + S, json={"content": "Ada likes green tea", "revision": 1, "why": "said so"}
    )
    assert (edited.json()["content"], edited.json()["revision"]) == ("Ada likes green tea", 2)
    stale = await client.patch(one + S, json={"content": "late", "revision": 1})
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:kagent-memory:conflict")
    history = (await client.get(f"{one}/history{S}")).json()
    assert [(entry["kind"], entry["why"]) for entry in history] == [("edit", "said so")]
    assert (await client.post(f"{one}/undo{S}", json={})).json()[0]["content"] == "Ada likes tea"
    assert (await client.put(f"{one}/pin{S}", json={"pinned": True})).json()["pinned"] is True
    assert (await client.post(f"{one}/feedback{S}", json={"success": True})).json() is None
    search = {"query": "tea", "explain": True}
    [hit] = (await client.post(f"/api/v1/memories/search{S}", json=search)).json()["hits"]
    assert (hit["memory"]["id"], bool(hit["why"])) == (id, True)
    forgotten = (await client.post(f"/api/v1/memories/forget{S}", json={"ids": [id]})).json()
    assert forgotten == {"ids": [id], "linked": []}
    assert (await client.get(one + S)).status_code == 404
    for flag in ({"everything": "yes"}, {"everything": 1}, {"everything": True, "dry_run": "no"}):
        refused = await client.post(f"/api/v1/memories/forget{S}", json=flag)
        assert refused.status_code == 400, flag
    everything = await client.post(f"/api/v1/memories/forget{S}", json={"everything": True})
    assert everything.json()["ids"] == [other]


async def test_metadata_that_is_stored_can_be_listed_however_deep(
    client: httpx.AsyncClient, memories: Memories
):
    """What is stored can be read; deeper metadata is refused."""
    deep: Any = 1
    for _ in range(100):
        deep = {"a": deep}
    await added(client, {"text": "over HTTP", "metadata": {"x": deep}})
    await memories.add(Scope("", "ada", "demo"), [Fact("in the process", metadata={"x": deep})])
    listed = await client.get(f"/api/v1/memories{S}")
    assert [one["metadata"] for one in listed.json()["memories"]] == [{"x": deep}] * 2
    for deeper in ([deep], json.loads("[" * 900 + "]" * 900)):
        body = {"items": [{"text": "deeper", "metadata": {"x": deeper}}]}
        assert (await client.post(f"/api/v1/memories{S}", json=body)).status_code == 400
        with pytest.raises(InvalidInput, match="at most 100 levels"):
            await memories.add(Scope("", "ada", "demo"), [Fact("deeper", metadata={"x": deeper})])


async def test_lists_are_filtered_ordered_and_paged(client: httpx.AsyncClient, clock: Clock):
    """A list goes on where its cursor says, and a filter is JSON in the query."""
    for number in range(5):
        await added(
            client,
            {
                "text": f"fact {number}",
                "tags": ["odd"] if number % 2 else [],
                "metadata": {"n": number},
            },
        )
        clock.forward(minutes=1)
    first = (await client.get(f"/api/v1/memories{S}&limit=2&order=oldest")).json()
    second = (
        await client.get(f"/api/v1/memories{S}&limit=9&order=oldest&cursor={first['cursor']}")
    ).json()
    texts = [memory["content"] for page in (first, second) for memory in page["memories"]]
    assert (texts, second["cursor"]) == ([f"fact {n}" for n in range(5)], None)
    for filter, wanted in (
        ('{"tags":["odd"]}', {"fact 1", "fact 3"}),
        ('{"metadata":{"n":4}}', {"fact 4"}),
    ):
        found = (await client.get(f"/api/v1/memories{S}&filter={filter}")).json()["memories"]
        assert {memory["content"] for memory in found} == wanted


async def test_a_session_is_queued_and_its_job_shows_no_content(
    client: httpx.AsyncClient, memories: Memories
):
    """A session is learnt once, and its job tells nothing of what it holds."""
    body = {"session_id": "s", "messages": [{"text": "I moved to Rome", "event_id": "e1"}]}
    job = (await client.post(f"/api/v1/sessions{S}", json=body)).json()
    jobs = (await client.get("/api/v1/jobs")).text
    assert job in jobs
    assert "Rome" not in jobs
    await memories.work(until_idle=True)
    found = (await client.get(f"/api/v1/memories{S}")).json()["memories"]
    assert [memory["content"] for memory in found] == ["I moved to Rome"]
    assert (await client.post(f"/api/v1/sessions{S}", json=body)).json() is None


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("POST", f"/api/v1/memories{S}", {"items": ["x" * 20_000]}, 400, "invalid-input"),
        (
            "POST",
            f"/api/v1/memories{S}",
            {"items": [{"text": "x", "importance": 2}]},
            400,
            "invalid-input",
        ),
        ("POST", f"/api/v1/memories{S}", {"itms": []}, 400, "invalid-input"),
        ("POST", "/api/v1/memories?app=demo", {"items": ["x"]}, 400, "invalid-input"),
        ("GET", f"/api/v1/memories/nothing{S}", None, 404, "not-found"),
        ("POST", f"/api/v1/memories/forget{S}", {}, 400, "invalid-input"),
        (
            "POST",
            f"/api/v1/memories/search{S}",
            {"query": "x", "embedding": [0, 0]},
            400,
            "invalid-input",
        ),
        ("POST", "/api/v1/jobs/nothing/retry", None, 404, "not-found"),
        ("GET", "/api/v1/nothing", None, 404, "not-found"),
    ],
)
async def test_errors_are_problems_and_say_their_family(
    client: httpx.AsyncClient, method: str, path: str, body: Any, status: int, kind: str
):
    """An error is problem+json with its family, and echoes nothing."""
    answer = await client.request(method, path, json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["status"]) == (status, status)
    assert answer.json()["type"] == f"urn:kagent-memory:{kind}"
    assert "xxxx" not in answer.text  # what was sent is never echoed


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("POST", f"/memories/forget{S}", {"session_id": "s", "tga": "x"}, "tga"),
        ("POST", f"/memories/forget{S}", {"filter": {"topcs": ["x"]}}, "filter.topcs"),
        ("POST", f"/memories/forget{S}&everything=true", None, "everything"),
        ("POST", f"/memories{S}", {"items": [{"text": "x", "colour": "red"}]}, "colour"),
        ("GET", f'/memories{S}&filter={{"tag":"tea"}}', None, "filter.tag"),
        ("GET", f"/memories{S}&limit=1&limit=2", None, "twice"),
        ("POST", "/import?path=/etc/hostname", None, "path"),
        ("POST", f"/memories/search{S}", {}, "query: missing"),
    ],
)
async def test_what_a_verb_does_not_know_is_refused_by_name(
    client: httpx.AsyncClient, memories: Memories, method: str, path: str, body: Any, named: str
):
    """An argument that a verb does not know is refused by its name and nothing is done."""
    [id] = await added(client, {"text": "Ada likes tea", "tags": ["tea"]})
    answer = await client.request(method, f"/api/v1{path}", json=body)
    assert (answer.status_code, named in answer.json()["detail"]) == (400, True), answer.text
    assert [one.id for one in (await memories.list(Scope("", "ada", "demo"))).memories] == [id]


async def _opened() -> Memories:
    memories = await Memories.open("libsql:///:memory:", worker=False)
    await memories.add(Scope("", "ada", "demo"), ["Ada likes tea"])
    return memories


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(_opened, Access()) as base:
        yield base


@pytest.fixture(scope="module")
def connection() -> Iterator[requests.Session]:
    """One connection for all examples; a new one for each took most of their time."""
    with requests.Session() as opened:
        opened.trust_env = False
        yield opened


SCHEMA = schemathesis.openapi.from_dict(create_app(_opened).openapi())
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations()]


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_no_request_brings_the_server_down(
    address: str, connection: requests.Session, operation: Any, examples: int
):
    """No request that the OpenAPI allows makes a server error."""
    print(f"{operation.label}: seed {SEED}, {examples} examples")

    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def fuzz(case: Any) -> None:
        if operation.path.endswith("/drain") and isinstance(case.body, dict):
            case.body["timeout"] = 0.01  # nobody works on the queue: it would wait
        case.call_and_validate(
            base_url=address, session=connection, checks=[not_a_server_error], timeout=120
        )

    fuzz()
    assert httpx.get(f"{address}/healthz", timeout=60).status_code == 200
