"""/api/v1: the verbs as JSON, and their errors as problem+json."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Scope

ADA = Scope("", "ada", "demo")
S = "?app=demo&user=ada"
MEMORIES, SEARCH, FORGET = (f"/memories{S}", f"/memories/search{S}", f"/memories/forget{S}")


async def added(client: httpx.AsyncClient, *items: Any) -> list[str]:
    answer = await client.post(f"/api/v1{MEMORIES}", json={"items": list(items)})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "named"),
    [
        ("POST", MEMORIES, {"items": ["x" * 20_000]}, 400, "max_content_bytes"),
        ("POST", MEMORIES, {"items": [{"text": "x", "colour": "red"}]}, 400, "colour"),
        ("POST", "/memories?app=demo", {"items": ["x"]}, 400, "user"),
        ("POST", FORGET, {"everything": 1}, 400, "everything"),
        ("POST", FORGET, {"session_id": "s", "tga": "x"}, 400, "tga"),
        ("POST", f"{FORGET}&everything=true", None, 400, "everything"),
        ("POST", SEARCH, {}, 400, "query: missing"),
        ("POST", f"/sessions{S}", {"llm": 5}, 400, "llm: Input should be a valid string"),
        ("POST", SEARCH, {"query": "x", "limit": 101}, 400, "limit"),
        ("GET", f'{MEMORIES}&filter={{"tag":"tea"}}', None, 400, "filter.tag"),
        ("GET", f"{MEMORIES}&limit=1&limit=2", None, 400, "twice"),
        ("POST", "/import?path=/etc/hostname", None, 400, "path"),
        ("GET", f"/memories/nothing{S}", None, 404, ""),
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
    """An invalid call has no effect and gets problem+json, which names its family and the field
    without its value; OpenAPI lists the fields.
    """
    [id] = await added(client, {"text": "Ada likes tea", "tags": ["tea"]})
    answer = await client.request(method, f"/api/v1{path}", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    problem, kind = answer.json(), "invalid-input" if status == 400 else "not-found"
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem["type"] == f"urn:kagent-memory:{kind}"
    assert named in problem["detail"]
    assert "xxxx" not in answer.text
    assert [memory.id for memory in (await memories.list(ADA)).memories] == [id]
    described = (await client.get("/openapi.json")).json()["components"]["schemas"]
    assert described["Body_forget"]["additionalProperties"] is False
    assert "'maxItems': 4096, 'minItems': 64" in str(described["Body_add"])
