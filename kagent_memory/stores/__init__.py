"""Databases behind one seam: `open_store(uri)` picks the adapter by the URI's scheme and imports it on demand."""

from __future__ import annotations

from importlib.metadata import entry_points
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ..errors import ConfigurationError
from .base import MemoryStore, OpenOptions

__all__ = ["MemoryStore", "open_store", "store_exists"]

ENTRY_POINTS = "kagent_memory.stores"


def _adapter(scheme: str) -> type[MemoryStore]:
    found = sorted(entry_points(group=ENTRY_POINTS, name=scheme), key=lambda point: point.value)
    if not found:
        known = ", ".join(sorted({point.name for point in entry_points(group=ENTRY_POINTS)}))
        raise ConfigurationError(f"No store for the URI scheme {scheme!r}; known schemes: {known}.")
    try:
        return found[0].load()
    except ImportError as error:
        raise ConfigurationError(f"The store for {scheme!r} cannot be imported: {error}. Install its extra.") from error


async def open_store(uri: str, **options: Unpack[OpenOptions]) -> MemoryStore:
    """Opens the store of a URI (without query parameters of ours) and migrates it.

    Raises:
        ConfigurationError: unknown scheme, or the adapter's own reasons.
        StoreError: the database cannot be reached.
    """
    scheme = urlsplit(uri).scheme.removeprefix("kagent+")
    adapter = _adapter(scheme)
    return await adapter.open(uri.removeprefix("kagent+"), **options)


async def store_exists(uri: str, *, schema: str = "kagent_memory") -> bool:
    """Whether `open_store` would find memories here rather than make room for them; makes and changes nothing.

    Raises:
        ConfigurationError: unknown scheme, or the adapter's own reasons.
    """
    adapter = _adapter(urlsplit(uri).scheme.removeprefix("kagent+"))
    return await adapter.exists(uri.removeprefix("kagent+"), schema=schema)
