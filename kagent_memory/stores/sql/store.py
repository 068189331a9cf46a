"""A whole store in one database."""

from __future__ import annotations

from ..parts import Store
from ..values import OpenOptions
from .memories import CACHE_MB, SqlMemoryStore
from .queue import JobQueue
from .receipts import ReceiptStore
from .session import Database
from .tokens import TokenStore


def store_in(
    database: Database, options: OpenOptions, *, searches: Database | None = None
) -> Store:
    """Return the store that a database keeps all parts of.

    Args:
        database: keeps them.
        options: the store was opened with.
        searches: answers searches and lists, perhaps a little behind; None: the same database.
    """
    cache_mb = options.get("cache_mb", CACHE_MB)
    return Store(
        SqlMemoryStore(database, cache_mb=cache_mb, searches=searches),
        JobQueue(database),
        TokenStore(database),
        ReceiptStore(database),
    )
