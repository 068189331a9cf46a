"""Messages become facts: the summary providers."""

from .answer_schema import ExtractedFact, ExtractedFacts, ExtractedSession
from .compaction import CompactionAwareSummary
from .llm_summary import LlmSummary
from .passthrough import PassthroughSummary
from .splitting import pieces
from .transcript import (
    ModelBacked,
    SummaryProvider,
    Transcript,
    bind,
    checked_provider,
    needs_llm,
    provider_name,
    with_settings,
)

__all__ = [
    "CompactionAwareSummary",
    "ExtractedFact",
    "ExtractedFacts",
    "ExtractedSession",
    "LlmSummary",
    "ModelBacked",
    "PassthroughSummary",
    "SummaryProvider",
    "Transcript",
    "bind",
    "checked_provider",
    "needs_llm",
    "pieces",
    "provider_name",
    "with_settings",
]
