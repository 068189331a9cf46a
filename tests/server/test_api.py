"""/api/v1: the verbs as JSON, and their errors as problem+json."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from kagent_memory.errors import InvalidInput
from kagent_memory.memories import Memories
from kagent_memory.records import Fact, Scope

from .ground import Clock

ADA = Scope("", "ada", "demo")
S = "?app=demo&user=ada"
MEMORIES, SEARCH, FORGET = (f"/memories{S}", f"/memories/search{S}", f"/memories/forget{S}")


async def added(client: httpx.AsyncClient, *items: Any) -> list[str]:
    answer = await client.post(f"/api/v1{MEMORIES}", json={"items": list(items)})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_verb_answers_with_its_record_as_json(client: httpx.AsyncClient):
    """A memory and a hit are JSON objects of their fields; a verb without an answer says null."""
    new = {"text": "Ada likes tea", "topics": ["tea"], "metadata": {"a": {"b": 1}}, "ttl_days": 3}
    [id] = await added(client, new)
    one = f"/api/v1/memories/{id}"
    body = {"content": "Ada likes green tea", "revision": 1, "why": "said so"}
    edited = (await client.patch(one + S, json=body)).json()
    assert {**new, "text": edited["content"]}.items() <= {**edited, "text": body["content"]}.items()
    stale = await client.patch(one + S, json=body)
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:kagent-memory:conflict")
    assert (await client.post(f"{one}/feedback{S}", json={"success": True})).json() is None
    search = {"query": "tea", "explain": True}
    [hit] = (await client.post(f"/api/v1{SEARCH}", json=search)).json()["hits"]
    assert (hit["memory"]["id"], bool(hit["why"])) == (id, True)
    forgotten = (await client.post(f"/api/v1{FORGET}", json={"ids": [id]})).json()
    assert forgotten == {"ids": [id], "linked": []}


async def test_metadata_that_is_stored_can_be_listed_however_deep(
    client: httpx.AsyncClient, memories: Memories
):
    """Metadata that is stored can be read; deeper metadata is refused."""
    deep: Any = 1
    for _ in range(100):
        deep = {"a": deep}
    await added(client, {"text": "over HTTP", "metadata": {"x": deep}})
    await memories.add(ADA, [Fact("in the process", metadata={"x": deep})])
    listed = await client.get(f"/api/v1{MEMORIES}")
    assert [one["metadata"] for one in listed.json()["memories"]] == [{"x": deep}] * 2
    for deeper in ([deep], json.loads("[" * 900 + "]" * 900)):
        body = {"items": [{"text": "deeper", "metadata": {"x": deeper}}]}
        assert (await client.post(f"/api/v1{MEMORIES}", json=body)).status_code == 400
        with pytest.raises(InvalidInput, match="at most 100 levels"):
            await memories.add(ADA, [Fact("deeper", metadata={"x": deeper})])


async def test_lists_are_filtered_ordered_and_paged(client: httpx.AsyncClient, clock: Clock):
    """A list goes on where its cursor says, and a filter is JSON in the query."""
    for number in range(3):
        await added(client, {"text": f"fact {number}", "metadata": {"n": number}})
        clock.forward(minutes=1)

    async def listed(query: str) -> tuple[list[str], Any]:
        answer = (await client.get(f"/api/v1{MEMORIES}&{query}")).json()
        return [one["content"] for one in answer["memories"]], answer["cursor"]

    texts, cursor = await listed("limit=2&order=oldest")
    assert texts == ["fact 0", "fact 1"]
    assert await listed(f"limit=2&order=oldest&cursor={cursor}") == (["fact 2"], None)
    assert await listed('filter={"metadata":{"n":1}}') == (["fact 1"], None)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "named"),
    [
        ("POST", MEMORIES, {"items": ["x" * 20_000]}, 400, "max_content_bytes"),
        ("POST", MEMORIES, {"items": [{"text": "x", "importance": 2}]}, 400, "importance"),
        ("POST", MEMORIES, {"items": [{"text": "x", "colour": "red"}]}, 400, "colour"),
        ("POST", "/memories?app=demo", {"items": ["x"]}, 400, "user"),
        ("POST", FORGET, {}, 400, ""),
        ("POST", FORGET, {"everything": "yes"}, 400, "everything"),
        ("POST", FORGET, {"everything": 1}, 400, "everything"),
        ("POST", FORGET, {"everything": True, "dry_run": "no"}, 400, "dry_run"),
        ("POST", FORGET, {"session_id": "s", "tga": "x"}, 400, "tga"),
        ("POST", FORGET, {"filter": {"topcs": ["x"]}}, 400, "filter.topcs"),
        ("POST", f"{FORGET}&everything=true", None, 400, "everything"),
        ("POST", SEARCH, {}, 400, "query: missing"),
        ("POST", SEARCH, {"query": "x", "embedding": [0, 0]}, 400, "vector"),
        ("GET", f'{MEMORIES}&filter={{"tag":"tea"}}', None, 400, "filter.tag"),
        ("GET", f"{MEMORIES}&limit=1&limit=2", None, 400, "twice"),
        ("POST", "/import?path=/etc/hostname", None, 400, "path"),
        ("GET", f"/memories/nothing{S}", None, 404, ""),
        ("POST", "/jobs/nothing/retry", None, 404, ""),
        ("GET", "/nothing", None, 404, ""),
    ],
)
async def test_a_call_that_does_not_fit_is_refused_by_name(
    client: httpx.AsyncClient,
    memories: Memories,
    method: str,
    path: str,
    body: Any,
    status: int,
    named: str,
):
    """An error is problem+json with its family, names what does not fit, echoes nothing, and
    nothing is done.
    """
    [id] = await added(client, {"text": "Ada likes tea", "tags": ["tea"]})
    answer = await client.request(method, f"/api/v1{path}", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    told, kind = answer.json(), "invalid-input" if status == 400 else "not-found"
    assert (answer.status_code, told["status"]) == (status, status)
    assert told["type"] == f"urn:kagent-memory:{kind}"
    assert named in told["detail"]
    assert "xxxx" not in answer.text
    assert [one.id for one in (await memories.list(ADA)).memories] == [id]
