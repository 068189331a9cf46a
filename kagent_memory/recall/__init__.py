"""Pure ranking: candidates of two legs → fuse → rank → settle. The same for every store, and tested without one."""

from ..text import estimated_tokens
from .admit import admits
from .dates import bare_dates, named_spans, windows
from .legs import Legs, dense_text, join, shortlist
from .rank import Ranked, Ranking, rank
from .settle import Settled, same_in_substance, settle
from .weights import RankSettings

__all__ = [
    "Legs",
    "RankSettings",
    "Ranked",
    "Ranking",
    "Settled",
    "admits",
    "bare_dates",
    "dense_text",
    "estimated_tokens",
    "join",
    "named_spans",
    "rank",
    "same_in_substance",
    "settle",
    "shortlist",
    "windows",
]
