"""Memories that a search looks through beside or instead of what the store searches: those of some scopes as they were
at a time, from what is kept of them now and the history of each, and the short-term memories of one session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import numpy as np

from ..concurrency import run_in_thread
from ..errors import InvalidInput, ModelError
from ..records import Filter, Memory, Scope, Vector
from ..stores.base import EARLIEST, MemoryStore, Order, Page, RankFeatures, TextMatches
from ..stores.planning import postings_of
from ..stores.text_index import Entry, ScopeIndex
from ..stores.values import Whole, rank_features
from .embedding_spaces import StoreEmbedder
from .ranking import matches_filter

logger = logging.getLogger(__name__)

MOST_MEMORIES = 50_000
MAX_SHORT_TERM = 50  # of one session; the oldest go first
READ_AT_ONCE = 500
ROW_WEIGHT = 100  # of looking at one memory, against a character of what else is worked on in a thread
REWORDED_AT_MOST = 1000  # are embedded anew for one search; the others are found by words

Nearest = list[tuple[str, float]]


def state_at(whole: Whole, at: datetime) -> Memory | None:
    """Return a memory as it held at a time, with today's usage; None before it was first said.

    What was taken in later than it was said held from then on, and what replaced another value did
    so when it was said.
    """
    today = whole.memory
    states = [one.before for one in whole.revisions if one.before is not None] or [today]
    if at < min(one.valid_from or one.said_at or one.created_at for one in (*states, today)):
        return None
    former = next((one for one in whole.revisions if one.at > at), None)
    memory = (today if former is None else former.before) or states[0]
    if today.state == "superseded" and today.valid_to is not None and memory.state in ("active", "superseded"):
        memory = replace(memory, state="active" if at < today.valid_to else "superseded")
    return replace(memory, usage=today.usage)


@dataclass(frozen=True, slots=True)
class ShortTerm:
    """Whose short-term memories a search finds."""

    session_id: str

    def among(self, memories: Iterable[Memory], now: datetime) -> Mapping[str, Memory]:
        """Those of them, by their ids and as if they were active."""
        own = (one for one in memories if one.state == "short_term" and one.session_id == self.session_id)
        alive = [one for one in own if one.pinned or one.expires_at is None or one.expires_at > now]
        alive.sort(key=lambda one: (one.created_at, one.id), reverse=True)
        return {one.id: replace(one, state="active") for one in alive[:MAX_SHORT_TERM]}


@dataclass(frozen=True, slots=True)
class _PastScope:
    """One scope as it was.

    Attributes:
        reworded: the ids of those that say something else today, so that their vectors are gone.
        short_term: the ids of those that are short-term memories in truth.
    """

    memories: Mapping[str, Memory]
    reworded: frozenset[str]
    index: ScopeIndex
    short_term: frozenset[str] = frozenset()

    async def passing(self, filter: Filter, now: datetime) -> list[Memory]:
        """Those that readers saw then and that the filter lets through, newest first."""

        def found() -> list[Memory]:
            seen = (one for one in self.memories.values() if self.is_seen(one, filter, now))
            return sorted(seen, key=lambda one: (one.created_at, one.id), reverse=True)

        return await run_in_thread(ROW_WEIGHT * len(self.memories), found)

    @staticmethod
    def is_seen(memory: Memory, filter: Filter, now: datetime) -> bool:
        alive = memory.pinned or memory.expires_at is None or memory.expires_at > now
        return alive and (memory.state == "active" or bool(filter.superseded)) and matches_filter(filter, memory)


class PastMemories:
    """What a search reads of scopes as they were at a time; every verb takes that time as its `now`.

    Forgotten and pruned memories are gone for good, for the past too.
    """

    def __init__(self, store: MemoryStore, embedder: StoreEmbedder | None, scopes: Mapping[Scope, _PastScope]) -> None:
        self._store, self._embedder, self._scopes = store, embedder, scopes

    @classmethod
    async def short_term(cls, store: MemoryStore, scope: Scope, memories: Sequence[Memory]) -> PastMemories:
        """Of a scope these short-term memories and nothing else, as if they were active."""
        found = {memory.id: replace(memory, state="active") for memory in memories}
        index = await run_in_thread(sum(len(memory.content) for memory in memories), _indexed, list(found.values()))
        return cls(store, None, {scope: _PastScope(found, frozenset(), index, frozenset(found))})

    @classmethod
    async def at(
        cls,
        store: MemoryStore,
        embedder: StoreEmbedder | None,
        scopes: Sequence[Scope],
        at: datetime,
        *,
        session: ShortTerm | None = None,
    ) -> PastMemories:
        """Reads the scopes with the history of all their memories; those that were the session's count as active.

        Raises:
            InvalidInput: they hold too many memories for that.
        """
        past: dict[Scope, _PastScope] = {}
        read = 0
        for scope in scopes:
            ids = await store.kept(scope, Filter())
            if (read := read + len(ids)) > MOST_MEMORIES:
                raise InvalidInput(
                    f"A search of the past reads at most {MOST_MEMORIES:,} memories, and these scopes keep more; name "
                    "fewer."
                )
            found: list[tuple[Memory, bool]] = []
            for start in range(0, len(ids), READ_AT_ONCE):
                for whole in await store.whole(scope, ids[start : start + READ_AT_ONCE]):
                    if (memory := state_at(whole, at)) is not None:
                        today = whole.memory
                        found.append((memory, (memory.content, memory.author) != (today.content, today.author)))
            memories = {memory.id: memory for memory, _ in found}
            own = session.among(memories.values(), at) if session else dict[str, Memory]()
            memories |= own
            size = sum(len(memory.content) for memory in memories.values())
            index = await run_in_thread(size, _indexed, list(memories.values()))
            reworded = frozenset(memory.id for memory, other in found if other)
            past[scope] = _PastScope(memories, reworded, index, frozenset(own))
        return cls(store, embedder, past)

    async def search_text(
        self, scope: Scope, terms: Sequence[str], *, limit: int, filter: Filter = Filter(), now: datetime
    ) -> TextMatches:
        """See `MemoryStore`."""
        past = self._scopes[scope]
        passing = [memory.id for memory in await past.passing(filter, now)]

        def found() -> TextMatches:
            visible = past.index.visible(now, superseded=bool(filter.superseded), among=passing)
            return replace(past.index.search(terms, visible, limit), passing=passing)

        return await run_in_thread(ROW_WEIGHT * len(passing), found)

    async def search_texts(
        self, scope: Scope, queries: Sequence[Sequence[str]], *, limit: int, filter: Filter = Filter(), now: datetime
    ) -> Sequence[TextMatches]:
        """See `MemoryStore`."""
        return [await self.search_text(scope, terms, limit=limit, filter=filter, now=now) for terms in queries]

    async def search_known(
        self,
        scope: Scope,
        terms: Sequence[str],
        *,
        limit: int,
        filter: Filter = Filter(),
        seen: TextMatches | None = None,
        now: datetime,
    ) -> TextMatches | None:
        """See `MemoryStore`."""
        return None

    async def nearest_known(
        self, scope: Scope, space_number: int, vectors: Sequence[Vector], *, limit: int, version: int, now: datetime
    ) -> tuple[list[Nearest], int] | None:
        """See `MemoryStore`."""
        return None

    async def search_vector(
        self,
        scope: Scope,
        space_number: int,
        vectors: Sequence[Vector],
        *,
        limit: int,
        filter: Filter = Filter(),
        version: int | None = None,
        passing: Sequence[str] | None = None,
        now: datetime,
    ) -> list[Nearest]:
        """See `MemoryStore`; what was reworded since is embedded anew, as it was."""
        past = self._scopes[scope]
        seen = [memory.id for memory in await past.passing(filter, now)] if passing is None else passing
        same = {id for id in seen if id not in past.reworded}
        found = await self._unchanged(scope, space_number, vectors, same, limit)
        reworded = [past.memories[id] for id in sorted(seen) if id in past.reworded][-REWORDED_AT_MOST:]
        others = await self._reworded(scope, space_number, vectors, reworded)
        both = (one + more for one, more in zip(found, others, strict=True))
        merged = [sorted(hits, key=lambda hit: (hit[1], hit[0]), reverse=True) for hits in both]
        return [one[:limit] for one in merged]

    async def _unchanged(
        self, scope: Scope, space_number: int, vectors: Sequence[Vector], ids: set[str], limit: int
    ) -> list[Nearest]:
        """The nearest of memories that say today what they said then, so that their vectors are still kept."""

        async def asked(limit: int) -> list[Nearest]:
            return await self._store.search_vector(
                scope,
                space_number,
                vectors,
                limit=limit,
                filter=Filter(superseded=True),
                passing=sorted(ids),
                now=EARLIEST,
            )

        found = await asked(limit)
        if any(id not in ids for hits in found for id, _ in hits):  # a store need not look at `passing`
            found = await asked(MOST_MEMORIES)
        return [[hit for hit in hits if hit[0] in ids] for hits in found]

    async def _reworded(
        self, scope: Scope, space_number: int, vectors: Sequence[Vector], memories: Sequence[Memory]
    ) -> list[Nearest]:
        none: list[Nearest] = [[] for _ in vectors]
        if not memories or self._embedder is None:
            return none
        try:
            texts = [memory.content for memory in memories]
            space, rows = await self._embedder.embed(texts, kind="document", tenant=scope.tenant)
        except ModelError as error:
            logger.warning("What was reworded since is searched by words only: %s", error)
            return none
        if space.number != space_number:
            return none
        matrix = np.asarray(rows, np.float64)
        norms = np.linalg.norm(matrix, axis=1)
        queries = (np.asarray(vector, np.float64) for vector in vectors)
        cosines = (np.clip(matrix @ query / (norms * np.linalg.norm(query)), -1.0, 1.0).round(6) for query in queries)
        return [[(one.id, float(value)) for one, value in zip(memories, row, strict=True)] for row in cosines]

    async def places(
        self, scope: Scope, ids: Sequence[str], *, reach: int = 0, version: int | None = None, now: datetime
    ) -> Sequence[RankFeatures]:
        """See `MemoryStore`."""
        return self._scopes[scope].index.places(ids, reach, now)

    async def list(
        self,
        scope: Scope,
        *,
        filter: Filter = Filter(),
        order: Order = "newest",
        limit: int = 50,
        cursor: str | None = None,
        now: datetime,
    ) -> Page:
        """The newest that pass the filter; a search asks for no other order, and for one page."""
        return Page(memories=tuple((await self._scopes[scope].passing(filter, now))[:limit]))

    async def get(
        self, scope: Scope, ids: Sequence[str], *, now: datetime, superseded: bool = False
    ) -> Mapping[str, Memory]:
        """See `MemoryStore`."""
        past, anything = self._scopes[scope], Filter(superseded=superseded)
        found = {id: past.memories[id] for id in ids if id in past.memories}
        seen = {id: memory for id, memory in found.items() if past.is_seen(memory, anything, now)}
        return seen | {id: replace(seen[id], state="short_term") for id in past.short_term.intersection(seen)}

    async def get_unchanged(
        self, scope: Scope, ids: Sequence[str], *, version: int, marks: Mapping[int, int] = {}, now: datetime
    ) -> Mapping[str, Memory] | None:
        """See `MemoryStore`: the past does not change."""
        return await self.get(scope, ids, now=now)


Searchable: TypeAlias = MemoryStore | PastMemories
"""What a search reads: a store as it is, or as it was."""


def _indexed(memories: Sequence[Memory]) -> ScopeIndex:
    index = ScopeIndex()
    index.load(
        [
            Entry(
                rank_features(memory),
                memory.state == "active",
                None if memory.pinned else memory.expires_at,
                postings_of(memory),
            )
            for memory in memories
        ]
    )
    return index
