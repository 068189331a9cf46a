"""Memories that a search looks through beside or instead of what the store searches: those of some
scopes as they were at a time, from what is kept of them now and the history of each, and the
short-term memories of one session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from ..errors import InvalidInput, ModelError
from ..records import EVERYTHING, Filter, Memory, Scope, Vector
from ..stores.base import MemoryStore
from ..stores.filter_match import is_visible
from ..stores.values import Whole
from ..stores.view import MemoriesView
from .embedding_spaces import StoreEmbedder

logger = logging.getLogger(__name__)

MAX_MEMORIES = 50_000
MAX_SHORT_TERM = 50  # of one session; the oldest go first
READ_AT_ONCE = 500
MAX_REWORDED = 1000  # are embedded anew for one search; the others are found by words


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
    if (
        today.state == "superseded"
        and today.valid_to is not None
        and memory.state in ("active", "superseded")
    ):
        memory = replace(memory, state="active" if at < today.valid_to else "superseded")
    return replace(memory, usage=today.usage)


def short_term_of(
    memories: Iterable[Memory], session_id: str | None, now: datetime
) -> Mapping[str, Memory]:
    """Return the newest short-term memories of a session that are alive, by id and as if they were
    active.
    """
    if not session_id:
        return {}
    own = (
        one
        for one in memories
        if one.session_id == session_id and is_visible(one, now, "short_term")
    )
    newest = sorted(own, key=lambda one: (one.created_at, one.id), reverse=True)[:MAX_SHORT_TERM]
    return {one.id: replace(one, state="active") for one in newest}


async def past_views(
    source: MemoryStore,
    embedder: StoreEmbedder | None,
    scopes: Sequence[Scope],
    at: datetime,
    *,
    filter: Filter = EVERYTHING,
    session_id: str | None = None,
) -> list[MemoriesView]:
    """Return views of the scopes as they were at a time, in which short-term memories of the
    session count as active. What was reworded since is embedded anew, as it was.

    Forgotten and pruned memories are gone for good, for the past too.

    Raises:
        InvalidInput: the scopes hold too many memories for that.
    """
    views: list[MemoriesView] = []
    count = 0
    for scope in scopes:
        ids = await source.kept(scope, Filter())
        if (count := count + len(ids)) > MAX_MEMORIES:
            raise InvalidInput(
                f"A search of the past reads at most {MAX_MEMORIES:,} memories, and these "
                "scopes keep more; name fewer."
            )
        memories: dict[str, Memory] = {}
        reworded: dict[str, str] = {}
        for start in range(0, len(ids), READ_AT_ONCE):
            for whole in await source.whole(scope, ids[start : start + READ_AT_ONCE]):
                if (memory := state_at(whole, at)) is not None:
                    memories[memory.id] = memory
                    if (memory.content, memory.author) != (
                        whole.memory.content,
                        whole.memory.author,
                    ):
                        reworded[memory.id] = memory.content
        short_term = short_term_of(memories.values(), session_id, at)
        views.append(
            MemoriesView(
                source,
                scope,
                {**memories, **short_term},
                vectors=partial(_vectors, source, embedder, scope, reworded),
                short_term=short_term.keys(),
                filter=filter,
                now=at,
            )
        )
    return views


async def _vectors(
    source: MemoryStore,
    embedder: StoreEmbedder | None,
    scope: Scope,
    reworded: Mapping[str, str],
    space_number: int,
    ids: Sequence[str],
) -> Mapping[str, Vector]:
    """Return the vectors of these memories as they were."""
    kept = await source.vectors(scope, space_number, [id for id in ids if id not in reworded])
    anew = [id for id in ids if id in reworded][-MAX_REWORDED:]
    if not anew or embedder is None:
        return kept
    texts = [reworded[id] for id in anew]
    try:
        space, rows = await embedder.embed(texts, kind="document", tenant=scope.tenant)
    except ModelError as error:
        logger.warning("What was reworded since is searched by words only: %s", error)
        return kept
    found = zip(anew, rows, strict=True) if space.number == space_number else ()
    return {**kept, **{id: row for id, row in found if row is not None}}
