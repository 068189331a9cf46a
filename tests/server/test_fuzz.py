"""Requests that the OpenAPI allows, and bodies that nearly fit kagent's routes: none may bring the
server down.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from optional import package

from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.app import create_app

from .ground import axis, served

SEED = 20_260_302
pytestmark = pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.slow)])


async def opened() -> Memories:
    memories = await Memories.open("libsql:///:memory:", worker=False)
    await memories.add(Scope("", "ada", "demo"), ["Ada likes tea"])
    return memories


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(opened) as base:
        yield base


@pytest.fixture(scope="module")
def connection() -> Iterator[requests.Session]:
    """One connection for all examples; a new one for each took most of their time."""
    with requests.Session() as made:
        made.trust_env = False
        yield made


def tried(examples: int, **strategies: Any) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Call a function with so many examples, which are the same in every run."""
    print(f"seed {SEED}, {examples} examples")
    checks: Any = list(HealthCheck)
    bounds = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=checks,
    )
    return lambda function: seed(SEED)(bounds(given(**strategies)(function)))


OPENAPI = create_app(opened).openapi()


@pytest.fixture(scope="module")
def schema() -> Any:
    """The OpenAPI as schemathesis reads it, which every process of a run need not import."""
    package("schemathesis")
    import schemathesis

    return schemathesis.openapi.from_dict(OPENAPI)


@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path, item in OPENAPI["paths"].items() for method in item],
)
def test_no_request_brings_the_server_down(
    address: str, connection: requests.Session, schema: Any, path: str, method: str, examples: int
):
    """No request that the OpenAPI allows makes a server error."""
    from schemathesis.checks import not_a_server_error

    @tried(examples, case=schema[path][method].as_strategy())
    def fuzz(case: Any) -> None:
        if path.endswith("/drain") and isinstance(case.body, dict):
            case.body["timeout"] = 0.01  # nobody works on the queue: it would wait
        case.call_and_validate(
            base_url=address, session=connection, checks=[not_a_server_error], timeout=120
        )

    fuzz()
    assert connection.get(f"{address}/healthz", timeout=60).status_code == 200


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
    "sessions": ITEMS,
    "sessions/batch": st.fixed_dictionaries({"items": st.lists(ITEMS, max_size=3) | JSON}),
    "search": ITEMS,
}


@pytest.mark.parametrize("path", BODIES)
def test_no_body_brings_kagents_routes_down(
    address: str, connection: requests.Session, path: str, examples: int
):
    """Whatever body kagent's routes get, they accept it or refuse it with 400."""
    statuses: set[int] = set()

    @tried(examples, body=BODIES[path].map(lambda body: json.dumps(body).encode()) | st.binary())
    def fuzz(body: bytes) -> None:
        answer = connection.post(f"{address}/api/memories/{path}", data=body, timeout=60)
        assert answer.status_code in (200, 201, 400), (body[:400], answer.text)
        assert "NaN" not in answer.text
        statuses.add(answer.status_code)

    fuzz()
    assert len(statuses) == 2  # some fit, some did not
