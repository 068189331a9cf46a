"""Messages become facts: the summary providers."""

from .compaction import CompactionAwareSummary
from .llm_summary import LlmSummary
from .passthrough import PassthroughSummary
from .transcript import SummaryProvider, Transcript

__all__ = [
    "CompactionAwareSummary",
    "LlmSummary",
    "PassthroughSummary",
    "SummaryProvider",
    "Transcript",
]
