"""Finds what a new fact may meet in its scope, and turns the decisions about it into one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from ..lifecycle import to_memory
from ..llm import Llm
from ..records import Change, Fact, Scope
from ..settings import MemorySettings
from ..stores.base import Batch, MemoryStore
from ..vectors import Vectors, with_vectors


class Consolidation:
    """Plans how new facts enter a scope."""

    def __init__(
        self,
        store: MemoryStore,
        vectors: Vectors | None,
        *,
        settings: MemorySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._vectors = vectors
        self._settings = settings
        self._clock = clock

    async def plan(self, scope: Scope, facts: Sequence[Fact], *, session_id: str, llm: Llm | None) -> Batch:
        """The batch that takes the facts in, planned on the scope's version as it is now."""
        now = self._clock()
        version = await self._store.version(scope)
        changes = [
            Change(
                kind="add",
                memory=to_memory(
                    replace(fact, session_id=fact.session_id or session_id), now=now, ttl_days=self._settings.ttl_days
                ),
                event_ids=fact.event_ids,
            )
            for fact in facts
        ]
        batch = Batch(changes=changes, expected_version=version)
        return await with_vectors(self._vectors, scope, batch, now)

    async def merges(self, scope: Scope, llm: Llm | None) -> Batch:
        """The batch that merges what says the same."""
        return Batch()
