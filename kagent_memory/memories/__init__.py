"""The verbs of memory. Names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..stores.base import Job, Page, Pruned, ScopeStats
    from .memories import Memories
    from .opened import utc_now, without_secrets

__all__ = ["Job", "Memories", "Page", "Pruned", "ScopeStats", "utc_now", "without_secrets"]

_HOMES = {
    "Memories": ".memories",
    "utc_now": ".opened",
    "without_secrets": ".opened",
    **dict.fromkeys(("Job", "Page", "Pruned", "ScopeStats"), "..stores.base"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
    return value
