"""Adapters of URI schemes: how to open, find and distribute a store."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import urlsplit

from typing_extensions import Unpack

from ..errors import ConfigurationError
from .base import MemoryStore
from .parts import Store
from .values import OpenOptions


class Adapter(ABC):
    """A kind of database; used as a class, never as an object.

    Attributes:
        supports: the options among rls, read_uri and encryption_keys that it supports.
    """

    supports: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    @abstractmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> MemoryStore | Store:
        """Connect and migrate to the newest schema; safe if many processes do so at once.

        Returns:
            A whole store, or memories alone, whose other parts a companion keeps.

        Raises:
            ConfigurationError: the URI, password, extension or file permissions prevent it.
            StoreError: the database cannot be reached.
        """
        raise NotImplementedError(f"{cls.__name__} has no classmethod `open`.")

    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        """Return True if `open` would find memories here rather than create a database, or if that
        cannot be known, so that `open` reports why. Create and change nothing.

        Raises:
            ConfigurationError: there is none, and none could be created here.
        """
        return True

    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 0, dry_run: bool = False
    ) -> Mapping[str, str]:
        """Spread the tables of a migrated database over the nodes of its cluster, each scope on one
        of them. Return the tables that were not spread yet with their distribution; repeating it is
        harmless.

        Args:
            uri: the URI of the database.
            schema: the schema of the tables.
            shards: the number of parts of each table; 0: the database's own setting, or 8.
            dry_run: True to change nothing.

        Raises:
            ConfigurationError: this store knows no cluster, or the database is none.
            StoreError: the database cannot be reached.
        """
        raise ConfigurationError(
            "Only PostgreSQL with the extension Citus is distributed: use postgresql://…."
        )

    @classmethod
    def companion(cls, uri: str) -> str:
        """Return the URI of the store that keeps queue, tokens and receipts for memories alone: a
        file in the current directory, named by the URI without its user and password.
        """
        parts = urlsplit(uri)
        named = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        digest = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return f"libsql:///kagent_memory_{digest}.db"
