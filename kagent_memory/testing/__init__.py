"""For those who test against kagent_memory: `StoreContract` for stores, `HashEmbedder` and `ScriptedLlm` for agents.

`StoreContract` needs pytest, pytest-asyncio and hypothesis, and is imported when it is asked for; the two models
need nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .scripted_models import HashEmbedder, ScriptedLlm

if TYPE_CHECKING:
    from .contract import StoreContract

__all__ = ["HashEmbedder", "ScriptedLlm", "StoreContract"]


def __getattr__(name: str) -> Any:
    if name != "StoreContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(".contract", __name__).StoreContract
