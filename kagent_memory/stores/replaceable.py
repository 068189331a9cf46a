"""What a store needs so that another embedder's vectors can replace those that it has."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigurationError
from ..records import Vector
from .values import EmbeddingSpace

_NOT_REPLACED = "This store cannot be embedded anew; it needs `replace_embedding_space` and its like of its own."


class Replaceable:
    """The verbs of `Memories.reembed`. A store that has none of its own cannot be embedded anew: ConfigurationError."""

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
