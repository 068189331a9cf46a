"""What an agent may expect of a memory service of ADK: ours keeps all of it, and the table says
what ADK's own do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk import memory
from google.adk.memory import BaseMemoryService, InMemoryMemoryService

from kagent_memory import KagentMemoryService
from kagent_memory.testing import AdkMemoryConformance

PROMISES = [name for name in vars(AdkMemoryConformance) if name.startswith("test_")]
COLUMNS = {"in memory": 1, "sqlite": 2, "ours": 3}  # of the page's table, which is of ADK 2.13
if not hasattr(memory, "SqliteMemoryService"):  # what it says of ADK's own need not be so before
    COLUMNS = {"ours": 3}
PAGE = Path(__file__).parents[2] / "docs/how-to/testing.md"


class TestOurs(AdkMemoryConformance):
    """Ours keeps each promise in a file, in PostgreSQL and through a server."""

    @pytest.fixture
    def service(self, each_service: KagentMemoryService) -> KagentMemoryService:
        return each_service

    async def open_service(self) -> BaseMemoryService:
        raise NotImplementedError

    async def settle(self, service: BaseMemoryService) -> None:
        assert isinstance(service, KagentMemoryService)
        assert await service.drain()


def told(column: int) -> set[str]:
    """The promises that the page's table says a service breaks."""
    rows = [
        line.split("|")[1:-1]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `test_")
    ]
    assert [row[0].strip(" `") for row in rows] == PROMISES
    return {row[0].strip(" `") for row in rows if row[column].strip() == "no"}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
async def test_the_page_tells_who_breaks_what(column: int, tmp_path: Path):
    """The page's table says "no" of exactly those promises that a service breaks."""
    broken: set[str] = set()
    for name in PROMISES if column < 3 else ():
        service = (
            InMemoryMemoryService()
            if column == 1
            else memory.SqliteMemoryService(tmp_path / f"{name}.db")
        )
        try:
            await getattr(AdkMemoryConformance(), name)(service)
        except Exception:
            broken.add(name)
    assert broken == told(column)
