"""The stores of this package keep the contract.

The whole contract runs once for each SQL dialect, on a file through sqlite3 and on PostgreSQL, and
once more, with `pytest -m slow`, with all switches on. A switch outside the SQL (another driver of
the file, a server, row security, encryption, a pooler in test_postgres_pooler.py) runs only the
parts of the contract that it can change.
"""

from __future__ import annotations

import base64
import itertools
from typing import Any, ClassVar

import pytest
from hrana import HranaServer
from queue_contract import QueueContract
from relay import at

from kagent_memory.stores import open_store
from kagent_memory.testing import StoreContract
from kagent_memory.testing.contract import (
    ApplyContract,
    ConcurrencyContract,
    FilterContract,
    ForgetContract,
    HistoryContract,
    IsolationContract,
    RoundTripContract,
    TakenContract,
    TextSearchContract,
)

KEYS = ",".join(f"{id}:{base64.b64encode(id[:1].encode() * 32).decode()}" for id in ("new", "old"))


class OnFile:
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path):
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    async def open_store(self):
        return await open_store(f"libsql:///{next(self.paths)}", **self.options)


class OnPostgres:
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _database(self, postgres_uri):
        self.uri = postgres_uri

    async def open_store(self):
        return await open_store(self.uri, **self.options)


class TestFile(OnFile, StoreContract, QueueContract):
    pass


class TestPostgres(OnPostgres, StoreContract, QueueContract):
    pass


class TestLibsqlServer(RoundTripContract, ApplyContract):
    @pytest.fixture(autouse=True)
    def _server(self, tmp_path):
        with HranaServer(tmp_path, token="a.Very-Secret_token") as self.server:
            yield

    async def open_store(self):
        return await open_store(self.server.uri())


class TestMemory(ConcurrencyContract):
    """An in-memory database, whose readers and writers share one connection."""

    async def open_store(self):
        return await open_store("libsql:///:memory:")


class TestRowSecurity(OnPostgres, IsolationContract, ForgetContract, ApplyContract):
    options: ClassVar[dict[str, Any]] = {"rls": True}


@pytest.mark.usefixtures("packs_at_once")
class TestEncryptedFile(
    OnFile,
    RoundTripContract,
    HistoryContract,
    ForgetContract,
    FilterContract,
    TextSearchContract,
    QueueContract,
):
    options: ClassVar[dict[str, Any]] = {"encryption_keys": KEYS}


@pytest.mark.usefixtures("packs_at_once")
class TestEncryptedPostgres(OnPostgres, RoundTripContract, TakenContract):
    options: ClassVar[dict[str, Any]] = {"encryption_keys": KEYS}


@pytest.mark.slow
@pytest.mark.usefixtures("packs_at_once")
class TestEverythingSwitchedOn(StoreContract, QueueContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_uri, pooler_port):
        self.uri = at(postgres_uri, pooler_port)

    async def open_store(self):
        return await open_store(self.uri, encryption_keys=KEYS, rls=True)
