"""The embedding spaces of a store: whose vectors it keeps, and what a vector must be."""

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
    """The vectors of one embedder: `number` names its table, `probe` is its answer to a fixed text.

    Attributes:
        state: whether searches go by them ("current"), or they are made beside the current ones,
            which they are to replace ("filling"), or were replaced ("retired").
    """

    number: int
    name: str
    dimensions: int
    probe: Vector | None = None
    state: SpaceState = "current"


class EmbeddingSpaces(ABC):
    """The embedders whose vectors a store keeps. The verbs cross scopes.

    One that has no verbs of its own for `Memories.reembed` cannot be embedded anew:
    ConfigurationError.
    """

    @abstractmethod
    async def all(self) -> Sequence[EmbeddingSpace]:
        """Return all embedders that ever wrote here, oldest first."""

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
        """Return the embedding space of this name and width, made (with its table) if it is new."""

    async def replace(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """Return the embedding space of this name and width, made if it is new: "filling" beside
        the current one until `finish_replacing`, "current" at once where there is none; another
        that was filling is retired. Whatever is then written into one that is, or was, to be
        replaced queues an `embed_job` with the other's name.
        """
        raise refused(self, "replace")

    async def finish_replacing(self, number: int) -> None:
        """Make an embedding space current and retire the others but callers' own, all at once.

        Raises:
            Conflict: it is retired: another replacement was begun meanwhile.
        """
        raise refused(self, "finish_replacing")

    async def drop_retired(self) -> Sequence[str]:
        """Drop the retired embedding spaces with their vectors; return their names. A search of one
        is InvalidInput from then on, and vectors written to it are left out.
        """
        raise refused(self, "drop_retired")


def refused(part: object, capability: str) -> ConfigurationError:
    """Return the error for a verb that a store of others lacks."""
    return ConfigurationError(
        f"{type(part).__name__} cannot do this: it has no `{capability}` of its own."
    )


def external_name(dimensions: int) -> str:
    """Return the name of the embedding space that holds callers' own vectors of this width, whoever
    they are.
    """
    return f"{EXTERNAL}{dimensions}"


def checked_vector(vector: object, dimensions: int | None) -> Vector:
    """Return a finite, non-zero vector, as `records.scaled` makes it.

    Raises:
        InvalidInput: no flat sequence of numbers, another length, NaN or infinite, or zero.
    """
    try:
        array = np.asarray(vector)
        if array.dtype.kind not in "fiuO":
            raise TypeError
        numbers = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput("A vector must be a flat sequence of numbers.") from error
    if numbers.ndim != 1 or (dimensions is not None and numbers.shape[0] != dimensions):
        raise InvalidInput(
            f"The vector has shape {numbers.shape}; {dimensions or 'one'} dimension(s) are "
            "expected."
        )
    if not np.isfinite(numbers).all():
        raise InvalidInput("The vector holds NaN or infinite numbers.")
    if not numbers.any():
        raise InvalidInput("The vector is zero; a direction is needed.")
    return scaled(numbers)
