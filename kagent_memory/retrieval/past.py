"""Memories that a search looks through beside or instead of what the store searches: those of some scopes as they were
at a time, from what is kept of them now and the history of each, and the short-term memories of one session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Self

from typing_extensions import override

from ..errors import InvalidInput, ModelError
from ..records import EVERYTHING, Filter, Memory, Scope, Vector
from ..stores.base import MemoryStore
from ..stores.filter_match import is_visible
from ..stores.values import Whole
from ..stores.view import Contents, MemoriesView
from .embedding_spaces import StoreEmbedder

logger = logging.getLogger(__name__)

MOST_MEMORIES = 50_000
MAX_SHORT_TERM = 50  # of one session; the oldest go first
READ_AT_ONCE = 500
REWORDED_AT_MOST = 1000  # are embedded anew for one search; the others are found by words


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


def short_term_of(memories: Iterable[Memory], session_id: str | None, now: datetime) -> Mapping[str, Memory]:
    """Return the newest short-term memories of a session that are alive, by id and as if they were active."""
    if not session_id:
        return {}
    own = (one for one in memories if one.session_id == session_id and is_visible(one, now, "short_term"))
    newest = sorted(own, key=lambda one: (one.created_at, one.id), reverse=True)[:MAX_SHORT_TERM]
    return {one.id: replace(one, state="active") for one in newest}


class SessionView(MemoriesView):
    """Short-term memories and nothing else, searched as if they were active."""

    @classmethod
    def of(
        cls, source: MemoryStore, scope: Scope, memories: Sequence[Memory], now: datetime, filter: Filter = EVERYTHING
    ) -> Self:
        """Return a view of these memories."""
        active = {memory.id: replace(memory, state="active") for memory in memories}
        return cls(source, scope, Contents.of(active), filter=filter, now=now)

    @override
    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        found = await super().memories(ids)
        return {id: replace(memory, state="short_term") for id, memory in found.items()}


class _PastContents(Contents):
    """The memories of a scope as they were.

    Args:
        memories: by id.
        reworded: the ids of those that say something else today, so that their vectors are gone.
        short_term: the ids of those that are short-term memories in truth.
    """

    def __init__(self, memories: Mapping[str, Memory], reworded: Set[str], short_term: Set[str]) -> None:
        async def read() -> Mapping[str, Memory]:
            return memories

        super().__init__(read)
        self.reworded, self.short_term = reworded, short_term


class PastView(MemoriesView):
    """A scope as it was at a time. Forgotten and pruned memories are gone for good, for the past too."""

    def __init__(
        self,
        source: MemoryStore,
        scope: Scope,
        contents: _PastContents,
        *,
        embedder: StoreEmbedder | None,
        filter: Filter,
        now: datetime,
    ) -> None:
        super().__init__(source, scope, contents, filter=filter, now=now)
        self._past, self._embedder = contents, embedder

    @classmethod
    async def all_at(
        cls,
        source: MemoryStore,
        embedder: StoreEmbedder | None,
        scopes: Sequence[Scope],
        at: datetime,
        *,
        filter: Filter = EVERYTHING,
        session_id: str | None = None,
    ) -> list[Self]:
        """Read the scopes with the history of all their memories; those that were the session's count as active.

        Raises:
            InvalidInput: they hold too many memories for that.
        """
        views: list[Self] = []
        read = 0
        for scope in scopes:
            ids = await source.kept(scope, Filter())
            if (read := read + len(ids)) > MOST_MEMORIES:
                raise InvalidInput(
                    f"A search of the past reads at most {MOST_MEMORIES:,} memories, and these scopes keep more; name "
                    "fewer."
                )
            memories, reworded = dict[str, Memory](), set[str]()
            for start in range(0, len(ids), READ_AT_ONCE):
                for whole in await source.whole(scope, ids[start : start + READ_AT_ONCE]):
                    if (memory := state_at(whole, at)) is not None:
                        memories[memory.id], today = memory, whole.memory
                        if (memory.content, memory.author) != (today.content, today.author):
                            reworded.add(memory.id)
            own = short_term_of(memories.values(), session_id, at)
            contents = _PastContents({**memories, **own}, reworded, own.keys())
            views.append(cls(source, scope, contents, embedder=embedder, filter=filter, now=at))
        return views

    @override
    def under(self, filter: Filter, now: datetime) -> Self:
        return type(self)(self.source, self.scope, self._past, embedder=self._embedder, filter=filter, now=now)

    @override
    async def memories(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        found = await super().memories(ids)
        return {
            id: replace(memory, state="short_term") if id in self._past.short_term else memory
            for id, memory in found.items()
        }

    @override
    async def _vectors(self, space_number: int, ids: Sequence[str]) -> Mapping[str, Vector]:
        """See `MemoriesView`; what was reworded since is embedded anew, as it was."""
        same = [id for id in ids if id not in self._past.reworded]
        kept = await super()._vectors(space_number, same)
        reworded = [id for id in ids if id in self._past.reworded][-REWORDED_AT_MOST:]
        if not reworded or self._embedder is None:
            return kept
        memories, _ = await self._contents.known()
        try:
            texts = [memories[id].content for id in reworded]
            space, rows = await self._embedder.embed(texts, kind="document", tenant=self.scope.tenant)
        except ModelError as error:
            logger.warning("What was reworded since is searched by words only: %s", error)
            return kept
        return {**kept, **dict(zip(reworded, rows, strict=True))} if space.number == space_number else kept
