"""kagent's HTTP contract as tables: paths, status codes, texts, limits, times, names and order, on
both databases.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.testing import FrozenClock

from .ground import axis, client_of, item

SAVE, BATCH, SEARCH, LIST = (
    "/api/memories/sessions",
    "/api/memories/sessions/batch",
    "/api/memories/search",
    "/api/memories",
)
WHO = {"agent_name": "shop__NS__my-agent", "user_id": "ada"}
INVALID = "Invalid request body"
NO: Any = "no"
MISSING = r"Missing required fields \(agent_name, user_id, vector\)"
MISSING_ITEM = "Missing required fields in batch item"
MISSING_QUERY = "Missing required query parameters (agent_name, user_id)"
TOO_DEEP = "metadata must not be nested deeper than 100 levels"
ZERO = ".*zero.*"
SIXTEEN = "vector must have exactly 768 dimensions, got 16"


@pytest.fixture
def uri(request: pytest.FixtureRequest) -> str:
    """The URI of a new store: a file in memory, unless a test requests another fixture's."""
    name = getattr(request, "param", "")
    return request.getfixturevalue(name) if name else "libsql:///:memory:"


@pytest.fixture
async def memories(uri: str, clock: FrozenClock) -> AsyncIterator[Memories]:
    async with await Memories.open(uri, clock=clock, worker=False) as opened:
        yield opened


async def saved(client: httpx.AsyncClient, *items: dict[str, Any]) -> list[str]:
    answers = [await client.post(SAVE, json=item) for item in items]
    assert [answer.status_code for answer in answers] == [201] * len(items)
    return [answer.json()["id"] for answer in answers]


async def search(client: httpx.AsyncClient, **more: Any) -> list[dict[str, Any]]:
    answer = await client.post(SEARCH, json={**WHO, "vector": axis(0), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(client: httpx.AsyncClient, **who: str) -> list[dict[str, Any]]:
    answer = await client.get(LIST, params={**WHO, **who})
    assert answer.status_code == 200, answer.text
    return answer.json()


def without(name: str, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in item(**more).items() if key != name}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (SAVE, b"null", MISSING),
        (SAVE, item(vector=NO), INVALID),
        (SAVE, item(vector=[1e39] * 768), INVALID),
        (SAVE, item(vector=[math.nan] * 768), INVALID),
        (SAVE, item(user_id=7), INVALID),
        (SAVE, item(ttl_days=1.5), INVALID),
        (SAVE, b'{"metadata":' + b"[" * 100_000, INVALID),
        (SAVE, item(metadata=json.loads("[" * 101 + "]" * 101)), TOO_DEEP),
        (SAVE, without("agent_name"), MISSING),
        (SAVE, item(user_id=""), MISSING),
        (SAVE, item(vector=[0.5] * 16), SIXTEEN),
        (SAVE, item(vector=[0.0] * 768), ZERO),
        (SEARCH, item(vector=[0.0] * 768), ZERO),
        (BATCH, {"items": []}, "Empty batch"),
        (BATCH, {"items": {}}, INVALID),
        (BATCH, {"items": [item()] * 51}, "batch size 51 exceeds maximum allowed size of 50"),
        (BATCH, {"items": [item(), without("vector")]}, MISSING_ITEM),
        (BATCH, {"items": [item(), item(vector=[0.5] * 16)]}, SIXTEEN),
        (SEARCH, item(limit="5"), INVALID),
        (SEARCH, WHO, MISSING),
        (SEARCH, without("agent_name"), MISSING),
        (SEARCH, item(vector=[0.5] * 16), SIXTEEN),
    ],
)
async def test_a_misfit_is_told_in_kagents_words(
    client: httpx.AsyncClient, path: str, body: Any, text: str
):
    """A body that does not fit is answered as kagent answers it, and stores nothing."""
    raw = body if isinstance(body, bytes) else json.dumps(body)
    answer = await client.post(path, content=raw)
    assert answer.status_code == 400
    assert re.fullmatch(text, answer.json()["error"])
    assert answer.headers["content-type"] == "application/json"
    assert await listed(client) == []  # nothing of a refused call is written


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("query", ["", "?agent_name=a", "?user_id=u", "?agent_name=&user_id=u"])
async def test_list_and_delete_name_agent_and_user(
    client: httpx.AsyncClient, method: str, query: str
):
    """A list or a delete that names no agent or no user is refused in kagent's words."""
    answer = await client.request(method, LIST + query)
    assert (answer.status_code, answer.json()) == (400, {"error": MISSING_QUERY})


@pytest.mark.parametrize("uri", ["", "postgres_uri"], indirect=True)
async def test_a_saved_memory_comes_back_as_kagent_writes_it(client: httpx.AsyncClient):
    """Search and list write a memory with the fields and times that kagent's do."""
    metadata = {"session_id": "s", "source": "explicit_save", "nested": {"a": [1, None]}}
    [id] = await saved(client, item("User prefers dark mode", metadata=metadata, unknown="ignored"))
    shown = {"id": str(uuid.UUID(id)), "content": "User prefers dark mode"}
    hit = {"score": 1.0, "metadata": metadata, "created_at": "2026-03-01T12:00:00.12345Z"}
    assert await search(client) == [{**shown, **hit}]
    times = {"created_at": "2026-03-01T12:00:00Z", "expires_at": "2026-03-16T12:00:00Z"}
    assert await listed(client) == [{**shown, "access_count": 0, **times}]
    batch = {"items": [item(f"fact {n}", axis(n), ttl_days=7) for n in (2, 3)]}
    answer = await client.post(BATCH, json=batch)
    assert (answer.status_code, answer.json()) == (201, {"count": 2})
    expiries = {memory["content"]: memory["expires_at"] for memory in await listed(client)}
    assert expiries["fact 3"] == "2026-03-08T12:00:00Z"


GO_NAMES = {"Agent_Name": WHO["agent_name"], "USER_ID": "ada", "Vector": axis(0), "content": "x"}


@pytest.mark.parametrize(
    ("sent", "content", "metadata"),
    [
        (item("x"), "x", {}),
        (item("x", metadata=None), "x", {}),
        (item("x", metadata=[1, "a"]), "x", [1, "a"]),
        (item("x", metadata="x"), "x", "x"),
        (without("content"), "", {}),
        (item("x\ud800y"), "x\ufffdy", {}),
        (GO_NAMES, "x", {}),
    ],
)
async def test_odd_bodies_are_read_as_in_go(
    client: httpx.AsyncClient, sent: dict[str, Any], content: str, metadata: Any
):
    """Metadata is any JSON, content may be absent, and names match whatever their case."""
    assert (await client.post(SAVE, content=json.dumps(sent).encode())).status_code == 201
    assert [(memory["content"], memory["metadata"]) for memory in await search(client)] == [
        (content, metadata)
    ]


@pytest.mark.parametrize(
    ("ttl", "expires"), [(None, 15), (0, 15), (-3, 15), (7, 7), (100_000, 36_500)]
)
async def test_a_memory_lives_15_days_or_as_long_as_it_says(
    client: httpx.AsyncClient, clock: FrozenClock, ttl: int | None, expires: int
):
    """A memory lives by its TTL; a TTL that is no positive number means the server's default."""
    fields: dict[str, Any] = {} if ttl is None else {"ttl_days": ttl}
    await saved(client, item(**fields))
    clock.advance(days=expires, seconds=-1)
    assert len(await listed(client)) == len(await search(client)) == 1
    clock.advance(seconds=1)
    assert await listed(client) == await search(client) == []


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, 5),
        ({"limit": 0}, 5),
        ({"limit": -1}, 5),
        ({"limit": 1}, 1),
        ({"limit": 2**62}, 7),
        ({"limit": 2, "min_score": 0.5}, 2),
        ({"limit": 9, "min_score": 0.5}, 3),
        ({"min_score": 1.5}, 0),
        ({"min_score": -0.5}, 5),
    ],
)
async def test_search_gives_the_nearest_first_and_as_many_as_asked(
    client: httpx.AsyncClient, options: dict[str, Any], rows: int
):
    """Hits are ordered by cosine, five unless a positive limit is set; a floor drops lower ones,
    and 0 means no floor.
    """
    await saved(client, *[item(f"tilt {n}", axis(0, n * 0.4)) for n in (3, 1, 6, 0, 2, 5, 4)])
    answer = await search(client, **options)
    assert [memory["content"] for memory in answer] == [f"tilt {n}" for n in range(rows)]
    assert [memory["score"] for memory in answer] == pytest.approx(
        [math.cos(n * 0.4) for n in range(rows)], abs=2e-3
    )


async def test_only_what_was_handed_over_counts_and_orders_the_list(
    client: httpx.AsyncClient, memories: Memories
):
    """A hit below the floor does not count as delivered."""
    near, far = await saved(client, item("near", axis(0)), item("far", axis(0, 1.5)))
    for _ in range(2):
        assert len(await search(client, limit=2, min_score=0.5)) == 1
    await memories.drain(60)
    assert [(memory["id"], memory["access_count"]) for memory in await listed(client)] == [
        (near, 2),
        (far, 0),
    ]


async def test_an_agent_name_covers_its_underscored_form(
    client: httpx.AsyncClient, memories: Memories
):
    """A name with hyphens covers its form with underscores, never the reverse."""
    for agent, user in (("a-b", "u"), ("a_b", "u"), ("a-b", "v"), ("a-c", "u")):
        await saved(client, item(f"{agent} {user}", agent_name=agent, user_id=user))
    hyphen, underscore = ({"agent_name": name, "user_id": "u"} for name in ("a-b", "a_b"))

    async def contents(**who: str) -> set[str]:
        return {memory["content"] for memory in await listed(client, **who)}

    assert {memory["content"] for memory in await search(client, **hyphen)} == {"a-b u", "a_b u"}
    assert {memory["content"] for memory in await search(client, **underscore)} == {"a_b u"}
    assert await contents(**hyphen) == {"a-b u", "a_b u"}
    assert len(await search(client, **hyphen, limit=1)) == 1
    await memories.drain(60)
    assert sum(memory["access_count"] for memory in await listed(client, **hyphen)) == 4
    for _ in range(2):
        answer = await client.delete(LIST, params=hyphen)
        assert (answer.status_code, answer.json()) == (200, {"status": "deleted"})
    assert await contents(**hyphen) == set()
    assert await contents(agent_name="a-b", user_id="v") == {"a-b v"}
    assert await contents(agent_name="a-c", user_id="u") == {"a-c u"}


async def test_list_shows_what_agents_of_ours_learnt(client: httpx.AsyncClient, memories: Memories):
    """The list includes memories without kagent's vectors; the search finds none of them."""
    await memories.add(Scope("", "ada", "shop__NS__my_agent"), ["learnt by keywords"])
    await saved(client, item("stored by kagent"))
    assert {memory["content"] for memory in await listed(client)} == {
        "learnt by keywords",
        "stored by kagent",
    }
    assert [memory["content"] for memory in await search(client)] == ["stored by kagent"]


async def test_a_store_that_is_away_is_a_500_that_says_why(memories: Memories, clock: FrozenClock):
    """A failure of the store is a 500 in kagent's words for the route."""
    async with client_of(memories, clock) as client:
        await memories.store.close()
        for answer, start in (
            (await client.post(BATCH, json={"items": [item()]}), "failed to save memory batch: "),
            (await client.post(SEARCH, json={**WHO, "vector": axis(0)}), "search failed: "),
            (await client.delete(LIST, params=WHO), "failed to delete memory: "),
        ):
            assert (answer.status_code, answer.json()["error"].startswith(start)) == (500, True)
