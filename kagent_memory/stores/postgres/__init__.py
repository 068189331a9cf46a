"""The store for many: PostgreSQL with pgvector."""

from .store import PostgresStore

__all__ = ["PostgresStore"]
