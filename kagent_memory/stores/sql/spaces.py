"""The embedding spaces of one database: create, replace and drop them, safe for concurrent use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from ...errors import Conflict
from ...records import Vector
from ..spaces import EmbeddingSpace, EmbeddingSpaces, SpaceState
from .session import Database, Part, Transaction, reading, run, writing


class SqlEmbeddingSpaces(Part, EmbeddingSpaces):
    """The embedding spaces of one database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._dimensions: dict[int, int] = {}

    @override
    async def dimensions_of(self, number: int) -> int:
        if number not in self._dimensions:
            self._dimensions[number] = await super().dimensions_of(number)
        return self._dimensions[number]

    @override
    @reading
    async def all(self, session: Transaction) -> Sequence[EmbeddingSpace]:
        return await embedding_spaces(session)

    @override
    async def add(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        present = _named(await self.all(), name, dimensions)  # a search waits for no writer
        return present or await run(
            self.database,
            lambda session: _registered(session, name, dimensions, probe, "current"),
            write=True,
        )

    @override
    @writing
    async def replace(
        self, session: Transaction, name: str, dimensions: int, probe: Vector | None
    ) -> EmbeddingSpace:
        space = await _registered(session, name, dimensions, probe, "retired")
        await session.send("choose_embedding_space", number=space.number)
        return await _registered(session, name, dimensions, probe, "retired")

    @override
    @writing
    async def finish_replacing(self, session: Transaction, number: int) -> None:
        if not await session.rows("finish_embedding_space", number=number):
            raise Conflict(
                "Another embedder was chosen meanwhile to replace the current one. Nothing was "
                "changed."
            )
        await session.send("retire_embedding_spaces", number=number)

    @override
    async def drop_retired(self) -> Sequence[str]:
        if dropped := await self._drop_retired():
            await self.database.erase()
        return dropped

    @writing
    async def _drop_retired(self, session: Transaction) -> Sequence[str]:
        retired = [space for space in await embedding_spaces(session) if space.state == "retired"]
        for space in retired:
            await session.send("mark_dropped", number=space.number)
            await session.rows("drop_vectors", space=space.number)
        return [space.name for space in retired]


async def embedding_spaces(session: Transaction) -> Sequence[EmbeddingSpace]:
    """Return all embedding spaces except dropped ones, oldest first."""
    return [
        EmbeddingSpace(
            **dict[str, Any](row, probe=row["probe"] and np.frombuffer(row["probe"], "<f4"))
        )
        for row in await session.rows("embedding_spaces")
    ]


async def erase_vectors(
    session: Transaction, statement: str = "erase_vectors", *, ids: Sequence[str] = ()
) -> None:
    """Run a statement that erases vectors in every embedding space."""
    for row in await session.rows("embedding_spaces"):
        await session.send(statement, space=row["number"], ids=ids)


def _named(spaces: Sequence[EmbeddingSpace], name: str, dimensions: int) -> EmbeddingSpace | None:
    return next(
        (space for space in spaces if (space.name, space.dimensions) == (name, dimensions)), None
    )


async def _registered(
    session: Transaction, name: str, dimensions: int, probe: Vector | None, state: SpaceState
) -> EmbeddingSpace:
    """Return the embedding space of this name and width; create it and its table if needed."""
    packed = None if probe is None else np.asarray(probe, "<f4").tobytes()
    values = {"name": name, "dimensions": dimensions, "probe": packed, "state": state}
    created = ()
    while (space := _named(await embedding_spaces(session), name, dimensions)) is None:
        # no row if another transaction added a space meanwhile: read again
        created = await session.rows("insert_embedding_space", **values)
    if created:
        await session.rows("make_vectors", space=space.number, width=dimensions)
    return space
