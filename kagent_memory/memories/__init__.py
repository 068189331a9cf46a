"""The verbs of memory: `MemoryApi` declares them, `Memories` does them in process.

Names are loaded when they are first used: who only passes the verbs on does not wait for what does them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..stores.base import Job, Page, Pruned, ScopeStats
    from .api import Items, MemoryApi
    from .components import utc_now, without_secrets
    from .in_process import Memories
    from .opened import OpenedMemories

__all__ = [
    "Items",
    "Job",
    "Memories",
    "MemoryApi",
    "OpenedMemories",
    "Page",
    "Pruned",
    "ScopeStats",
    "utc_now",
    "without_secrets",
]

_HOMES = {
    "Memories": ".in_process",
    "OpenedMemories": ".opened",
    **dict.fromkeys(("Items", "MemoryApi"), ".api"),
    **dict.fromkeys(("utc_now", "without_secrets"), ".components"),
    **dict.fromkeys(("Job", "Page", "Pruned", "ScopeStats"), "..stores.base"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value
