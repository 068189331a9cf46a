"""What the verbs share: one store, its models, and the work beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from ..errors import InvalidInput, NotFound
from ..ingestion import Enqueuer, JobHandlers, Providers, Worker
from ..records import Memory, Scope, Vector
from ..retention.deliveries import Deliveries
from ..retrieval.embedding_spaces import StoreEmbedder
from ..retrieval.ranking.importance import ImportanceWeights
from ..retrieval.retriever import Retriever
from ..settings import MemorySettings
from ..settings.kagent_config import DIMENSIONS
from ..stores.base import EXTERNAL, EmbeddingSpace, Store, external_name

MOST_WIDTHS = 8  # of vectors of their own that the callers of one tenant keep, each a table; kagent's aside
MOST_NOTED = 10_000


def utc_now() -> datetime:
    """The time now, aware UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The parts of one `Memories`.

    Attributes:
        location: the URI without password and query, for people and traces.
        vectors: the embedder; None: keyword mode.
        redact: masks secrets before anything else sees a text.
        clock: the time now (aware UTC).
        weights: of the importance formula.
        noted: the widths that tenants' callers keep vectors of, as far as this process has asked.
    """

    store: Store
    settings: MemorySettings
    location: str
    vectors: StoreEmbedder | None
    retriever: Retriever
    providers: Providers
    intake: Enqueuer
    steps: JobHandlers
    worker: Worker
    deliveries: Deliveries
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    weights: ImportanceWeights
    noted: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    async def get(self, scope: Scope, id: str, *, superseded: bool = False) -> Memory:
        """One memory that is visible, or also one that was superseded, which has a history to look at.

        Raises:
            NotFound: no such memory, or it has expired.
        """
        found = await self.store.get(scope, [id], now=self.clock(), superseded=superseded)
        if id not in found:
            raise NotFound(f"No memory {id} in this scope.")
        return found[id]

    async def generation_for(self, scope: Scope, name: str | None, vector: Vector) -> EmbeddingSpace:
        """The generation that a caller's own vectors are kept in, made when it is an external one and new.

        Raises:
            InvalidInput: as `generation`; or the tenant keeps vectors of too many other widths.
        """
        held, width = await self.generation(scope, name, vector), len(vector)
        if held is not None and held.name != external_name(width):
            return held
        if width != DIMENSIONS and (scope.tenant, width) not in self.noted:
            widths = await self.store.note_width(scope.tenant, width, most=MOST_WIDTHS)
            if width not in widths:
                raise InvalidInput(
                    f"Vectors of {', '.join(map(str, widths))} dimensions are kept here, and of no further width; this "
                    f"one has {width}. Forget what you no longer need: the next prune makes room."
                )
            if len(self.noted) >= MOST_NOTED:
                self.noted.clear()
            self.noted.add((scope.tenant, width))
        return held or await self.store.add_generation(external_name(width), width, None)

    async def generation(self, scope: Scope, name: str | None, vector: Vector) -> EmbeddingSpace | None:
        """The generation that a caller's own vector belongs to; None when it is an external one still to be made.

        Raises:
            InvalidInput: there is no generation of this name and the vector's width; or without a name, this scope
                holds callers' vectors of other widths only.
        """
        width, known = len(vector), await self.store.generations()
        wanted = name or external_name(width)
        found = next((held for held in known if (held.name, held.dimensions) == (wanted, width)), None)
        if wanted == external_name(width):
            if name is None:
                await self._check_width(scope, found, width, [held for held in known if held.name.startswith(EXTERNAL)])
            return found
        # a name of that form says how wide its vectors are, whatever is kept under it
        if found is None or (wanted.startswith(EXTERNAL) and wanted.removeprefix(EXTERNAL).isdecimal()):
            raise InvalidInput(
                f"No generation {wanted!r} holds vectors of {width} dimensions. Vectors of your own are kept by their "
                f"width, as {external_name(width)!r}."
            )
        return found

    async def _check_width(
        self, scope: Scope, own: EmbeddingSpace | None, width: int, known: Sequence[EmbeddingSpace]
    ) -> None:
        others = [held for held in known if held is not own]
        if not others or (own is not None and await self._holds(scope, own)):
            return
        for held in others:
            if await self._holds(scope, held):
                raise InvalidInput(
                    f"The vector has {width} dimensions, and those here have {held.dimensions}; pass vectors of that "
                    f"width, or start others with generation={external_name(width)!r}."
                )

    async def _holds(self, scope: Scope, held: EmbeddingSpace) -> bool:
        anywhere = [np.ones(held.dimensions, np.float32)]
        [found] = await self.store.search_vector(scope, held.number, anywhere, limit=1, now=self.clock())
        return bool(found)
