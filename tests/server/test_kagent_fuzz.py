"""kagent's routes are not in the OpenAPI; here they get bodies that nearly fit, and none may bring
the server down.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kagent_memory.memories import Memories
from kagent_memory.server.app import create_app

from .ground import axis

SEED = 20_260_302
EXAMPLES = [20, pytest.param(200, marks=pytest.mark.slow)]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from(["my-agent", "my_agent", "ada"]) | st.text()
VECTORS = st.integers(0, 767).map(axis) | st.lists(st.floats(), max_size=3)
ITEMS = st.fixed_dictionaries(
    {"agent_name": NAMES | JSON, "user_id": NAMES | JSON, "vector": VECTORS | JSON},
    optional={
        "content": st.text() | JSON,
        "metadata": JSON,
        "ttl_days": st.integers() | JSON,
        "limit": st.integers() | JSON,
        "min_score": st.floats() | JSON,
    },
)
BODIES = {
    "/api/memories/sessions": ITEMS,
    "/api/memories/sessions/batch": st.fixed_dictionaries(
        {"items": st.lists(ITEMS, max_size=3) | JSON}
    ),
    "/api/memories/search": ITEMS,
}


@pytest.fixture
async def memories() -> AsyncIterator[Memories]:
    async with await Memories.open("libsql:///:memory:", worker=False) as opened:
        yield opened


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("path", BODIES)
async def test_no_body_brings_kagents_routes_down(memories: Memories, path: str, examples: int):
    """Whatever body kagent's routes get, they accept it or refuse it with 400."""
    print(f"POST {path}: seed {SEED}, {examples} examples")
    sent: list[bytes] = []

    @seed(SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(body=BODIES[path].map(lambda body: json.dumps(body).encode()) | st.binary())
    def collect(body: bytes) -> None:
        sent.append(body)

    collect()
    transport = httpx.ASGITransport(create_app(memories))
    statuses: set[int] = set()
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for body in sent:
            answer = await client.post(path, content=body)
            assert answer.status_code in (200, 201, 400), (body[:400], answer.text)
            assert "NaN" not in answer.text
            statuses.add(answer.status_code)
    assert len(statuses) == 2  # some fit, some did not
