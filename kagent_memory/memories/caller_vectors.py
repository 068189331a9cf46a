"""Vectors that callers bring themselves: which embedding space holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from datetime import datetime

import numpy as np

from ..errors import InvalidInput
from ..records import Memory, Scope, Vector
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import MemoryStore
from ..stores.spaces import EXTERNAL, EmbeddingSpace, checked_vector, external_name
from ..stores.values import Batch

# of vectors of their own that the callers of one tenant keep, each a table; kagent's aside
MAX_WIDTHS = 8


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
            InvalidInput: there are more or fewer vectors than memories; or as `space`, or
                `external_space`.
        """
        if len(embedding) != len(memories):
            raise InvalidInput(f"Got {len(embedding)} vectors for {len(memories)} items.")
        width = len(checked_vector(embedding[0], None))
        checked = [checked_vector(vector, width) for vector in embedding]
        space = await self.space([scope], name, width)
        if space is None or space.name == external_name(width):
            space = await self.external_space(scope.tenant, width, space)
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
        space = await self.space(scopes, name, len(vector)) if scopes else None
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
        name = external_name(len(checked_vector(vector, None)))
        found = await self.for_query([scope], vector, name, own=None)
        if found is None:
            return []
        space, vector = found
        view = await self._store.view(scope, now=self._clock())
        [near] = await view.nearest(space.number, [vector], limit=limit)
        rows = await view.memories([id for id, _ in near])
        return [(rows[id], cosine) for id, cosine in near if id in rows]

    async def external_space(
        self, tenant: str, width: int, known: EmbeddingSpace | None = None
    ) -> EmbeddingSpace:
        """Return the embedding space of vectors of this width that callers make, `known` or made,
        and note that those of this tenant do.

        Raises:
            InvalidInput: the tenant keeps vectors of too many other widths.
        """
        if width != DIMENSIONS:
            kept = await self._store.spaces.note_width(tenant, width, most=MAX_WIDTHS)
            if width not in kept:
                raise _no_room(kept, [width])
        return known or await self._store.spaces.add(external_name(width), width, None)

    async def check_room(self, tenant: str, widths: Set[int]) -> None:
        """See that a tenant's callers may keep vectors of these widths beside those that they keep;
        note none of them.

        Raises:
            InvalidInput: those would be too many.
        """
        if wanted := widths - {DIMENSIONS}:
            kept = await self._store.spaces.note_width(tenant, min(wanted), most=0)
            if (new := sorted(wanted - {*kept})) and len(kept) + len(new) > MAX_WIDTHS:
                raise _no_room(kept, new)

    async def space(
        self, scopes: Sequence[Scope], name: str | None, width: int
    ) -> EmbeddingSpace | None:
        """Return the embedding space that a caller's own vector of this width belongs to; None when
        it is an external one still to be made.

        Raises:
            InvalidInput: there is no embedding space of this name and width; or without a name, one
                of the scopes holds callers' vectors of other widths only.
        """
        known, external = await self._store.spaces.all(), external_name(width)
        key = (name or external, width)
        space = next((each for each in known if each.key == key), None)
        if space is None and name not in (None, external):
            own = [each for each in known if not each.name.startswith(EXTERNAL)]
            names = ", ".join(f"{each.name} ({each.dimensions})" for each in own)
            raise InvalidInput(
                f"No embedding space {name!r} holds vectors of {width} dimensions"
                + (f"; the embedders' are {names}" if own else "")
                + f". Vectors of your own are kept by their width, as {external!r}."
            )
        others = [each for each in known if each.name.startswith(EXTERNAL) and each is not space]
        if name is None and others:
            for scope in scopes:
                await self._check_width(scope, width, [*([space] if space else []), *others])
        return space

    async def _check_width(
        self, scope: Scope, width: int, spaces: Sequence[EmbeddingSpace]
    ) -> None:
        """Refuse a width if the first of these spaces that a scope keeps vectors in has another."""
        view = await self._store.view(scope, now=self._clock())
        for space in spaces:
            anything = np.ones(space.dimensions, np.float32)
            [nearest] = await view.nearest(space.number, [anything], limit=1)
            if nearest and space.dimensions == width:
                return
            if nearest:
                raise InvalidInput(
                    f"The vector has {width} dimensions, and those here have {space.dimensions}; "
                    "pass vectors of that width, or start others with "
                    f"embedding_space={external_name(width)!r}."
                )


def _no_room(kept: Iterable[int], new: Iterable[int]) -> InvalidInput:
    return InvalidInput(
        f"Callers of a tenant keep vectors of at most {MAX_WIDTHS} widths. Those of "
        f"{', '.join(map(str, new))} dimensions find no room beside "
        f"{', '.join(map(str, kept)) or 'none'}. Forget what you no longer need: the next prune "
        "makes room."
    )
