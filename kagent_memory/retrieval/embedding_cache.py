"""Vectors asked of an embedder once and cached for a while."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from cachetools import TTLCache

from .. import telemetry
from ..records import Vector

ENTRY_BYTES = 470
CACHED_SECONDS = 600.0

Kind: TypeAlias = Literal["document", "query"]
KINDS: tuple[Kind, ...] = ("document", "query")
Row: TypeAlias = "Vector | None"
Ask: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Row]]]
_Key: TypeAlias = tuple[str, bytes]  # a tenant, and a text's keyed hash


class EmbeddingCache:
    """The vectors of texts of one kind in one embedding space. It belongs to one event loop.

    What one tenant asked for is never told to another, not even by how fast the answer comes.
    Errors are not cached.

    Args:
        ask: gives one vector for each text, None for one that it refuses.
        kind: of the texts, for the metrics.
        max_bytes: of the cached vectors; 0: none are cached.
        seconds: that a vector is cached.
    """

    def __init__(
        self, ask: Ask, kind: Kind, *, max_bytes: int, seconds: float = CACHED_SECONDS
    ) -> None:
        def size(vector: Vector) -> int:
            # the one that came last stays, however large
            return min(vector.nbytes + ENTRY_BYTES, max_bytes)

        self._ask, self._keeps = ask, max_bytes > 0
        self._looks: Literal["documents", "queries"] = (
            "documents" if kind == "document" else "queries"
        )
        self._cached = TTLCache[_Key, Vector](max_bytes, seconds, getsizeof=size)
        self._salt = os.urandom(16)
        self._clears = 0

    def __len__(self) -> int:
        return len(self._cached)

    def clear(self) -> None:
        """Forget all vectors, also those under way once they have come."""
        self._cached.clear()
        self._clears += 1

    async def vectors(self, texts: Sequence[str], *, tenant: str) -> list[Row]:
        """Return one vector a text, None for a refused one; they are shared, so nobody may write to
        them.

        Raises:
            ModelError: as `ask`.
        """
        raws = (text.encode("utf-8", "surrogatepass") for text in texts)
        keys = [
            (tenant, hashlib.blake2b(raw, key=self._salt, digest_size=16).digest()) for raw in raws
        ]
        found: dict[_Key, Row] = {
            key: row for key in keys if (row := self._cached.get(key)) is not None
        }
        fresh = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        telemetry.cache_looked_up(self._looks, hit=True, count=len(found))
        telemetry.cache_looked_up(self._looks, hit=False, count=len(fresh))
        clears = self._clears
        rows = await self._ask([*fresh.values()]) if fresh else ()
        for key, row in zip(fresh, rows, strict=True):
            found[key] = own = None if row is None else row.copy()  # keeps no other row in memory
            if own is not None:
                own.flags.writeable = False
                if self._keeps and clears == self._clears:
                    self._cached[key] = own
        return [found[key] for key in keys]
