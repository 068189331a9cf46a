"""The public names as type checkers and editors see them; see `__init__.py`."""

from .adk.agent import MemoryPlugin as MemoryPlugin, enable_memory as enable_memory
from .adk.autosave import (
    AutoSave as AutoSave,
    auto_save_session_to_memory_callback as auto_save_session_to_memory_callback,
)
from .adk.prefetch import (
    PrefetchMemoryTool as PrefetchMemoryTool,
    PreloadMemoryTool as PreloadMemoryTool,
)
from .adk.registry import register as register
from .adk.service import KagentMemoryService as KagentMemoryService
from .adk.tools import (
    ConfirmMemoryTool as ConfirmMemoryTool,
    ForgetMemoryTool as ForgetMemoryTool,
    LoadMemoryTool as LoadMemoryTool,
    RecallMemoryTool as RecallMemoryTool,
    SaveMemoryTool as SaveMemoryTool,
)
from .errors import (
    ConfigurationError as ConfigurationError,
    Conflict as Conflict,
    InvalidInput as InvalidInput,
    KagentMemoryError as KagentMemoryError,
    ModelError as ModelError,
    NotFound as NotFound,
    StoreError as StoreError,
    UnusableAnswer as UnusableAnswer,
)
from .ingestion.summaries import (
    CompactionAwareSummary as CompactionAwareSummary,
    LlmSummary as LlmSummary,
)
from .ingestion.summary_provider import (
    PassthroughSummary as PassthroughSummary,
    SummaryProvider as SummaryProvider,
)
from .memories.memories import Memories as Memories
from .records import (
    Change as Change,
    Fact as Fact,
    Filter as Filter,
    Hit as Hit,
    Memory as Memory,
    Message as Message,
    Recall as Recall,
    Revision as Revision,
    Scope as Scope,
    Scopes as Scopes,
    tenant as tenant,
)
from .settings.ranking import RankSettings as RankSettings
from .settings import EmbeddingConfig as EmbeddingConfig, MemorySettings as MemorySettings

__all__: list[str]
__version__: str
