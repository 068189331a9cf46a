"""Requests that the OpenAPI allows cause no server error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from optional import package

from kagent_memory.memories import Memories
from kagent_memory.records import Scope
from kagent_memory.server.app import create_app

from .ground import in_memory, served


async def opened() -> Memories:
    memories = await in_memory()
    await memories.add(Scope("", "ada", "demo"), ["Ada likes tea"])
    return memories


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(opened) as base:
        yield base


@pytest.fixture(scope="module")
def connection() -> Iterator[requests.Session]:
    """One connection for all examples: a new one for each took most of the time."""
    with requests.Session() as session:
        session.trust_env = False
        yield session


OPENAPI = create_app(opened).openapi()


@pytest.fixture(scope="module")
def schema() -> Any:
    """The OpenAPI schema of schemathesis, imported only by processes that need it."""
    package("schemathesis")
    import schemathesis

    return schemathesis.openapi.from_dict(OPENAPI)


@pytest.mark.parametrize("examples", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("path", "method"),
    [(path, method) for path, item in OPENAPI["paths"].items() for method in item],
)
def test_no_request_brings_the_server_down(
    address: str, connection: requests.Session, schema: Any, path: str, method: str, examples: int
):
    """No request that the OpenAPI allows makes a server error."""
    from schemathesis.checks import not_a_server_error

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(case=schema[path][method].as_strategy())
    def fuzz(case: Any) -> None:
        if path.endswith("/drain") and isinstance(case.body, dict):
            case.body["timeout"] = 0.01  # nobody works on the queue: it would wait
        case.call_and_validate(
            base_url=address, session=connection, checks=[not_a_server_error], timeout=120
        )

    fuzz()
    assert connection.get(f"{address}/healthz", timeout=60).status_code == 200
