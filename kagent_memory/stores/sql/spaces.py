"""The embedding spaces of one database: their tables are made, replaced and dropped, safely with
several at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from tenacity import (
    AsyncRetrying,
    RetryError,
    retry_if_result,
    stop_after_attempt,
    wait_random_exponential,
)
from typing_extensions import override

from ...errors import Conflict, InvalidInput, StoreError
from ...records import Vector
from ..spaces import (
    EXTERNAL,
    EmbeddingSpace,
    EmbeddingSpaces,
    SpaceState,
    external_name,
)
from .scripts import reading, run, writing
from .session import Database, Transaction

Answer = TypeVar("Answer")
ATTEMPTS = 20


class SqlEmbeddingSpaces(EmbeddingSpaces):
    """The embedding spaces of one database, by transaction scripts."""

    def __init__(self, database: Database) -> None:
        self.database = self.reads = database
        self._dimensions: dict[int, int] = {}
        self._making = asyncio.Lock()  # of this process; others may be first all the same

    async def dimensions_of(self, space_number: int) -> int:
        """Return the width of an embedding space.

        Raises:
            InvalidInput: there is none of this number.
        """
        if space_number not in self._dimensions:
            self._dimensions.update((one.number, one.dimensions) for one in await self.all())
        if space_number not in self._dimensions:
            raise InvalidInput(f"There is no embedding space {space_number} here.")
        return self._dimensions[space_number]

    async def searched(self, space_number: int, found: Awaitable[Answer]) -> Answer:
        """Return what a search of an embedding space's vectors finds.

        Raises:
            InvalidInput: another process has dropped it.
        """
        try:
            return await found
        except StoreError as error:
            if any(one.number == space_number for one in await self.all()):
                raise
            raise InvalidInput(
                f"There is no embedding space {space_number} here any more."
            ) from error

    @override
    @reading
    async def all(self, session: Transaction) -> Sequence[EmbeddingSpace]:
        return await embedding_spaces(session)

    @override
    async def add(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        async def found_or_made() -> EmbeddingSpace | None:
            present = _found(await self.all(), name, dimensions)
            script = partial(_made, name=name, dimensions=dimensions, probe=probe)
            return present or await run(self.database, script, write=True)

        return await self._registered(found_or_made)

    async def _registered(self, register: Callable[[], Awaitable[Answer | None]]) -> Answer:
        """Return what `register` gives at last, however many processes register others at the same
        time.
        """

        async def once() -> Answer | None:
            async with self._making:
                return await register()

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda made: made is None),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.01, max=0.2),
        )
        try:
            return await retrying(once)
        except RetryError as error:
            raise StoreError(
                "Several processes are registering embedders or vector widths at the same time; "
                "try again."
            ) from error

    @override
    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        async def noted() -> Sequence[int] | None:
            widths = await self._widths(tenant)
            if dimensions in widths or len(widths) >= most:
                return widths
            await self._take_width(tenant, dimensions, most)
            return None

        return await self._registered(noted)

    @reading
    async def _widths(self, session: Transaction, tenant: str) -> Sequence[int]:
        return [row["dimensions"] for row in await session.rows("widths", tenant=tenant)]

    @writing
    async def _take_width(
        self, session: Transaction, tenant: str, dimensions: int, most: int
    ) -> None:
        await session.run("note_width", tenant=tenant, dimensions=dimensions, most=most)

    @override
    async def replace(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        return await self._registered(lambda: self._begun(name, dimensions, probe))

    @writing
    async def _begun(
        self, session: Transaction, name: str, dimensions: int, probe: Vector | None
    ) -> EmbeddingSpace | None:
        known = await embedding_spaces(session)
        replaced = any(
            one.state == "current" and not one.name.startswith(EXTERNAL) for one in known
        )
        space = _found(known, name, dimensions)
        if space is None:
            state: SpaceState = "filling" if replaced else "current"
            space = await _made(session, name, dimensions, probe, state)
        if space is None:
            return None
        if space.state != "current":
            await session.run("fill_embedding_space", number=space.number)
        if not replaced:
            await _finish_replacing(session, space.number)
        return _found(await embedding_spaces(session), name, dimensions)

    @override
    @writing
    async def finish_replacing(self, session: Transaction, number: int) -> None:
        await _finish_replacing(session, number)

    @override
    async def drop_retired(self) -> Sequence[str]:
        if dropped := await self._drop_retired():
            await self.database.erase()
        return dropped

    @writing
    async def _drop_retired(self, session: Transaction) -> Sequence[str]:
        retired = [one for one in await embedding_spaces(session) if one.state == "retired"]
        for one in retired:
            await session.run("mark_dropped", number=one.number)
            await session.session.drop_vectors(one.number)
        return [one.name for one in retired]


async def embedding_spaces(session: Transaction) -> Sequence[EmbeddingSpace]:
    """Return all embedding spaces but the dropped ones, oldest first."""
    return [
        EmbeddingSpace(
            number=row["number"],
            name=row["name"],
            dimensions=row["dimensions"],
            probe=None if row["probe"] is None else np.frombuffer(row["probe"], "<f4"),
            state=row["state"],
        )
        for row in await session.rows("embedding_spaces")
    ]


async def erase_vectors(
    session: Transaction, statement: str = "erase_vectors", *, ids: Sequence[str] = ()
) -> None:
    """Run a statement that erases vectors in every embedding space."""
    for row in await session.rows("embedding_spaces"):
        await session.send(statement, row["number"], ids=ids)


async def require_space(session: Transaction, number: int) -> None:
    """Raise InvalidInput where there is no embedding space of this number."""
    if all(one.number != number for one in await embedding_spaces(session)):
        raise InvalidInput(f"There is no embedding space {number} here.")


async def release_widths(session: Transaction) -> None:
    """Forget the widths of which a tenant keeps no vectors."""
    for one in await embedding_spaces(session):
        if one.name == external_name(one.dimensions):
            width = one.dimensions
            kept = await session.rows("tenants_of_width", one.number, dimensions=width)
            tenants = [row["tenant"] for row in kept]
            await session.run("release_widths", dimensions=width, tenants=tenants)


def _found(known: Sequence[EmbeddingSpace], name: str, dimensions: int) -> EmbeddingSpace | None:
    return next((one for one in known if (one.name, one.dimensions) == (name, dimensions)), None)


async def _made(
    session: Transaction,
    name: str,
    dimensions: int,
    probe: Vector | None,
    state: SpaceState = "current",
) -> EmbeddingSpace | None:
    """Return a new embedding space with its table; None when somebody else added one at the same
    time.
    """
    packed = None if probe is None else np.asarray(probe, "<f4").tobytes()
    values = {"name": name, "dimensions": dimensions, "probe": packed, "state": state}
    if not await session.run("insert_embedding_space", **values):
        return None
    space = _found(await embedding_spaces(session), name, dimensions)
    if space is not None:
        await session.session.make_vectors(space)
    return space


async def _finish_replacing(session: Transaction, number: int) -> None:
    if not await session.run("finish_embedding_space", number=number):
        raise Conflict(
            "Another embedder was chosen meanwhile to replace the current one; nothing was changed."
        )
    await session.run("retire_embedding_spaces", number=number)
