"""The PostgreSQL store keeps the contract, and what it promises besides."""

from __future__ import annotations

import pytest

from kagent_memory.stores import open_store
from kagent_memory.testing import StoreContract


class TestPostgres(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_uri):
        self.uri = postgres_uri

    async def open_store(self):
        return await open_store(self.uri)
