"""Databases behind one seam: `open_store(uri)` picks the adapter by the URI's scheme and imports it on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ..errors import ConfigurationError, needs_extra
from ..settings import DEFAULT_URI, registered_stores
from .base import JobQueue, MemoryStore, OpenOptions, ReceiptStore, Store, TokenStore
from .values import StandbyLag

__all__ = [
    "JobQueue",
    "MemoryStore",
    "ReceiptStore",
    "Store",
    "TokenStore",
    "distribute_store",
    "open_store",
    "open_with",
    "standby_lag",
    "store_exists",
]

_UNSUPPORTED = {
    "rls": "keeps scopes apart by PostgreSQL's row level security, and this store has none: use postgresql://…, or "
    "leave rls out.",
    "read_uri": "names a standby of PostgreSQL, and this store has none: use postgresql://…, or leave read_uri out.",
    "encryption_keys": "are set, and this store does not encrypt what it keeps; use postgresql://… or libsql:///…, or "
    "leave the keys out.",
    "file_encryption_key": "encrypts a libSQL file, and this store is none: use libsql:///…, or leave it out.",
}
"""Why an option that only some stores support is refused."""


def _adapter(uri: str) -> type[MemoryStore]:
    scheme = urlsplit(uri).scheme.removeprefix("kagent+")
    if scheme in ("libsql+http", "libsql+https"):
        scheme = "libsql"  # how its server is reached makes no other store
    registered = registered_stores()
    if scheme not in registered:
        known = ", ".join(sorted(registered))
        raise ConfigurationError(
            f"No store for the URI scheme {scheme!r}; known schemes: {known}. A file is {DEFAULT_URI}, a server "
            "postgresql://user:password@host/database."
        )
    try:
        adapter: type[MemoryStore] = registered[scheme].load()
    except ConfigurationError as error:
        if scheme == "pgserver":  # [postgres], which the error names, would not do
            raise needs_extra("pgserver://", "pgserver") from error
        raise
    except ImportError as error:
        raise ConfigurationError(f"The store for {scheme!r} cannot be imported: {error}. Install its extra.") from error
    return adapter


async def open_store(uri: str, **options: Unpack[OpenOptions]) -> Store:
    """Opens the store of a URI (without query parameters of ours) and migrates it.

    Raises:
        ConfigurationError: unknown scheme, or the adapter's own reasons.
        StoreError: the database cannot be reached.
    """
    return await open_with(_adapter(uri), uri.removeprefix("kagent+"), **options)


async def open_with(adapter: type[MemoryStore], uri: str, **options: Unpack[OpenOptions]) -> Store:
    """Opens a store by its class; what it does not keep itself (queue, tokens, receipts) a libSQL file beside it does.

    Raises:
        ConfigurationError: the adapter's own reasons.
        StoreError: the database cannot be reached.
    """
    _check_supported(adapter, {name for name, value in options.items() if value not in (None, False)})
    memories = await adapter.open(uri, **options)
    if isinstance(memories, Store):
        return memories
    from .beside import StoreWithQueueBeside

    try:
        file = await open_store(adapter.beside(uri))
    except BaseException:
        await memories.close()
        raise
    return StoreWithQueueBeside(
        memories,
        memories if isinstance(memories, JobQueue) else file,
        memories if isinstance(memories, TokenStore) else file,
        memories if isinstance(memories, ReceiptStore) else file,
    )


def _check_supported(adapter: type[MemoryStore], asked: Collection[str]) -> None:
    for name, reason in _UNSUPPORTED.items():
        if name in asked and name not in adapter.supports:
            raise ConfigurationError(f"{name} {reason}")


async def store_exists(uri: str, *, schema: str = "kagent_memory") -> bool:
    """Whether `open_store` would find memories here rather than make room for them; makes and changes nothing.

    Raises:
        ConfigurationError: unknown scheme, or the adapter's own reasons.
    """
    return await _adapter(uri).exists(uri.removeprefix("kagent+"), schema=schema)


async def standby_lag(uri: str, read_uri: str, *, schema: str) -> StandbyLag:
    """How far the standby of a PostgreSQL database is behind it.

    Raises:
        ConfigurationError: one of them does not let us in.
        StoreError: one of them is away.
    """
    from .postgres.standby import look_at

    return await look_at(uri.removeprefix("kagent+"), read_uri, schema=schema)


async def distribute_store(uri: str, *, schema: str, shards: int, dry_run: bool) -> Mapping[str, str]:
    """See `MemoryStore.distribute`."""
    return await _adapter(uri).distribute(uri.removeprefix("kagent+"), schema=schema, shards=shards, dry_run=dry_run)
