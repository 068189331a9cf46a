"""What the verbs share: one store, its models, and the work beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import InvalidInput, NotFound
from ..ingest import Intake, Steps, Worker
from ..keeping import Deliveries
from ..lifecycle import ImportanceWeights
from ..records import Memory, Scope, Vector
from ..seek import Seeker
from ..settings import MemorySettings
from ..stores.base import Generation, MemoryStore, checked_vector
from ..vectors import EXTERNAL, Vectors

LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """The time now, aware UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of one `Memories`.

    Attributes:
        location: the URI without password and query, for people and traces.
        vectors: the embedder; None: keyword mode.
        redact: masks secrets before anything else sees a text.
        clock: the time now (aware UTC).
        weights: of the importance formula.
    """

    store: MemoryStore
    settings: MemorySettings
    location: str
    vectors: Vectors | None
    seeker: Seeker
    intake: Intake
    steps: Steps
    worker: Worker
    deliveries: Deliveries
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    weights: ImportanceWeights

    async def generation_for(self, name: str | None, vector: Vector) -> Generation:
        """The generation that a caller's own vectors are kept in, made when it is an external one and new.

        Raises:
            InvalidInput: no such generation, the vector does not fit it, or it would begin a second external one
                without naming it.
        """
        held = await self.generation(name, vector)
        return held or await self.store.add_generation(name or f"{EXTERNAL}{len(vector)}", len(vector), None)

    async def visible(self, scope: Scope, id: str) -> Memory:
        """One visible memory.

        Raises:
            NotFound: no such memory.
        """
        found = await self.store.get(scope, [id], now=self.clock())
        if id not in found:
            raise NotFound(f"No memory {id} in this scope.")
        return found[id]

    async def generation(self, name: str | None, vector: Vector) -> Generation | None:
        """The generation that a caller's own vector belongs to; None when it is an external one still to be made.

        Raises:
            InvalidInput: as `generation_for`.
        """
        wanted = name or f"{EXTERNAL}{len(vector)}"
        known = {held.name: held for held in await self.store.generations()}
        if wanted in known:
            checked_vector(vector, known[wanted].dimensions)
            return known[wanted]
        if not wanted.startswith(EXTERNAL):
            raise InvalidInput(f"No generation {wanted!r} in this store; vectors of your own go into {EXTERNAL!r}….")
        others = [held for held in known if held.startswith(EXTERNAL)]
        if others and name is None:
            raise InvalidInput(
                f"The vector has {len(vector)} dimensions, and this store holds {', '.join(others)}; bring vectors of "
                f"that width, or begin another generation by generation={wanted!r}."
            )
        return None
