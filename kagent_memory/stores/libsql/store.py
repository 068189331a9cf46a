"""The embedded adapter: a file that several processes may use at once, or memory for one."""

from __future__ import annotations

from typing_extensions import Unpack, override

from ..adapter import Adapter
from ..encryption import KeyRing
from ..parts import Store
from ..sql.memories import CACHE_MB, SqlMemoryStore
from ..sql.queue import JobQueue
from ..sql.receipts import ReceiptStore
from ..sql.tokens import TokenStore
from ..values import OpenOptions
from .database import Database


class LibSQLStore(Adapter):
    """One SQLite file, memory, or a libSQL server.

    URIs: `libsql:///relative.db`, `libsql:////absolute.db` and `libsql:///:memory:` (each store its
    own).
    """

    supports = frozenset({"encryption_keys", "file_encryption_key"})

    @classmethod
    @override
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> Store:
        """Open or make the file; the options but `cache_mb` and the keys are a server's, and are
        left aside: a file has one schema and one connection, and waits five seconds for another
        process's lock.
        """
        ring = KeyRing.parse(options.get("encryption_keys"))
        database = await Database.open(uri, ring, key=options.get("file_encryption_key"))
        cache_mb = options.get("cache_mb", CACHE_MB)
        return Store(
            SqlMemoryStore(database, cache_mb=cache_mb, ring=ring),
            JobQueue(database),
            TokenStore(database),
            ReceiptStore(database),
        )

    @classmethod
    @override
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        return await Database.exists(uri)
