"""The embedding spaces of an SQL store: their tables are made, replaced and dropped, safely with several at once."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_attempt, wait_random_exponential
from typing_extensions import override

from ...errors import InvalidInput, StoreError
from ...records import Vector
from ..base import EXTERNAL, EmbeddingSpace, Store, checked_vector
from ..values import SpaceState
from . import maintenance
from .session import Database, Session

AnySession = TypeVar("AnySession", bound=Session)
Answer = TypeVar("Answer")
ATTEMPTS = 20


class SpaceStore(Store, Generic[AnySession]):
    """What an `SqlStore` does for its embedding spaces."""

    def __init__(self, database: Database[AnySession]) -> None:
        self._database = database
        self._dimensions: dict[int, int] = {}
        self._making = asyncio.Lock()  # of this process; others may be first all the same

    @abstractmethod
    async def _make_vectors(self, session: AnySession, space: EmbeddingSpace) -> None:
        """Makes the table of a new embedding space's vectors."""

    @abstractmethod
    async def _drop_vectors(self, session: AnySession, number: int) -> None:
        """Drops the table of an embedding space's vectors, in the transaction that marks it as dropped."""

    async def _dimensions_of(self, space_number: int) -> int:
        if space_number not in self._dimensions:
            self._dimensions.update((one.number, one.dimensions) for one in await self.embedding_spaces())
        if space_number not in self._dimensions:
            raise InvalidInput(f"There is no embedding space {space_number} here.")
        return self._dimensions[space_number]

    async def _searched(self, space_number: int, found: Awaitable[Answer]) -> Answer:
        """What a search of one embedding space's vectors finds, which another process may have dropped."""
        try:
            return await found
        except StoreError as error:
            if any(one.number == space_number for one in await self.embedding_spaces()):
                raise
            raise InvalidInput(f"There is no embedding space {space_number} here any more.") from error

    async def checked_vectors(self, space_number: int, vectors: Sequence[Vector]) -> Sequence[Vector]:
        """Return the vectors as they are kept.

        Raises:
            InvalidInput: one does not fit the embedding space, or there is none of this number.
        """
        dimensions = await self._dimensions_of(space_number)
        return [checked_vector(vector, dimensions) for vector in vectors]

    @override
    async def embedding_spaces(self) -> Sequence[EmbeddingSpace]:
        return await self._database.read(maintenance.embedding_spaces)

    @override
    async def add_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        async def found_or_made() -> EmbeddingSpace | None:
            present = maintenance.found(await self.embedding_spaces(), name, dimensions)
            return present or await self._database.write(self._made, name, dimensions, probe)

        return await self._registered(found_or_made)

    async def _registered(self, register: Callable[[], Awaitable[EmbeddingSpace | None]]) -> EmbeddingSpace:
        """Return what `register` gives at last, however many processes register others at the same time."""

        async def once() -> EmbeddingSpace | None:
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
            raise StoreError("Several processes are registering embedders at the same time; try again.") from error

    async def _made(
        self,
        session: AnySession,
        name: str,
        dimensions: int,
        probe: Vector | None,
        state: SpaceState = "current",
    ) -> EmbeddingSpace | None:
        space = await maintenance.insert_embedding_space(session, name, dimensions, probe, state)
        if space is not None:
            await self._make_vectors(session, space)
        return space

    @override
    async def replace_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        return await self._registered(lambda: self._database.write(self._begun, name, dimensions, probe))

    async def _begun(
        self, session: AnySession, name: str, dimensions: int, probe: Vector | None
    ) -> EmbeddingSpace | None:
        known = await maintenance.embedding_spaces(session)
        replaced = any(one.state == "current" and not one.name.startswith(EXTERNAL) for one in known)
        space = maintenance.found(known, name, dimensions)
        if space is None:
            space = await self._made(session, name, dimensions, probe, "filling" if replaced else "current")
        if space is None:
            return None
        if space.state != "current":
            await session.run("fill_embedding_space", {"number": space.number})
        if not replaced:
            await maintenance.finish_replacing(session, space.number)
        return maintenance.found(await maintenance.embedding_spaces(session), name, dimensions)

    @override
    async def finish_replacing(self, number: int) -> None:
        await self._database.write(maintenance.finish_replacing, number)

    @override
    async def drop_retired(self) -> Sequence[str]:
        return await self._database.write(self._dropped)

    async def _dropped(self, session: AnySession) -> Sequence[str]:
        retired = [one for one in await maintenance.embedding_spaces(session) if one.state == "retired"]
        for one in retired:
            await session.run("mark_dropped", {"number": one.number})
            await self._drop_vectors(session, one.number)
        return [one.name for one in retired]
