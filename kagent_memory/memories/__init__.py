"""The verbs of memory."""

from .memories import Memories
from .opened import utc_now, without_secrets

__all__ = ["Memories", "utc_now", "without_secrets"]
