"""Memory services of ADK's tests: on a libSQL file, and where a test asks for `each_uri` on Postgres too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kagent_memory import KagentMemoryService


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:.*EXPERIMENTAL.*:UserWarning")  # ADK < 2.3


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"libsql:///{tmp_path}/memory.db"


@pytest.fixture(params=["libsql", "postgres"])
def each_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_uri"))
    return f"libsql:///{tmp_path}/memory.db"


@pytest.fixture
async def service(uri: str) -> AsyncIterator[KagentMemoryService]:
    async with KagentMemoryService(uri, llm=False) as opened:
        yield opened


@pytest.fixture
async def each_service(each_uri: str) -> AsyncIterator[KagentMemoryService]:
    async with KagentMemoryService(each_uri, llm=False) as opened:
        yield opened
