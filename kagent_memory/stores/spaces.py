"""The embedding spaces of a store: whose vectors it keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ..errors import ConfigurationError
from ..records import Vector
from .values import EmbeddingSpace


class EmbeddingSpaces(ABC):
    """The embedders whose vectors a store keeps. The verbs cross scopes.

    One that has no verbs of its own for `Memories.reembed` cannot be embedded anew:
    ConfigurationError.
    """

    @abstractmethod
    async def all(self) -> Sequence[EmbeddingSpace]:
        """Return all embedders that ever wrote here, oldest first."""

    @abstractmethod
    async def add(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """Return the embedding space of this name and width, made (with its table) if it is new."""

    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        """Note that callers of a tenant keep vectors of their own of this width, unless `most`
        others are noted already (with 0 it only reads); return the widths noted. The prune forgets
        those of which the tenant keeps none. Safe with two at once.
        """
        raise self._refused("note_width")

    async def replace(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """Return the embedding space of this name and width, made if it is new: "filling" beside
        the current one until `finish_replacing`, "current" at once where there is none; another
        that was filling is retired. Whatever is then written into one that is, or was, to be
        replaced queues an `embed_job` with the other's name.
        """
        raise self._refused("replace")

    async def finish_replacing(self, number: int) -> None:
        """Make an embedding space current and retire the others but callers' own, all at once.

        Raises:
            Conflict: it is retired: another replacement was begun meanwhile.
        """
        raise self._refused("finish_replacing")

    async def drop_retired(self) -> Sequence[str]:
        """Drop the retired embedding spaces with their vectors; return their names. A search of one
        is InvalidInput from then on, and vectors written to it are left out.
        """
        raise self._refused("drop_retired")

    def _refused(self, capability: str) -> ConfigurationError:
        return ConfigurationError(
            f"{type(self).__name__} has no `{capability}`, which embedding anew needs."
        )
