"""The PostgreSQL store, which many processes share; it needs pgvector."""

from ...errors import needs_extra

try:
    from .store import PostgresStore
except ImportError as missing:
    raise needs_extra("PostgreSQL", "postgres", missing) from missing

__all__ = ["PostgresStore"]
