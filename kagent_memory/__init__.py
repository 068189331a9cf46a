"""Long-term memory for Google ADK agents. Names are loaded on first use, so importing costs
nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_ROOMS = {
    "adk.agent": "MemoryPlugin enable_memory",
    "adk.autosave": "AutoSave auto_save_session_to_memory_callback",
    "adk.prefetch": "PrefetchMemoryTool PreloadMemoryTool",
    "adk.registry": "register",
    "adk.service": "KagentMemoryService",
    "adk.tools": (
        "ConfirmMemoryTool ForgetMemoryTool LoadMemoryTool RecallMemoryTool SaveMemoryTool"
    ),
    "errors": "ConfigurationError Conflict InvalidInput KagentMemoryError ModelError NotFound "
    "StoreError UnusableAnswer",
    "ingestion.summaries": "CompactionAwareSummary LlmSummary",
    "ingestion.summary_provider": "PassthroughSummary SummaryProvider",
    "memories.memories": "Memories",
    "records": "Change Fact Filter Hit Memory Message Recall Revision Scope Scopes tenant",
    "settings.ranking": "RankSettings",
    "settings": "EmbeddingConfig MemorySettings",
}
_HOMES = {name: room for room, names in _ROOMS.items() for name in names.split()}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] the stub names them


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("kagent-memory")
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
