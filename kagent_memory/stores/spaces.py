"""The embedding spaces of a store, and what it needs so that another embedder's vectors can replace those it has."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from ..errors import ConfigurationError
from ..records import Scope, Vector
from .queue_and_tokens import Opened
from .values import EmbeddingSpace

_NOT_REPLACED = "This store cannot be embedded anew; it needs `replace_embedding_space` and its like of its own."


class EmbeddingSpaces(Opened):
    """The embedders whose vectors a store keeps. One that has no verbs of its own for `Memories.reembed` cannot be
    embedded anew: ConfigurationError.
    """

    @abstractmethod
    async def embedding_spaces(self) -> Sequence[EmbeddingSpace]:
        """All embedders that ever wrote here, oldest first. Crosses scopes."""

    @abstractmethod
    async def add_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """The embedding space of this name and width, made (with its table) if it is new. Crosses scopes."""

    @abstractmethod
    async def note_width(self, tenant: str, dimensions: int, *, most: int) -> Sequence[int]:
        """Notes that callers of a tenant keep vectors of their own of this width, unless `most` others are noted
        already (with 0 it only reads); gives the widths noted. The prune forgets those of which the tenant keeps none.
        Safe with two at once. Crosses scopes.
        """

    async def keeps_short_term(self) -> bool:
        """Whether searches that name a session must ask for its short-term memories, though none are made any more.
        Crosses scopes.
        """
        return True

    async def replace_embedding_space(self, name: str, dimensions: int, probe: Vector | None) -> EmbeddingSpace:
        """The embedding space of this name and width, made if it is new: "filling" beside the current one until
        `finish_replacing`, "current" at once where there is none; another that was filling is retired. Whatever is then
        written into one that is, or was, to be replaced queues an `embed_job` with the other's name. Crosses scopes.
        """
        raise ConfigurationError(_NOT_REPLACED)

    async def finish_replacing(self, number: int) -> None:
        """Makes an embedding space current and retires the others but callers' own, all at once. Crosses scopes.

        Raises:
            Conflict: it is retired: another replacement was begun meanwhile.
        """
        raise ConfigurationError(_NOT_REPLACED)

    async def drop_retired(self) -> Sequence[str]:
        """Drops the retired embedding spaces with their vectors, and gives their names. A search of one is InvalidInput
        from then on, and vectors written to it are left out. Crosses scopes.
        """
        raise ConfigurationError(_NOT_REPLACED)

    @abstractmethod
    async def vectors(self, scope: Scope, space_number: int, ids: Sequence[str]) -> Mapping[str, Vector]:
        """The vectors of these memories of a scope as they are kept, float32, by id; those without one are left out.

        Raises:
            InvalidInput: there is no embedding space of this number.
        """
