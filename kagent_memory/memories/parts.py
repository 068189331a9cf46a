"""What the verbs share: one store, its models, and the work beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ..errors import InvalidInput
from ..ingest import Intake, Steps, Worker
from ..keeping import Deliveries
from ..records import Vector
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

    async def generation(self, name: str | None, vector: Vector) -> Generation:
        """The generation that a caller's own vector belongs to, made when it is an external one and new.

        Raises:
            InvalidInput: no such generation, or the vector does not fit it.
        """
        name = name or f"{EXTERNAL}{len(vector)}"
        for held in await self.store.generations():
            if held.name == name:
                checked_vector(vector, held.dimensions)
                return held
        if not name.startswith(EXTERNAL):
            raise InvalidInput(f"No generation {name!r} in this store; vectors of your own go into {EXTERNAL!r}….")
        return await self.store.add_generation(name, len(vector), None)
