"""Adapters of URI schemes: how a store is opened, looked for and distributed."""

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
    """A kind of database; nobody makes an object of it.

    Attributes:
        supports: which of the options rls, read_uri and encryption_keys.
    """

    supports: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    @abstractmethod
    async def open(cls, uri: str, **options: Unpack[OpenOptions]) -> MemoryStore | Store:
        """Connect and migrate to the newest schema; safe when many processes do so at once.

        Returns:
            A whole store; or memories alone, whose other parts a companion keeps.

        Raises:
            ConfigurationError: the URI, password, extension or file rights do not allow it.
            StoreError: the database cannot be reached.
        """

    @classmethod
    async def exists(cls, uri: str, *, schema: str = "kagent_memory") -> bool:
        """Return True if `open` would find memories here rather than make room for them, or where
        that cannot be told: `open` then says why. Make and change nothing.

        Raises:
            ConfigurationError: there is none, and none could be made here.
        """
        return True

    @classmethod
    async def distribute(
        cls, uri: str, *, schema: str = "kagent_memory", shards: int = 32, dry_run: bool = False
    ) -> Mapping[str, str]:
        """Spread the tables of a migrated database over the nodes of its cluster, each scope on one
        of them. Return those that were not spread yet, each with where its rows go; harmless where
        none is left.

        Raises:
            ConfigurationError: this store knows no cluster, or the database is none.
            StoreError: the database cannot be reached.
        """
        raise ConfigurationError(
            "Only PostgreSQL with the extension Citus is distributed: use postgresql://…."
        )

    @classmethod
    def companion(cls, uri: str) -> str:
        """Return the URI of the store that keeps the queue, the tokens and the receipts of memories
        that are opened alone: a file in the current directory, named by the URI without its user
        and password.
        """
        parts = urlsplit(uri)
        named = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        digest = hashlib.blake2b(named.encode(), digest_size=6).hexdigest()
        return f"libsql:///kagent_memory_{digest}.db"
