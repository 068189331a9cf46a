"""Tools for tests with kagent_memory: scripted models, a frozen clock, an in-memory service, a chat
with an agent, and `StoreContract` for stores.

Names are imported on first use: `HashEmbedder`, `ScriptedLlm` and `FrozenClock` need nothing else,
tools that run an agent need ADK, and `StoreContract` needs pytest, pytest-asyncio and hypothesis.
The fixtures are in `kagent_memory.testing.pytest_plugin`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .stand_ins import FrozenClock, HashEmbedder, ScriptedLlm

if TYPE_CHECKING:
    from .agents import Chat, RehearsedModel, ScriptedModel, call, in_memory_service
    from .contract import StoreContract

__all__ = [
    "Chat",
    "FrozenClock",
    "HashEmbedder",
    "RehearsedModel",
    "ScriptedLlm",
    "ScriptedModel",
    "StoreContract",
    "call",
    "in_memory_service",
]

_ON_DEMAND = {
    "StoreContract": ".contract",
    **dict.fromkeys(
        ("Chat", "RehearsedModel", "ScriptedModel", "call", "in_memory_service"), ".agents"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_DEMAND:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_DEMAND[name], __name__), name)
