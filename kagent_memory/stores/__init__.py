"""Databases behind one interface: `open_store(uri)` chooses the adapter by the URI's scheme and
imports it on demand.
"""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import Unpack

from ..errors import ConfigurationError, needs_extra
from ..settings import registered_store
from .base import MemoryStore
from .parts import Adapter, JobQueue, ReceiptStore, Store, TokenStore
from .spaces import EmbeddingSpaces
from .values import OpenOptions

__all__ = [
    "Adapter",
    "EmbeddingSpaces",
    "JobQueue",
    "MemoryStore",
    "ReceiptStore",
    "Store",
    "TokenStore",
    "adapter_of",
    "open_store",
    "open_with",
]


def adapter_of(uri: str) -> tuple[type[Adapter], str]:
    """Return the adapter of a URI, and the URI as that takes it.

    Raises:
        ConfigurationError: the scheme is unknown, or its extra is missing.
    """
    point = registered_store(uri)
    try:
        adapter: type[Adapter] = point.load()
    except ConfigurationError as error:
        if point.name == "pgserver":  # [postgres], which the error names, would not do
            raise needs_extra("pgserver://", "pgserver") from error
        raise
    except ImportError as error:
        raise ConfigurationError(
            f"The store for {point.name!r} cannot be imported: {error}. Install its extra."
        ) from error
    return adapter, uri.removeprefix("kagent+")


async def open_store(uri: str, **options: Unpack[OpenOptions]) -> Store:
    """Open the store of a URI (without query parameters of ours) and migrate it.

    Raises:
        ConfigurationError: the scheme is unknown, or the adapter refuses.
        StoreError: the database cannot be reached.
    """
    return await open_with(*adapter_of(uri), **options)


async def open_with(adapter: type[Adapter], uri: str, **options: Unpack[OpenOptions]) -> Store:
    """Open a store with its adapter; if it keeps only memories, a companion keeps queue, tokens and
    receipts.

    Raises:
        ConfigurationError: the adapter refuses.
        StoreError: the database cannot be reached.
    """
    for name in ("rls", "read_uri", "encryption_keys"):
        if options.get(name) and name not in adapter.supports:
            raise ConfigurationError(
                f"This store does not support {name}; use postgresql://…, or leave {name} out."
            )
    opened = await adapter.open(uri, **options)
    if isinstance(opened, Store):
        return opened
    try:
        file = await open_store(adapter.companion(uri))
    except BaseException:
        await opened.close()
        raise
    return replace(file, memories=opened, companion=file.memories)
