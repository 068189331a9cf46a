"""Pure ranking: candidates of both searches → fuse → rank → select. The same for every store, tested without one."""

from ...language.dates import bare_dates, named_spans, windows
from ...language.tokenizer import estimated_tokens
from .candidates import Candidates, Nearest, dense_text, in_one_scale, join, keeps_what_is_asked, shortlist
from .exact import identifiers
from .rank import Ranked, Ranking, rank
from .rank_settings import RankSettings
from .selection import Selection, select

__all__ = [
    "Candidates",
    "Nearest",
    "RankSettings",
    "Ranked",
    "Ranking",
    "Selection",
    "bare_dates",
    "dense_text",
    "estimated_tokens",
    "identifiers",
    "in_one_scale",
    "join",
    "keeps_what_is_asked",
    "named_spans",
    "rank",
    "select",
    "shortlist",
    "windows",
]
