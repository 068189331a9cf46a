"""The store of one file keeps the contract, by both drivers and in memory."""

from __future__ import annotations

import itertools

import pytest

from kagent_memory.stores import open_store
from kagent_memory.testing import StoreContract
from kagent_memory.testing.contract import (
    ConcurrencyContract,
    ForgetContract,
    IsolationContract,
    RoundTripContract,
    VectorSearchContract,
)


class TestFileBySqlite3(StoreContract):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path):
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    async def open_store(self):
        return await open_store(f"libsql:///{next(self.paths)}")


class TestFileByLibsql(TestFileBySqlite3):
    async def open_store(self):
        return await open_store(f"libsql:///{next(self.paths)}", file_encryption_key="a file's key")


class TestMemory(IsolationContract, RoundTripContract, ForgetContract, VectorSearchContract, ConcurrencyContract):
    """The rules that a store without a file could break; the rest is the same code on the same connection."""

    async def open_store(self):
        return await open_store("libsql:///:memory:")
