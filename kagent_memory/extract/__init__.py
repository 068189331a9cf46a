"""Messages become facts: the summary providers."""

from .passthrough import PassthroughSummary
from .transcript import ModelBacked, SummaryProvider, Transcript, bind, needs_llm, provider_name

__all__ = [
    "ModelBacked",
    "PassthroughSummary",
    "SummaryProvider",
    "Transcript",
    "bind",
    "needs_llm",
    "provider_name",
]
