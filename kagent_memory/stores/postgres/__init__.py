"""The store for many: PostgreSQL with pgvector."""

from ...errors import needs_extra

try:
    from .store import PostgresStore
except ImportError as missing:
    raise needs_extra("PostgreSQL", "postgres", missing) from missing

__all__ = ["PostgresStore"]
