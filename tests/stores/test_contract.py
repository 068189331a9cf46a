"""The contract over every store that ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from kagent_memory.stores import MemoryStore, open_store
from kagent_memory.testing import StoreContract


class TestLibSQLMemory(StoreContract):
    async def open_store(self) -> MemoryStore:
        return await open_store("libsql:///:memory:")


class TestLibSQLFile(StoreContract):
    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.uri = f"libsql:///{tmp_path / 'memory.db'}"

    async def open_store(self) -> MemoryStore:
        return await open_store(self.uri)
