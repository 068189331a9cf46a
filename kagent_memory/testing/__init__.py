"""For those who test against kagent_memory: `StoreContract` for stores, `AdkMemoryConformance` for memory services of
ADK, `HashEmbedder` and `ScriptedLlm` for agents.

The suites need pytest and pytest-asyncio, `StoreContract` hypothesis too, and are imported when they are asked for; the
two models need nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .scripted_models import HashEmbedder, ScriptedLlm

if TYPE_CHECKING:
    from .adk_conformance import AdkMemoryConformance
    from .contract import StoreContract

__all__ = ["AdkMemoryConformance", "HashEmbedder", "ScriptedLlm", "StoreContract"]

_ON_DEMAND = {"AdkMemoryConformance": ".adk_conformance", "StoreContract": ".contract"}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_DEMAND[name], __name__), name)
