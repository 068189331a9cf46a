"""Vectors that callers bring themselves: which embedding space holds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..errors import InvalidInput
from ..records import Memory, Scope, Vector
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import (
    EXTERNAL,
    Batch,
    EmbeddingSpace,
    MemoryStore,
    checked_vector,
    external_name,
)

# of vectors of their own that the callers of one tenant keep, each a table; kagent's aside
MAX_WIDTHS = 8
MAKE_ROOM = "Forget what you no longer need: the next prune makes room."


class CallerVectors:
    """The embedding spaces of one store that callers' own vectors are kept in, by their width."""

    def __init__(self, store: MemoryStore, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    async def added_to(
        self,
        batch: Batch,
        scope: Scope,
        memories: Sequence[Memory | None],
        embedding: Sequence[Vector],
        name: str | None,
    ) -> Batch:
        """Return the batch with the vectors that a caller brings for its memories, one each, also
        for one that is None.

        Raises:
            InvalidInput: there are more or fewer vectors than memories, or as `space_for`.
        """
        if len(embedding) != len(memories):
            raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
        first = checked_vector(embedding[0], None)
        checked = [checked_vector(vector, len(first)) for vector in embedding]
        space = await self.space_for(scope, name, first)
        vectors = {
            memory.id: vector for memory, vector in zip(memories, checked, strict=True) if memory
        }
        return replace(batch, vectors=vectors, space_number=space.number)

    async def for_query(
        self,
        scopes: Sequence[Scope],
        embedding: Vector | None,
        name: str | None,
        *,
        own: str | None,
    ) -> tuple[EmbeddingSpace, Vector] | None:
        """Return a query's vector as its caller brought it, with the embedding space to search.

        Raises:
            InvalidInput: the vector does not fit, or a space is named without one.
        """
        if embedding is None:
            self.check_own_space(name, own)
            return None
        vector = checked_vector(embedding, None)
        space = await self.space(scopes, name, vector) if scopes else None
        return None if space is None else (space, vector)

    def check_own_space(self, name: str | None, own: str | None) -> None:
        """Refuse the name of an embedding space whose vectors are not made here.

        Raises:
            InvalidInput: the name is not the embedder's.
        """
        if name is not None and name != own:
            raise InvalidInput(
                f"Vectors of the embedding space {name!r} are not made here; bring them with "
                "embedding=, or leave "
                f"embedding_space out{f' or name {own!r}' if own else ''}."
            )

    async def nearest(
        self, scope: Scope, vector: Vector, *, limit: int
    ) -> Sequence[tuple[Memory, float]]:
        """Return the memories whose own vectors, as callers brought them, are nearest to this one,
        each with its cosine.

        Raises:
            InvalidInput: the vector does not fit.
        """
        space = await self.space([scope], external_name(len(checked_vector(vector, None))), vector)
        if space is None:
            return []
        view = self._store.view(scope, now=self._clock())
        [near] = await view.nearest(space.number, [vector], limit=limit)
        rows = await view.memories([id for id, _ in near])
        return [(rows[id], cosine) for id, cosine in near if id in rows]

    async def space_for(self, scope: Scope, name: str | None, vector: Vector) -> EmbeddingSpace:
        """Return the embedding space that a caller's own vectors are kept in, made when it is an
        external one and new.

        Raises:
            InvalidInput: as `space`; or the tenant keeps vectors of too many other widths.
        """
        held, width = await self.space([scope], name, vector), len(vector)
        if held is not None and held.name != external_name(width):
            return held
        if width != DIMENSIONS:
            widths = await self._store.spaces.note_width(scope.tenant, width, most=MAX_WIDTHS)
            if width not in widths:
                raise InvalidInput(
                    f"Vectors of {', '.join(map(str, widths))} dimensions are kept here, and no "
                    "further width is "
                    f"accepted; this one has {width}. {MAKE_ROOM}"
                )
        return held or await self._store.spaces.add(external_name(width), width, None)

    async def check_room(self, wanted: Iterable[tuple[str, int]]) -> None:
        """See that tenants may keep vectors of these widths beside those that they keep; note none
        of them.

        Args:
            wanted: tenants and widths.

        Raises:
            InvalidInput: those would be too many.
        """
        widths = defaultdict[str, set[int]](set)
        for tenant, width in wanted:
            if width != DIMENSIONS:
                widths[tenant].add(width)
        for tenant, new in widths.items():
            kept = await self._store.spaces.note_width(tenant, min(new), most=0)
            if (others := sorted(new.difference(kept))) and len(kept) + len(others) > MAX_WIDTHS:
                raise InvalidInput(
                    f"Vectors of {', '.join(map(str, kept)) or 'no'} dimensions are kept here, "
                    f"and with those of {', '.join(map(str, others))} there would be more than "
                    f"{MAX_WIDTHS} widths. {MAKE_ROOM}"
                )

    async def space(
        self, scopes: Sequence[Scope], name: str | None, vector: Vector
    ) -> EmbeddingSpace | None:
        """Return the embedding space that a caller's own vector belongs to; None when it is an
        external one still to be made.

        Raises:
            InvalidInput: there is no embedding space of this name and the vector's width; or
                without a name, one of the scopes holds callers' vectors of other widths only.
        """
        width, known = len(vector), await self._store.spaces.all()
        external = external_name(width)
        wanted = (name or external, width)
        space = next((one for one in known if (one.name, one.dimensions) == wanted), None)
        if name is None:
            others = [one for one in known if one.name.startswith(EXTERNAL) and one is not space]
            for scope in scopes if others else ():
                if space is None or not await self._holds(scope, space):
                    await self._check_holds_none(scope, others, width)
        if space is None and wanted[0] != external:
            others = [
                f"{one.name} ({one.dimensions})"
                for one in known
                if not one.name.startswith(EXTERNAL)
            ]
            raise InvalidInput(
                f"No embedding space {name!r} holds vectors of {width} dimensions"
                + (f"; the embedders' are {', '.join(others)}" if others else "")
                + f". Vectors of your own are kept by their width, as {external!r}."
            )
        return space

    async def _check_holds_none(
        self, scope: Scope, others: Sequence[EmbeddingSpace], width: int
    ) -> None:
        for other in others:
            if await self._holds(scope, other):
                raise InvalidInput(
                    f"The vector has {width} dimensions, and those here have {other.dimensions}; "
                    "pass vectors of that width, or start others with "
                    f"embedding_space={external_name(width)!r}."
                )

    async def _holds(self, scope: Scope, space: EmbeddingSpace) -> bool:
        anything = np.ones(space.dimensions, np.float32)
        view = self._store.view(scope, now=self._clock())
        [nearest] = await view.nearest(space.number, [anything], limit=1)
        return bool(nearest)
