"""Memory services of ADK's tests: on a libSQL file; where a test asks for `each_uri` on Postgres
and over HTTP too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from server.ground import served

from kagent_memory import KagentMemoryService, Memories


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"libsql:///{tmp_path}/memory.db"


@pytest.fixture(params=["libsql", "postgres", "http"])
def each_uri(request: pytest.FixtureRequest) -> str:
    names = {"libsql": "uri", "postgres": "postgres_uri", "http": "server_uri"}
    return str(request.getfixturevalue(names[request.param]))


@pytest.fixture
def server_uri(uri: str) -> Iterator[str]:
    """A server on a libSQL file, behind a port of this machine."""
    with served(partial(Memories.open, uri, llm=False)) as address:
        yield address


@pytest.fixture
async def service(uri: str) -> AsyncIterator[KagentMemoryService]:
    async with KagentMemoryService(uri, llm=False) as opened:
        yield opened


@pytest.fixture
async def each_service(each_uri: str) -> AsyncIterator[KagentMemoryService]:
    async with KagentMemoryService(each_uri, llm=False) as opened:
        yield opened
