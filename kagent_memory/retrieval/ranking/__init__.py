"""Pure ranking: candidates of both searches → fuse → rank → select. The same for every store,
tested without one.
"""

from .rank_settings import RankSettings

__all__ = ["RankSettings"]
