"""The embedded store: one libSQL file that several processes may share, or memory for one."""

from .database import LibSQLStore

__all__ = ["LibSQLStore"]
