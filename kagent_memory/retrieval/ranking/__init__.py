"""Pure ranking: candidates of both searches → fuse → rank → select. The same for every store,
tested without one.
"""

from .candidates import (
    Candidates,
    Nearest,
    dense_text,
    join,
    keeps_what_is_asked,
    shortlist,
    term_matrix,
)
from .exact import holding, identifiers
from .rank import REACH, Ranked, Ranking, rank
from .rank_settings import Depth, RankSettings
from .scripts import UNRELATED, disguised, trust
from .selection import Selection, select

__all__ = [
    "REACH",
    "UNRELATED",
    "Candidates",
    "Depth",
    "Nearest",
    "RankSettings",
    "Ranked",
    "Ranking",
    "Selection",
    "dense_text",
    "disguised",
    "holding",
    "identifiers",
    "join",
    "keeps_what_is_asked",
    "rank",
    "select",
    "shortlist",
    "term_matrix",
    "trust",
]
