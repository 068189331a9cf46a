"""The embedding spaces of a store, and the checks of vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ..errors import ConfigurationError, InvalidInput
from ..records import Vector, scaled

SpaceState: TypeAlias = Literal["current", "filling", "retired"]
EXTERNAL = "external-"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """The vectors of one embedder.

    Attributes:
        number: the number in the name of its table.
        probe: the embedder's vector of a fixed text.
        state: "current": searches use its vectors; "filling": they are being made to replace the
            current ones; "retired": they were replaced.
    """

    number: int
    name: str
    dimensions: int
    probe: Vector | None = None
    state: SpaceState = "current"


class EmbeddingSpaces(ABC):
    """The embedders whose vectors a store keeps. The verbs cross scopes.

    Without its own verbs for `Memories.reembed`, that is refused with ConfigurationError.
    """

    @abstractmethod
    async def all(self) -> Sequence[EmbeddingSpace]:
        """Return all embedding spaces, oldest first."""

    async def dimensions_of(self, number: int) -> int:
        """Return the dimensions of the embedding space of a number.

        Raises:
            InvalidInput: there is none.
        """
        for space in await self.all():
            if space.number == number:
                return space.dimensions
        raise InvalidInput(f"There is no embedding space {number} here.")

    @abstractmethod
    async def add(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """Return the embedding space of this name and width; create it and its table if needed."""

    async def replace(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """Return the embedding space of this name and width; create it if needed.

        It is "filling" beside the current one until `finish_replacing`, or "current" at once if
        there is none; another one that was filling is retired. From then on, vectors written into
        one of the two queue an `embed_job` for the other.
        """
        raise refused(self, "replace")

    async def finish_replacing(self, number: int) -> None:
        """Make an embedding space current, and retire the others except callers' own.

        Raises:
            Conflict: it is retired, because another replacement began meanwhile.
        """
        raise refused(self, "finish_replacing")

    async def drop_retired(self) -> Sequence[str]:
        """Drop the retired embedding spaces with their vectors, and return their names. Searching
        one then raises InvalidInput, and vectors written to it are left out.
        """
        raise refused(self, "drop_retired")


def refused(part: object, capability: str) -> ConfigurationError:
    """Return the error for a verb that a third-party store lacks."""
    return ConfigurationError(
        f"{type(part).__name__} cannot do this: it has no `{capability}` of its own."
    )


def external_name(dimensions: int) -> str:
    """Return the name of the embedding space of callers' own vectors of this width."""
    return f"{EXTERNAL}{dimensions}"


def checked_vector(vector: object, dimensions: int | None) -> Vector:
    """Check a vector, and return it scaled by `records.scaled`; see `checked_vectors`."""
    return checked_vectors([vector], dimensions)[0]


def checked_vectors(vectors: Sequence[object], dimensions: int | None) -> Sequence[Vector]:
    """Check vectors of one width, and return them scaled by `records.scaled`.

    Raises:
        InvalidInput: one is no flat sequence of numbers, has another length, or is NaN, infinite or
            zero.
    """
    if not vectors:
        return ()
    try:
        array = np.asarray(vectors)
        if array.dtype.kind not in "fiuO":
            raise TypeError
        numbers = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("A vector must be a flat sequence of numbers.") from error
    if numbers.ndim != 2 or dimensions not in (None, numbers.shape[1]):
        raise InvalidInput(
            f"The vector has shape {numbers.shape[1:]}; {dimensions or 'one'} dimension(s) are "
            "expected."
        )
    if not np.isfinite(numbers).all():
        raise InvalidInput("The vector holds NaN or infinite numbers.")
    if not numbers.any(axis=1).all():
        raise InvalidInput("The vector is zero; a direction is needed.")
    return [*scaled(numbers)]
