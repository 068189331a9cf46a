"""What an agent expects of a memory service of ADK: ours keeps all of it, and the page's table
says what ADK's own do.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from adk_conformance import AdkMemoryConformance
from google.adk import memory
from google.adk.memory import BaseMemoryService, InMemoryMemoryService

from kagent_memory import KagentMemoryService

PROMISES = [name for name in vars(AdkMemoryConformance) if name.startswith("test_")]
PAGE = Path(__file__).parents[2] / "docs/how-to/testing.md"


class TestOurs(AdkMemoryConformance):
    """Ours keeps each promise in a file, in PostgreSQL and through a server."""

    @pytest.fixture
    def service(self, each_service: KagentMemoryService) -> KagentMemoryService:
        return each_service

    async def settle(self, service: BaseMemoryService) -> None:
        assert isinstance(service, KagentMemoryService)
        assert await service.drain()


@pytest.mark.skipif(not hasattr(memory, "SqliteMemoryService"), reason="the page is about ADK 2.13")
async def test_the_page_tells_who_breaks_what(tmp_path: Path):
    """The page's table says "no" of exactly those promises that a service of ADK's breaks."""
    broken = {name: ["yes", "yes", "yes"] for name in PROMISES}
    for name in PROMISES:
        services = (
            InMemoryMemoryService(),
            memory.SqliteMemoryService(str(tmp_path / f"{name}.db")),
        )
        for column, service in enumerate(services):
            try:
                await getattr(AdkMemoryConformance(), name)(service)
            except Exception:
                broken[name][column] = "no"
    rows = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines()]
    table = {row[0].strip(" `"): [cell.strip() for cell in row[1:]] for row in rows if row}
    assert {name: answers for name, answers in table.items() if name in PROMISES} == broken
