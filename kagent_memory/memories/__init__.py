"""The verbs of memory."""

from .memories import Memories
from .opened import utc_now

__all__ = ["Memories", "utc_now"]
