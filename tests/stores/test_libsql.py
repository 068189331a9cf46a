"""The libSQL store keeps the contract, in a file and in memory, and what a file promises besides."""

from __future__ import annotations

import itertools

import pytest

from kagent_memory.stores import open_store
from kagent_memory.testing import StoreContract


class TestLibsqlFile(StoreContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path):
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    async def open_store(self):
        return await open_store(f"libsql:///{next(self.paths)}")


class TestLibsqlMemory(StoreContract):
    async def open_store(self):
        return await open_store("libsql:///:memory:")
